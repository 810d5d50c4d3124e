// The names of neon/vec.h, and products of 16 rows with pairs of tokens by the matrix instruction of i8mm: 2 rows x 8
// columns times 8 columns x 2 tokens, twice the multiplications of a dot product instruction.
#pragma once
#include "backend/cpu/simd/neon/vec.h"

namespace sluice::backend::cpu::neon_i8mm {
namespace {

// The sums of T tokens while products are added to them. v[p][i]: row 2i with tokens 2p and 2p + 1, then row 2i + 1
// with them. The last of an odd number of tokens is its own partner.
template <int T>
struct PairSums {
  static constexpr int kPairs = (T + 1) / 2;
  int32x4_t v[kPairs][8];

  [[gnu::always_inline]] explicit PairSums(const I (&sum)[T]) {
    for (int p = 0; p < kPairs; ++p) {
      const I &one = sum[2 * p], &other = sum[2 * p + 1 < T ? 2 * p + 1 : 2 * p];
      for (int i = 0; i < 4; ++i) {
        v[p][2 * i] = vzip1q_s32(one.v[i], other.v[i]);
        v[p][2 * i + 1] = vzip2q_s32(one.v[i], other.v[i]);
      }
    }
  }

  // From columns c .. c + 3 of 16 rows in `low` and c + 4 .. c + 7 in `high` to all eight columns of rows 4i and 4i + 1
  // in low.v[i], of rows 4i + 2 and 4i + 3 in high.v[i].
  [[gnu::always_inline]] static void weave(B& low, B& high) {
    for (int i = 0; i < 4; ++i) {
      const uint32x4_t a = vreinterpretq_u32_u8(low.v[i]), b = vreinterpretq_u32_u8(high.v[i]);
      low.v[i] = vreinterpretq_u8_u32(vzip1q_u32(a, b));
      high.v[i] = vreinterpretq_u8_u32(vzip2q_u32(a, b));
    }
  }

  // Woven weights times columns c .. c + 7 of a block of tokens, packed as panel.inl says.
  [[gnu::always_inline]] void add(const B& low, const B& high, const std::byte* x, int c) {
    for (int p = 0; p < kPairs; ++p) {
      const int8x16_t xs = 2 * p + 1 < T ? both(x + 64 * p + 2 * c) : twice(x + 64 * p + c);
      for (int i = 0; i < 4; ++i) {
        v[p][2 * i] = vusmmlaq_s32(v[p][2 * i], low.v[i], xs);
        v[p][2 * i + 1] = vusmmlaq_s32(v[p][2 * i + 1], high.v[i], xs);
      }
    }
  }

  [[gnu::always_inline]] void close(I (&sum)[T]) const {
    for (int t = 0; t < T; ++t) {
      for (int i = 0; i < 4; ++i) {
        const int32x4_t a = v[t / 2][2 * i], b = v[t / 2][2 * i + 1];
        sum[t].v[i] = t % 2 == 0 ? vuzp1q_s32(a, b) : vuzp2q_s32(a, b);
      }
    }
  }

 private:
  static int8x16_t both(const std::byte* x) { return vld1q_s8(reinterpret_cast<const int8_t*>(x)); }
  static int8x16_t twice(const std::byte* x) {
    const int8x8_t one = vld1_s8(reinterpret_cast<const int8_t*>(x));
    return vcombine_s8(one, one);
  }
};

}  // namespace
}  // namespace sluice::backend::cpu::neon_i8mm
