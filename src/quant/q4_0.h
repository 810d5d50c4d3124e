// Q4_0: blocks of 32 weights, 4 bits each, one scale. weight = (nibble - 8) * d.
#pragma once
#include <cassert>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "quant/half.h"

namespace sluice::quant::q4_0 {

inline constexpr size_t kBlock = 32;
struct Block {
  uint16_t d;      // f16
  uint8_t qs[16];  // byte i: weight i in the low nibble, weight i + 16 in the high one
};
static_assert(sizeof(Block) == 18);

// nibble = floor(x / d + 8.5), limited to 0..15. NaN gives 0: the cast of a NaN would be undefined.
static inline uint8_t to_nibble(float scaled) {
  const float shifted = scaled + 8.5f;
  if (!(shifted > 0.0f)) return 0;
  return shifted >= 15.0f ? 15 : static_cast<uint8_t>(shifted);
}

// The weight of largest magnitude becomes exactly -8 steps, so that all 16 codes are of use.
static inline void quantize_row(const float* x, std::byte* out, size_t n) {
  assert(n % kBlock == 0);
  for (size_t b = 0; b < n / kBlock; ++b, x += kBlock, out += sizeof(Block)) {
    float extreme = 0.0f;
    for (size_t i = 0; i < kBlock; ++i) {
      if (std::fabs(x[i]) > std::fabs(extreme)) extreme = x[i];
    }
    const float d = extreme / -8.0f;
    const float inverse = d != 0.0f ? 1.0f / d : 0.0f;
    Block block;
    block.d = f32_to_f16(d);
    for (size_t i = 0; i < kBlock / 2; ++i) {
      const unsigned low = to_nibble(x[i] * inverse), high = to_nibble(x[i + kBlock / 2] * inverse);
      block.qs[i] = static_cast<uint8_t>(low | (high << 4));
    }
    std::memcpy(out, &block, sizeof(Block));
  }
}

static inline void dequantize_row(const std::byte* in, float* out, size_t n) {
  assert(n % kBlock == 0);
  for (size_t b = 0; b < n / kBlock; ++b, in += sizeof(Block), out += kBlock) {
    Block block;
    std::memcpy(&block, in, sizeof(Block));
    const float d = f16_to_f32(block.d);
    for (size_t i = 0; i < kBlock / 2; ++i) {
      out[i] = static_cast<float>((block.qs[i] & 15) - 8) * d;
      out[i + kBlock / 2] = static_cast<float>((block.qs[i] >> 4) - 8) * d;
    }
  }
}

}  // namespace sluice::quant::q4_0

namespace sluice::quant {
namespace Q4_0 = q4_0;  // the row's name in types.inc
}
