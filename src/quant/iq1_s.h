// IQ1_S: blocks of 256 weights, eights of which choose from 2048 entries; each group of 32 has a 3-bit scale.
// weight = (value +- 1/8) * d * (2 scale + 1).
#pragma once
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "quant/half.h"
#include "quant/iq_chunks.h"

namespace sluice::quant::iq1_s {

inline constexpr size_t kBlock = 256;
struct Block {
  uint16_t d;      // f16
  uint8_t qs[32];  // of eight weights: the low bits of the entry
  uint16_t qh[8];  // of a group: four times 3 bits, the high ones of its entries; the scale; 1 for minus 1/8
};
static_assert(sizeof(Block) == 50);

static constexpr RowEncoder quantize_row = kNoEncoder;

static inline void dequantize_row(const std::byte* in, float* out, size_t n) {
  assert(n % kBlock == 0);
  for (size_t b = 0; b < n / kBlock; ++b, in += sizeof(Block), out += kBlock) {
    Block block;
    std::memcpy(&block, in, sizeof(Block));
    for (size_t i = 0; i < 32; ++i) {
      const uint32_t qh = block.qh[i / 4], high = qh >> (i % 4 * 3) & 7;
      const float scale = f16_to_f32(block.d) * static_cast<float>(2 * (qh >> 12 & 7) + 1);
      put_iq1(block.qs[i] | high << 8, (qh >> 15) != 0, scale, out + 8 * i);
    }
  }
}

}  // namespace sluice::quant::iq1_s

namespace sluice::quant {
namespace IQ1_S = iq1_s;  // the row's name in types.inc
}
