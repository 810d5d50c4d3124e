// IQ3_S: blocks of 256 weights, fours of which choose from 512 entries; each group of 32 has a 4-bit scale.
// weight = +- value * d * (2 scale + 1).
#pragma once
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "quant/half.h"
#include "quant/iq_chunks.h"

namespace sluice::quant::iq3_s {

inline constexpr size_t kBlock = 256;
struct Block {
  uint16_t d;         // f16
  uint8_t qs[64];     // of four weights: the low bits of the entry
  uint8_t qh[8];      // bit i: the high bit of entry i of eight
  uint8_t signs[32];  // of eight weights
  uint8_t scales[4];  // nibble g
};
static_assert(sizeof(Block) == 110);

static constexpr RowEncoder quantize_row = kNoEncoder;

static constexpr float kValues[8] = {1, 3, 5, 7, 9, 11, 13, 15};

static inline void dequantize_row(const std::byte* in, float* out, size_t n) {
  assert(n % kBlock == 0);
  for (size_t b = 0; b < n / kBlock; ++b, in += sizeof(Block), out += kBlock) {
    Block block;
    std::memcpy(&block, in, sizeof(Block));
    for (size_t i = 0; i < 32; ++i) {
      const uint32_t scale = block.scales[i / 8] >> (i / 4 % 2 * 4) & 15, high = block.qh[i / 4] >> (i % 4 * 2);
      const uint32_t low_entry = block.qs[2 * i] | (high & 1) << 8, high_entry = block.qs[2 * i + 1] | (high >> 1 & 1)
                                                                                                           << 8;
      put_iq3(grid_entry(kernels::kIq3SGrid, low_entry), grid_entry(kernels::kIq3SGrid, high_entry), kValues,
              block.signs[i], f16_to_f32(block.d) * static_cast<float>(2 * scale + 1), out + 8 * i);
    }
  }
}

}  // namespace sluice::quant::iq3_s

namespace sluice::quant {
namespace IQ3_S = iq3_s;  // the row's name in types.inc
}
