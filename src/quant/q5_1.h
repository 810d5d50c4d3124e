// Q5_1: blocks of 32 weights, 5 bits each, one scale and one offset. weight = q * d + m.
#pragma once
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "quant/fit.h"
#include "quant/half.h"

namespace sluice::quant::q5_1 {

inline constexpr size_t kBlock = 32;
struct Block {
  uint16_t d, m;   // f16
  uint8_t qh[4];   // bit i % 8 of byte i / 8: the fifth bit of weight i
  uint8_t qs[16];  // byte i: weight i in the low nibble, weight i + 16 in the high one
};
static_assert(sizeof(Block) == 24);

static inline void quantize_row(const float* x, std::byte* out, size_t n) {
  assert(n % kBlock == 0);
  for (size_t b = 0; b < n / kBlock; ++b, x += kBlock, out += sizeof(Block)) {
    const Range range = range_of<31, kBlock>(x);
    Block block = {};
    block.d = f32_to_f16(range.step);
    block.m = f32_to_f16(range.low);
    for (size_t i = 0; i < kBlock; ++i) {
      const int code = range.code<31>(x[i]);
      block.qs[i % 16] |= static_cast<uint8_t>((code & 15) << (i / 16 * 4));
      block.qh[i / 8] |= static_cast<uint8_t>(code >> 4 << (i % 8));
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
    for (size_t i = 0; i < kBlock; ++i) {
      const int code = (block.qs[i % 16] >> (i / 16 * 4) & 15) | (block.qh[i / 8] >> (i % 8) & 1) << 4;
      out[i] = static_cast<float>(code) * d + m;
    }
  }
}

}  // namespace sluice::quant::q5_1

namespace sluice::quant {
namespace Q5_1 = q5_1;  // the row's name in types.inc
}
