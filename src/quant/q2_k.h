// Q2_K: blocks of 256 weights, 2 bits each; each group of 16 has a 4-bit scale and a 4-bit min, the block two scales
// for those. weight = q * (d * scale) - dmin * min.
#pragma once
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "quant/fit.h"
#include "quant/half.h"

namespace sluice::quant::q2_k {

inline constexpr size_t kBlock = 256;
inline constexpr size_t kGroup = 16;  // weights of one scale and min
struct Block {
  uint8_t scales[16];  // of group g: scale in the low nibble, min in the high one
  uint8_t qs[64];      // weight half * 128 + part * 32 + i: bit pair `part` of byte half * 32 + i
  uint16_t d, dmin;    // f16
};
static_assert(sizeof(Block) == 84);

static inline void quantize_row(const float* x, std::byte* out, size_t n) {
  assert(n % kBlock == 0);
  for (size_t b = 0; b < n / kBlock; ++b, x += kBlock, out += sizeof(Block)) {
    ScaleMins<kBlock / kGroup> fit;
    fit.fit<3, 15, kGroup>(x);
    Block block = {};
    block.d = fit.d;
    block.dmin = fit.dmin;
    for (size_t g = 0; g < kBlock / kGroup; ++g) block.scales[g] = static_cast<uint8_t>(fit.scale[g] | fit.min[g] << 4);
    for (size_t w = 0; w < kBlock; ++w) {
      const size_t half = w / 128, part = w % 128 / 32, i = w % 32;
      block.qs[half * 32 + i] |= static_cast<uint8_t>(fit.code<3>(w / kGroup, x[w]) << (part * 2));
    }
    std::memcpy(out, &block, sizeof(Block));
  }
}

static inline void dequantize_row(const std::byte* in, float* out, size_t n) {
  assert(n % kBlock == 0);
  for (size_t b = 0; b < n / kBlock; ++b, in += sizeof(Block)) {
    Block block;
    std::memcpy(&block, in, sizeof(Block));
    const float d = f16_to_f32(block.d), dmin = f16_to_f32(block.dmin);
    for (size_t g = 0; g < kBlock / kGroup; ++g, out += kGroup) {
      const float scale = d * static_cast<float>(block.scales[g] & 15);
      const float min = dmin * static_cast<float>(block.scales[g] >> 4);
      const uint8_t* qs = block.qs + g / 8 * 32 + g % 2 * 16;
      const size_t shift = g % 8 / 2 * 2;
      for (size_t i = 0; i < kGroup; ++i) out[i] = static_cast<float>(qs[i] >> shift & 3) * scale - min;
    }
  }
}

}  // namespace sluice::quant::q2_k

namespace sluice::quant {
namespace Q2_K = q2_k;  // the row's name in types.inc
}
