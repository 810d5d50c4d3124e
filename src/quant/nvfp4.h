// NVFP4: blocks of 64 weights, 4-bit floats as in MXFP4; each group of 16 has a scale, an unsigned 8-bit float.
// weight = kValues[q] * scale / 2.
#pragma once
#include <cassert>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "quant/iq_chunks.h"
#include "quant/mxfp4.h"

namespace sluice::quant::nvfp4 {

inline constexpr size_t kBlock = 64;
struct Block {
  uint8_t scales[4];  // 4 bits of exponent, 3 of mantissa
  uint8_t qs[4][8];   // of a group, byte i: weight i in the low nibble, weight i + 8 in the high one
};
static_assert(sizeof(Block) == 36);

static constexpr RowEncoder quantize_row = kNoEncoder;

// Half of a scale, since the table holds the floats doubled. The topmost bit says nothing; 0x7f is no number and gives
// 0.
static inline float half_scale(uint8_t e) {
  if (e == 0x7f) return 0.0f;
  const uint32_t exponent = e >> 3 & 15, mantissa = e & 7;
  if (exponent == 0) return static_cast<float>(mantissa) * 0x1p-10f;
  return std::ldexp(static_cast<float>(8 + mantissa), static_cast<int>(exponent) - 11);
}

static inline void dequantize_row(const std::byte* in, float* out, size_t n) {
  assert(n % kBlock == 0);
  for (size_t b = 0; b < n / kBlock; ++b, in += sizeof(Block), out += kBlock) {
    Block block;
    std::memcpy(&block, in, sizeof(Block));
    for (size_t g = 0; g < 4; ++g) {
      const float scale = half_scale(block.scales[g]);
      for (size_t i = 0; i < 8; ++i) {
        out[g * 16 + i] = static_cast<float>(mxfp4::kValues[block.qs[g][i] & 15]) * scale;
        out[g * 16 + i + 8] = static_cast<float>(mxfp4::kValues[block.qs[g][i] >> 4]) * scale;
      }
    }
  }
}

}  // namespace sluice::quant::nvfp4

namespace sluice::quant {
namespace NVFP4 = nvfp4;  // the row's name in types.inc
}
