// Q5_K: as Q4_K, with a fifth bit for each weight. weight = q * (d * scale) - dmin * min.
#pragma once
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "quant/fit.h"
#include "quant/half.h"

namespace sluice::quant::q5_k {

inline constexpr size_t kBlock = 256;
inline constexpr size_t kGroup = 32;  // weights of one scale and min
struct Block {
  uint16_t d, dmin;    // f16
  uint8_t scales[12];  // fit.h: packed_scale, packed_min
  uint8_t qh[32];      // bit g of byte i: the fifth bit of weight i of group g
  uint8_t qs[128];     // byte 32 * p + i: weight i of group 2p in the low nibble, of group 2p + 1 in the high one
};
static_assert(sizeof(Block) == 176);

static inline void quantize_row(const float* x, std::byte* out, size_t n) {
  assert(n % kBlock == 0);
  for (size_t b = 0; b < n / kBlock; ++b, x += kBlock, out += sizeof(Block)) {
    ScaleMins<8> fit;
    fit.fit<31, 63, kGroup>(x);
    Block block = {};
    block.d = fit.d;
    block.dmin = fit.dmin;
    pack_scales(fit, block.scales);
    for (size_t w = 0; w < kBlock; ++w) {
      const size_t g = w / kGroup, i = w % kGroup;
      const unsigned code = fit.code<31>(g, x[w]);
      block.qs[g / 2 * 32 + i] |= static_cast<uint8_t>((code & 15u) << (g % 2 * 4));
      block.qh[i] |= static_cast<uint8_t>(code >> 4 << g);
    }
    std::memcpy(out, &block, sizeof(Block));
  }
}

static inline void dequantize_row(const std::byte* in, float* out, size_t n) {
  assert(n % kBlock == 0);
  for (size_t b = 0; b < n / kBlock; ++b, in += sizeof(Block), out += kBlock) {
    Block block;
    std::memcpy(&block, in, sizeof(Block));
    const float d = f16_to_f32(block.d), dmin = f16_to_f32(block.dmin);
    for (size_t g = 0; g < kBlock / kGroup; ++g) {
      const float scale = d * static_cast<float>(packed_scale(block.scales, g));
      const float min = dmin * static_cast<float>(packed_min(block.scales, g));
      const uint8_t* qs = block.qs + g / 2 * 32;
      const size_t shift = g % 2 * 4;
      for (size_t i = 0; i < kGroup; ++i) {
        const int code = (qs[i] >> shift & 15) | (block.qh[i] >> g & 1) << 4;
        out[g * kGroup + i] = static_cast<float>(code) * scale - min;
      }
    }
  }
}

}  // namespace sluice::quant::q5_k

namespace sluice::quant {
namespace Q5_K = q5_k;  // the row's name in types.inc
}
