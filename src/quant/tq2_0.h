// TQ2_0: blocks of 256 weights of 2 bits, -1 to 2 times one scale. weight = (q - 1) * d.
#pragma once
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "quant/half.h"
#include "quant/iq_chunks.h"

namespace sluice::quant::tq2_0 {

inline constexpr size_t kBlock = 256;
struct Block {
  uint8_t qs[64];  // byte m of each 32: weights m, m + 32, m + 64, m + 96 of a half
  uint16_t d;      // f16
};
static_assert(sizeof(Block) == 66);

static constexpr RowEncoder quantize_row = kNoEncoder;

static inline void dequantize_row(const std::byte* in, float* out, size_t n) {
  assert(n % kBlock == 0);
  for (size_t b = 0; b < n / kBlock; ++b, in += sizeof(Block), out += kBlock) {
    Block block;
    std::memcpy(&block, in, sizeof(Block));
    const float d = f16_to_f32(block.d);
    for (size_t i = 0; i < kBlock; ++i) {
      const uint32_t code = block.qs[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
      out[i] = d * (static_cast<float>(code) - 1.0f);
    }
  }
}

}  // namespace sluice::quant::tq2_0

namespace sluice::quant {
namespace TQ2_0 = tq2_0;  // the row's name in types.inc
}
