// Q8_0: blocks of 32 weights, 8 bits each, one scale. weight = q * d.
#pragma once
#include <cassert>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "quant/half.h"

namespace sluice::quant::q8_0 {

inline constexpr size_t kBlock = 32;
struct Block {
  uint16_t d;     // f16
  int8_t qs[32];  // weight i
};
static_assert(sizeof(Block) == 34);

// Rounds half away from zero. NaN gives 0: the cast of a NaN would be undefined.
static inline int8_t to_code(float scaled) {
  const float rounded = std::round(scaled);
  if (!(std::fabs(rounded) <= 127.0f)) return static_cast<int8_t>(rounded > 0 ? 127 : rounded < 0 ? -127 : 0);
  return static_cast<int8_t>(rounded);
}

static inline void quantize_row(const float* x, std::byte* out, size_t n) {
  assert(n % kBlock == 0);
  for (size_t b = 0; b < n / kBlock; ++b, x += kBlock, out += sizeof(Block)) {
    float largest = 0.0f;
    for (size_t i = 0; i < kBlock; ++i) {
      if (std::fabs(x[i]) > largest) largest = std::fabs(x[i]);
    }
    const float d = largest / 127.0f;
    const float inverse = d != 0.0f ? 1.0f / d : 0.0f;
    Block block;
    block.d = f32_to_f16(d);
    for (size_t i = 0; i < kBlock; ++i) block.qs[i] = to_code(x[i] * inverse);
    std::memcpy(out, &block, sizeof(Block));
  }
}

static inline void dequantize_row(const std::byte* in, float* out, size_t n) {
  assert(n % kBlock == 0);
  for (size_t b = 0; b < n / kBlock; ++b, in += sizeof(Block), out += kBlock) {
    Block block;
    std::memcpy(&block, in, sizeof(Block));
    const float d = f16_to_f32(block.d);
    for (size_t i = 0; i < kBlock; ++i) out[i] = static_cast<float>(block.qs[i]) * d;
  }
}

}  // namespace sluice::quant::q8_0

namespace sluice::quant {
namespace Q8_0 = q8_0;  // the row's name in types.inc
}
