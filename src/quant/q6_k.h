// Q6_K: blocks of 256 weights, 6 bits each, an 8-bit scale per 16 weights and one scale for the block.
// weight = (q - 32) * scales[weight / 16] * d.
#pragma once
#include <cassert>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

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

// The code -32..31 nearest to a scaled weight. NaN gives -32: the cast of a NaN would be undefined.
static inline int to_code(float scaled) {
  if (!(scaled > -32.0f)) return -32;
  return scaled >= 31.0f ? 31 : static_cast<int>(std::nearbyint(scaled));
}

// The scale s that makes sum((x - code * s)^2) of a group least: candidate steps near -32 / (the extreme weight) give
// the codes, least squares gives the scale of these codes.
static inline float group_scale(const float* x) {
  float extreme = 0.0f;
  for (size_t i = 0; i < kGroup; ++i) {
    if (std::fabs(x[i]) > std::fabs(extreme)) extreme = x[i];
  }
  if (!(std::fabs(extreme) >= 1e-15f)) return 0.0f;
  float best_scale = 0.0f, best_gain = 0.0f;
  for (int trial = -9; trial <= 9; ++trial) {
    const float inverse = -(32.0f + 0.1f * static_cast<float>(trial)) / extreme;
    float sum_xq = 0.0f, sum_qq = 0.0f;
    for (size_t i = 0; i < kGroup; ++i) {
      const float q = static_cast<float>(to_code(x[i] * inverse));
      sum_xq += x[i] * q;
      sum_qq += q * q;
    }
    // The squared error is sum(x^2) - sum_xq^2 / sum_qq.
    if (sum_qq > 0.0f && sum_xq * sum_xq > best_gain * sum_qq) {
      best_gain = sum_xq * sum_xq / sum_qq;
      best_scale = sum_xq / sum_qq;
    }
  }
  return best_scale;
}

static inline void quantize_block(const float* x, Block& block) {
  float scales[kBlock / kGroup], extreme = 0.0f;
  for (size_t g = 0; g < kBlock / kGroup; ++g) {
    scales[g] = group_scale(x + g * kGroup);
    if (std::fabs(scales[g]) > std::fabs(extreme)) extreme = scales[g];
  }
  std::memset(&block, 0, sizeof(Block));
  if (extreme == 0.0f) return;  // d = 0: every weight decodes to zero

  const float inverse = -128.0f / extreme;
  block.d = f32_to_f16(1.0f / inverse);
  const float d = f16_to_f32(block.d);
  for (size_t g = 0; g < kBlock / kGroup; ++g) {
    const float scaled = std::nearbyint(inverse * scales[g]);
    const int code = scaled >= 127.0f ? 127 : scaled > -128.0f ? static_cast<int>(scaled) : -128;
    block.scales[g] = static_cast<int8_t>(code);
    const float step = d * static_cast<float>(code);
    for (size_t w = g * kGroup; w < (g + 1) * kGroup; ++w) {
      const auto q = static_cast<unsigned>((step != 0.0f ? to_code(x[w] / step) : 0) + 32);
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
