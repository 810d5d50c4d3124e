// IQ4_XS: blocks of 256 weights from the table of IQ4_NL; each group of 32 has a 6-bit scale, the block one for those.
// weight = kValues[q] * (d * (scale - 32)).
#pragma once
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "quant/fit.h"
#include "quant/half.h"
#include "quant/iq4_nl.h"

namespace sluice::quant::iq4_xs {

inline constexpr size_t kBlock = 256;
inline constexpr size_t kGroup = 32;  // weights of one 6-bit scale
struct Block {
  uint16_t d;             // f16
  uint16_t scales_high;   // bits 2g, 2g + 1: the upper two of scale g
  uint8_t scales_low[4];  // nibble g
  uint8_t qs[128];        // of each group, as in IQ4_NL
};
static_assert(sizeof(Block) == 136);

static inline void quantize_row(const float* x, std::byte* out, size_t n) {
  assert(n % kBlock == 0);
  for (size_t b = 0; b < n / kBlock; ++b, x += kBlock, out += sizeof(Block)) {
    float fits[kBlock / kGroup];
    for (size_t g = 0; g < kBlock / kGroup; ++g) fits[g] = iq4_nl::block_scale(x + g * kGroup);
    SignedScales<kBlock / kGroup> scales;
    scales.fit<32>(fits);
    Block block = {};
    block.d = scales.d;
    for (size_t g = 0; g < kBlock / kGroup; ++g) {
      const auto code = static_cast<unsigned>(scales.code[g] + 32);
      block.scales_low[g / 2] |= static_cast<uint8_t>((code & 15u) << (g % 2 * 4));
      block.scales_high |= static_cast<uint16_t>(code >> 4 << (2 * g));
      const float scale = f16_to_f32(scales.d) * static_cast<float>(scales.code[g]);
      iq4_nl::put_codes(x + g * kGroup, scale, block.qs + g * 16);
    }
    std::memcpy(out, &block, sizeof(Block));
  }
}

static inline void dequantize_row(const std::byte* in, float* out, size_t n) {
  assert(n % kBlock == 0);
  for (size_t b = 0; b < n / kBlock; ++b, in += sizeof(Block), out += kBlock) {
    Block block;
    std::memcpy(&block, in, sizeof(Block));
    const float d = f16_to_f32(block.d);
    for (size_t g = 0; g < kBlock / kGroup; ++g) {
      const int low = block.scales_low[g / 2] >> (g % 2 * 4) & 15, high = block.scales_high >> (2 * g) & 3;
      iq4_nl::get_values(block.qs + g * 16, d * static_cast<float>((low | high << 4) - 32), out + g * kGroup);
    }
  }
}

}  // namespace sluice::quant::iq4_xs

namespace sluice::quant {
namespace IQ4_XS = iq4_xs;  // the row's name in types.inc
}
