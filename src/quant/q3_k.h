// Q3_K: blocks of 256 weights, 3 bits each; each group of 16 has a 6-bit scale, the block one for those.
// weight = (q - 4) * (d * (scale - 32)).
#pragma once
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "quant/fit.h"
#include "quant/half.h"

namespace sluice::quant::q3_k {

inline constexpr size_t kBlock = 256;
inline constexpr size_t kGroup = 16;  // weights of one 6-bit scale
// Weight w = half * 128 + part * 32 + i, with half 0..1, part 0..3, i 0..31:
// its low 2 bits are bit pair `part` of qs[half * 32 + i], its third is bit half * 4 + part of hmask[i].
struct Block {
  uint8_t hmask[32];
  uint8_t qs[64];
  uint8_t scales[12];  // low 4 bits: nibble g / 8 of byte g % 8; upper 2: bit pair g / 4 of byte 8 + g % 4
  uint16_t d;          // f16
};
static_assert(sizeof(Block) == 110);

static inline int scale_code(const uint8_t* scales, size_t g) {
  return ((scales[g % 8] >> (g / 8 * 4) & 15) | (scales[8 + g % 4] >> (g / 4 * 2) & 3) << 4) - 32;
}

static inline void quantize_block(const float* x, Block& block) {
  float fits[kBlock / kGroup];
  for (size_t g = 0; g < kBlock / kGroup; ++g) fits[g] = fit_signed<4, kGroup>(x + g * kGroup);
  SignedScales<kBlock / kGroup> scales;
  scales.fit<32>(fits);
  block = {};
  block.d = scales.d;
  for (size_t g = 0; g < kBlock / kGroup; ++g) {
    const auto code = static_cast<unsigned>(scales.code[g] + 32);
    block.scales[g % 8] |= static_cast<uint8_t>((code & 15u) << (g / 8 * 4));
    block.scales[8 + g % 4] |= static_cast<uint8_t>(code >> 4 << (g / 4 * 2));
    const float step = f16_to_f32(scales.d) * static_cast<float>(scales.code[g]);
    for (size_t w = g * kGroup; w < (g + 1) * kGroup; ++w) {
      const auto q = static_cast<unsigned>((step != 0.0f ? signed_code<4>(x[w] / step) : 0) + 4);
      const size_t half = w / 128, part = w % 128 / 32, i = w % 32;
      block.qs[half * 32 + i] |= static_cast<uint8_t>((q & 3u) << (part * 2));
      block.hmask[i] |= static_cast<uint8_t>(q >> 2 << (half * 4 + part));
    }
  }
}

static inline void quantize_row(const float* x, std::byte* out, size_t n) {
  assert(n % kBlock == 0);
  for (size_t b = 0; b < n / kBlock; ++b, x += kBlock, out += sizeof(Block)) {
    Block block;
    quantize_block(x, block);
    std::memcpy(out, &block, sizeof(Block));
  }
}

static inline void dequantize_row(const std::byte* in, float* out, size_t n) {
  assert(n % kBlock == 0);
  for (size_t b = 0; b < n / kBlock; ++b, in += sizeof(Block)) {
    Block block;
    std::memcpy(&block, in, sizeof(Block));
    const float d = f16_to_f32(block.d);
    for (size_t g = 0; g < kBlock / kGroup; ++g, out += kGroup) {
      const float scale = d * static_cast<float>(scale_code(block.scales, g));
      const uint8_t *qs = block.qs + g / 8 * 32 + g % 2 * 16, *high = block.hmask + g % 2 * 16;
      const size_t low_shift = g % 8 / 2 * 2, high_shift = g / 2;
      for (size_t i = 0; i < kGroup; ++i) {
        const int code = (qs[i] >> low_shift & 3) | (high[i] >> high_shift & 1) << 2;
        out[i] = static_cast<float>(code - 4) * scale;
      }
    }
  }
}

}  // namespace sluice::quant::q3_k

namespace sluice::quant {
namespace Q3_K = q3_k;  // the row's name in types.inc
}
