// IQ2_XXS: blocks of 256 weights, eights of which choose from 256 entries; each group of 32 has a 4-bit scale.
// weight = +- value * d * (scale + 1/2) / 4.
#pragma once
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "quant/half.h"
#include "quant/iq_chunks.h"

namespace sluice::quant::iq2_xxs {

inline constexpr size_t kBlock = 256;
struct Block {
  uint16_t d;         // f16
  uint16_t qs[8][4];  // of a group: four bytes of entries; then four times 7 bits of signs and the scale
};
static_assert(sizeof(Block) == 66);

static constexpr RowEncoder quantize_row = kNoEncoder;

static inline void dequantize_row(const std::byte* in, float* out, size_t n) {
  assert(n % kBlock == 0);
  for (size_t b = 0; b < n / kBlock; ++b, in += sizeof(Block), out += kBlock) {
    Block block;
    std::memcpy(&block, in, sizeof(Block));
    for (size_t g = 0; g < 8; ++g) {
      uint8_t entries[4];
      uint32_t rest;
      std::memcpy(entries, block.qs[g], sizeof(entries));
      std::memcpy(&rest, block.qs[g] + 2, sizeof(rest));
      const float scale = f16_to_f32(block.d) * (static_cast<float>(rest >> 28) + 0.5f) * 0.25f;
      for (uint32_t i = 0; i < 4; ++i)
        put_iq2(grid_entry(kernels::kIq2XxsGrid, entries[i]), eight_signs(rest >> (7 * i)), scale,
                out + g * 32 + i * 8);
    }
  }
}

}  // namespace sluice::quant::iq2_xxs

namespace sluice::quant {
namespace IQ2_XXS = iq2_xxs;  // the row's name in types.inc
}
