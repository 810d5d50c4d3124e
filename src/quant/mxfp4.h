// MXFP4: blocks of 32 weights, 4-bit floats (sign, 2 bits of exponent, 1 of mantissa) with a power of two as their
// scale. weight = kValues[q] * 2^(e - 128): the table holds the floats doubled.
#pragma once
#include <cassert>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace sluice::quant::mxfp4 {

inline constexpr size_t kBlock = 32;
struct Block {
  uint8_t e;
  uint8_t qs[16];  // byte i: weight i in the low nibble, weight i + 16 in the high one
};
static_assert(sizeof(Block) == 17);

static constexpr int8_t kValues[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

static inline float scale_of(uint8_t e) {
  const uint32_t bits = e < 2 ? 0x00200000u << e : (e - 1u) << 23;  // the two least are denormal
  float scale;
  std::memcpy(&scale, &bits, sizeof(scale));
  return scale;
}

// The code nearest to a scaled weight; of two as near the smaller one. NaN gives 0.
static inline uint8_t to_code(float scaled) {
  constexpr float kMiddles[] = {0.5f, 1.5f, 2.5f, 3.5f, 5.0f, 7.0f, 10.0f};
  unsigned code = 0;
  for (const float middle : kMiddles) code += std::fabs(scaled) > middle ? 1u : 0u;
  return static_cast<uint8_t>(scaled < 0.0f && code != 0 ? code | 8u : code);
}

static inline float squared_error(const float* x, float scale) {
  float sum = 0.0f;
  for (size_t i = 0; i < kBlock; ++i) {
    const float error = x[i] - static_cast<float>(kValues[to_code(x[i] / scale)]) * scale;
    sum += error * error;
  }
  return sum;
}

// The largest float is 6: an exponent that makes the largest weight 4 to 8, or the next one, whichever is nearer.
static inline uint8_t exponent_of(const float* x) {
  float largest = 0.0f;
  for (size_t i = 0; i < kBlock; ++i) {
    if (std::fabs(x[i]) > largest) largest = std::fabs(x[i]);
  }
  if (!(largest > 0.0f)) return 0;
  int exponent = 0;
  std::frexp(largest, &exponent);                            // largest = 0.5 .. 1 times 2^exponent
  const int e = std::isinf(largest) ? 254 : exponent + 124;  // 2^(e - 128) * 8 .. 16
  if (e < 0) return 0;
  if (e >= 254) return 254;
  const auto low = static_cast<uint8_t>(e), high = static_cast<uint8_t>(e + 1);
  return squared_error(x, scale_of(high)) < squared_error(x, scale_of(low)) ? high : low;
}

static inline void quantize_row(const float* x, std::byte* out, size_t n) {
  assert(n % kBlock == 0);
  for (size_t b = 0; b < n / kBlock; ++b, x += kBlock, out += sizeof(Block)) {
    Block block;
    block.e = exponent_of(x);
    const float scale = scale_of(block.e);
    for (size_t i = 0; i < kBlock / 2; ++i) {
      const unsigned low = to_code(x[i] / scale), high = to_code(x[i + kBlock / 2] / scale);
      block.qs[i] = static_cast<uint8_t>(low | high << 4);
    }
    std::memcpy(out, &block, sizeof(Block));
  }
}

static inline void dequantize_row(const std::byte* in, float* out, size_t n) {
  assert(n % kBlock == 0);
  for (size_t b = 0; b < n / kBlock; ++b, in += sizeof(Block), out += kBlock) {
    Block block;
    std::memcpy(&block, in, sizeof(Block));
    const float scale = scale_of(block.e);
    for (size_t i = 0; i < kBlock / 2; ++i) {
      out[i] = static_cast<float>(kValues[block.qs[i] & 15]) * scale;
      out[i + kBlock / 2] = static_cast<float>(kValues[block.qs[i] >> 4]) * scale;
    }
  }
}

}  // namespace sluice::quant::mxfp4

namespace sluice::quant {
namespace MXFP4 = mxfp4;  // the row's name in types.inc
}
