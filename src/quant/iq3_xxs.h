// IQ3_XXS: blocks of 256 weights, fours of which choose from 256 entries; each group of 32 has a 4-bit scale.
// weight = +- value * d * (scale + 1/2) / 2.
#pragma once
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "quant/half.h"
#include "quant/iq_chunks.h"

namespace sluice::quant::iq3_xxs {

inline constexpr size_t kBlock = 256;
struct Block {
  uint16_t d;            // f16
  uint8_t qs[64];        // of four weights: the entry
  uint16_t signs[8][2];  // of a group: four times 7 bits of signs and the scale
};
static_assert(sizeof(Block) == 98);

static constexpr RowEncoder quantize_row = kNoEncoder;

static constexpr float kValues[8] = {4, 12, 20, 28, 36, 44, 52, 62};

static inline void dequantize_row(const std::byte* in, float* out, size_t n) {
  assert(n % kBlock == 0);
  for (size_t b = 0; b < n / kBlock; ++b, in += sizeof(Block), out += kBlock) {
    Block block;
    std::memcpy(&block, in, sizeof(Block));
    for (size_t g = 0; g < 8; ++g) {
      uint32_t rest;
      std::memcpy(&rest, block.signs[g], sizeof(rest));
      const float scale = f16_to_f32(block.d) * (static_cast<float>(rest >> 28) + 0.5f) * 0.5f;
      for (uint32_t i = 0; i < 4; ++i) {
        const uint8_t* q = block.qs + g * 8 + i * 2;
        put_iq3(grid_entry(kernels::kIq3XxsGrid, q[0]), grid_entry(kernels::kIq3XxsGrid, q[1]), kValues,
                eight_signs(rest >> (7 * i)), scale, out + g * 32 + i * 8);
      }
    }
  }
}

}  // namespace sluice::quant::iq3_xxs

namespace sluice::quant {
namespace IQ3_XXS = iq3_xxs;  // the row's name in types.inc
}
