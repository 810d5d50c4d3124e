// IQ2_XS: blocks of 256 weights, eights of which choose from 512 entries; each group of 16 has a 4-bit scale.
// weight = +- value * d * (scale + 1/2) / 4.
#pragma once
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "quant/half.h"
#include "quant/iq_chunks.h"

namespace sluice::quant::iq2_xs {

inline constexpr size_t kBlock = 256;
struct Block {
  uint16_t d;         // f16
  uint16_t qs[32];    // of eight weights: 9 bits of the entry, 7 of signs
  uint8_t scales[8];  // nibble g
};
static_assert(sizeof(Block) == 74);

static constexpr RowEncoder quantize_row = kNoEncoder;

static inline void dequantize_row(const std::byte* in, float* out, size_t n) {
  assert(n % kBlock == 0);
  for (size_t b = 0; b < n / kBlock; ++b, in += sizeof(Block), out += kBlock) {
    Block block;
    std::memcpy(&block, in, sizeof(Block));
    for (size_t i = 0; i < 32; ++i) {
      const float scale =
          f16_to_f32(block.d) * (static_cast<float>(block.scales[i / 4] >> (i / 2 % 2 * 4) & 15) + 0.5f) * 0.25f;
      put_iq2(grid_entry(kernels::kIq2XsGrid, block.qs[i] & 511), eight_signs(block.qs[i] >> 9), scale, out + 8 * i);
    }
  }
}

}  // namespace sluice::quant::iq2_xs

namespace sluice::quant {
namespace IQ2_XS = iq2_xs;  // the row's name in types.inc
}
