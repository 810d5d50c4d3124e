// IQ1_M: blocks of 256 weights, eights of which choose from 2048 entries; each group of 16 has a 3-bit scale.
// weight = (value +- 1/8) * d * (2 scale + 1).
#pragma once
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "quant/half.h"
#include "quant/iq_chunks.h"

namespace sluice::quant::iq1_m {

inline constexpr size_t kBlock = 256;
struct Block {
  uint8_t qs[32];      // of eight weights: the low bits of the entry
  uint8_t qh[16];      // nibble i: the 3 high bits of entry i, and 1 for minus 1/8
  uint16_t scales[4];  // four times 3 bits; the highest four of all make d, an f16
};
static_assert(sizeof(Block) == 56);

static constexpr RowEncoder quantize_row = kNoEncoder;

static inline void dequantize_row(const std::byte* in, float* out, size_t n) {
  assert(n % kBlock == 0);
  for (size_t b = 0; b < n / kBlock; ++b, in += sizeof(Block), out += kBlock) {
    Block block;
    std::memcpy(&block, in, sizeof(Block));
    uint32_t d = 0;
    for (size_t i = 0; i < 4; ++i) d |= static_cast<uint32_t>(block.scales[i] >> 12) << (4 * i);
    for (size_t i = 0; i < 32; ++i) {
      const uint32_t high = block.qh[i / 2] >> (i % 2 * 4), scale = block.scales[i / 8] >> (i / 2 % 4 * 3) & 7;
      put_iq1(block.qs[i] | (high & 7) << 8, (high & 8) != 0,
              f16_to_f32(static_cast<uint16_t>(d)) * static_cast<float>(2 * scale + 1), out + 8 * i);
    }
  }
}

}  // namespace sluice::quant::iq1_m

namespace sluice::quant {
namespace IQ1_M = iq1_m;  // the row's name in types.inc
}
