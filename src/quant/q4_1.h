// Q4_1: blocks of 32 weights, 4 bits each, one scale and one offset. weight = q * d + m.
#pragma once
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "quant/fit.h"
#include "quant/half.h"

namespace sluice::quant::q4_1 {

inline constexpr size_t kBlock = 32;
struct Block {
  uint16_t d, m;   // f16
  uint8_t qs[16];  // byte i: weight i in the low nibble, weight i + 16 in the high one
};
static_assert(sizeof(Block) == 20);

static inline void quantize_row(const float* x, std::byte* out, size_t n) {
  assert(n % kBlock == 0);
  for (size_t b = 0; b < n / kBlock; ++b, x += kBlock, out += sizeof(Block)) {
    const Range range = range_of<15, kBlock>(x);
    Block block;
    block.d = f32_to_f16(range.step);
    block.m = f32_to_f16(range.low);
    for (size_t i = 0; i < kBlock / 2; ++i) {
      const int low = range.code<15>(x[i]), high = range.code<15>(x[i + kBlock / 2]);
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
    const float d = f16_to_f32(block.d), m = f16_to_f32(block.m);
    for (size_t i = 0; i < kBlock / 2; ++i) {
      out[i] = static_cast<float>(block.qs[i] & 15) * d + m;
      out[i + kBlock / 2] = static_cast<float>(block.qs[i] >> 4) * d + m;
    }
  }
}

}  // namespace sluice::quant::q4_1

namespace sluice::quant {
namespace Q4_1 = q4_1;  // the row's name in types.inc
}
