// F16: IEEE half precision, little-endian.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "quant/half.h"

namespace sluice::quant::f16 {

inline constexpr size_t kBlock = 1;
struct Block {
  uint16_t bits;
};
static_assert(sizeof(Block) == 2);

static inline void quantize_row(const float* x, std::byte* out, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    const Block block = {f32_to_f16(x[i])};
    std::memcpy(out + i * sizeof(Block), &block, sizeof(Block));
  }
}

static inline void dequantize_row(const std::byte* in, float* out, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    Block block;
    std::memcpy(&block, in + i * sizeof(Block), sizeof(Block));
    out[i] = f16_to_f32(block.bits);
  }
}

}  // namespace sluice::quant::f16

namespace sluice::quant {
namespace F16 = f16;  // the row's name in types.inc
}
