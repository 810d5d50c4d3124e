// Q6_K: blocks of 256 weights, 6 bits each, an 8-bit scale per 16 weights and one scale for the block.
// weight = (q - 32) * scales[weight / 16] * d.
#pragma once
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "quant/fit.h"
#include "quant/half.h"

namespace sluice::quant::q6_k {

inline constexpr size_t kBlock = 256;
inline constexpr size_t kGroup = 16;  // weights of one 8-bit scale
// Weight w = half * 128 + part * 32 + i, with half 0..1, part 0..3, i 0..31:
// its low 4 bits are nibble (part / 2) of ql[half * 64 + part % 2 * 32 + i],
// its high 2 bits are bit pair `part` of qh[half * 32 + i].
struct Block {
  uint8_t ql[128];
  uint8_t qh[64];
  int8_t scales[16];
  uint16_t d;  // f16
};
static_assert(sizeof(Block) == 210);

static inline void quantize_block(const float* x, Block& block) {
  float fits[kBlock / kGroup];
  for (size_t g = 0; g < kBlock / kGroup; ++g) fits[g] = fit_signed<32, kGroup>(x + g * kGroup);
  SignedScales<kBlock / kGroup> scales;
  scales.fit<128>(fits);
  std::memset(&block, 0, sizeof(Block));
  if (scales.d == 0) return;  // every weight decodes to zero
  block.d = scales.d;
  const float d = f16_to_f32(block.d);
  for (size_t g = 0; g < kBlock / kGroup; ++g) {
    block.scales[g] = static_cast<int8_t>(scales.code[g]);
    const float step = d * static_cast<float>(scales.code[g]);
    for (size_t w = g * kGroup; w < (g + 1) * kGroup; ++w) {
      const auto q = static_cast<unsigned>((step != 0.0f ? signed_code<32>(x[w] / step) : 0) + 32);
      const size_t half = w / 128, part = w % 128 / 32, i = w % 32;
      block.ql[half * 64 + part % 2 * 32 + i] |= static_cast<uint8_t>((q & 15u) << (part / 2 * 4));
      block.qh[half * 32 + i] |= static_cast<uint8_t>((q >> 4) << (part * 2));
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
  for (size_t b = 0; b < n / kBlock; ++b, in += sizeof(Block), out += kBlock) {
    Block block;
    std::memcpy(&block, in, sizeof(Block));
    const float d = f16_to_f32(block.d);
    for (size_t w = 0; w < kBlock; ++w) {
      const size_t half = w / 128, part = w % 128 / 32, i = w % 32;
      const int low = block.ql[half * 64 + part % 2 * 32 + i] >> (part / 2 * 4) & 15;
      const int high = block.qh[half * 32 + i] >> (part * 2) & 3;
      const auto scale = block.scales[w / kGroup];
      out[w] = d * static_cast<float>(scale) * static_cast<float>((low | high << 4) - 32);
    }
  }
}

}  // namespace sluice::quant::q6_k

namespace sluice::quant {
namespace Q6_K = q6_k;  // the row's name in types.inc
}
