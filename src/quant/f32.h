// F32: little-endian floats, unchanged.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace sluice::quant::f32 {

inline constexpr size_t kBlock = 1;
struct Block {
  float value;
};
static_assert(sizeof(Block) == 4);

static inline void quantize_row(const float* x, std::byte* out, size_t n) { std::memcpy(out, x, n * sizeof(float)); }
static inline void dequantize_row(const std::byte* in, float* out, size_t n) {
  std::memcpy(out, in, n * sizeof(float));
}

}  // namespace sluice::quant::f32

namespace sluice::quant {
namespace F32 = f32;  // the row's name in types.inc
}
