// Conversions between float and the two 16-bit formats, in integer arithmetic: the same bits on every machine.
//
// Row functions and conversions in this folder are `static inline`: files compiled for a wider instruction set include
// them too, and an external inline copy from such a file could be linked into code that must run on any processor.
#pragma once
#include <bit>
#include <cstdint>

namespace sluice::quant {

// NaNs become quiet and keep the upper bits of their payload, as processors do it.
static inline float f16_to_f32(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t exponent = (half >> 10) & 0x1fu;
  const uint32_t mantissa = half & 0x3ffu;
  uint32_t magnitude;
  if (exponent == 0) {
    magnitude = std::bit_cast<uint32_t>(static_cast<float>(mantissa) * 0x1p-24f);
  } else if (exponent == 31) {
    magnitude = 0x7f800000u | (mantissa << 13) | (mantissa != 0 ? 0x400000u : 0u);
  } else {
    magnitude = ((exponent + 112) << 23) | (mantissa << 13);
  }
  return std::bit_cast<float>(sign | magnitude);
}

// Rounds to nearest, ties to even; from 65520 on the result is infinite.
static inline uint16_t f32_to_f16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x1ffu));
  if (magnitude >= 0x47800000u) return static_cast<uint16_t>(sign | 0x7c00u);
  if (magnitude < 0x33000000u) return static_cast<uint16_t>(sign);  // below half of the smallest denormal
  if (magnitude < 0x38800000u) {                                    // denormal: count units of 2^-24
    const uint32_t shift = 126 - (magnitude >> 23);                 // 14..24
    const uint32_t mantissa = (magnitude & 0x7fffffu) | 0x800000u;
    const uint32_t rest = mantissa & ((1u << shift) - 1), tie = 1u << (shift - 1);
    uint32_t units = mantissa >> shift;
    if (rest > tie || (rest == tie && (units & 1u) != 0)) ++units;
    return static_cast<uint16_t>(sign | units);
  }
  const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}

static inline float bf16_to_f32(uint16_t value) { return std::bit_cast<float>(static_cast<uint32_t>(value) << 16); }

// Rounds to nearest, ties to even. NaNs become quiet.
static inline uint16_t f32_to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

}  // namespace sluice::quant
