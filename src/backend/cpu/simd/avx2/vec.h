// 16 lanes on AVX2: two registers each. The names are those of avx512/vec.h, which says what each does.
#pragma once
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace sluice::backend::cpu::avx2 {
namespace {

constexpr int kPanelTokens = 3;
constexpr int kDotTokens = 2;
constexpr int kAttentionLanes = 1;
constexpr int kAttentionQueries = 6;
constexpr int kCodeOffset = 0;
constexpr bool kTokenPairs = false;
template <int T>
struct PairSums;

struct F {
  __m256 v[2];
};
struct I {
  __m256i v[2];
};
struct B {
  __m256i v[2];
};

// Inlined always: gcc 12 drops calls of a function that does nothing but prefetch.
[[gnu::always_inline]] inline void prefetch(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0); }
[[gnu::always_inline]] inline void prefetch_far(const void* p) {
  _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T1);
}

inline F zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
inline F splat(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
inline F load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
inline void store(float* p, F a) {
  _mm256_storeu_ps(p, a.v[0]);
  _mm256_storeu_ps(p + 8, a.v[1]);
}
inline __m256i first_lanes(uint32_t n, int half) {
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n) - 8 * half), lane);
}
inline F load_first(const float* p, uint32_t n) {
  return {_mm256_maskload_ps(p, first_lanes(n, 0)), _mm256_maskload_ps(p + 8, first_lanes(n, 1))};
}
inline void store_first(float* p, F a, uint32_t n) {
  _mm256_maskstore_ps(p, first_lanes(n, 0), a.v[0]);
  _mm256_maskstore_ps(p + 8, first_lanes(n, 1), a.v[1]);
}
inline F select_first(uint32_t n, F a, F b) {
  return {_mm256_blendv_ps(b.v[0], a.v[0], _mm256_castsi256_ps(first_lanes(n, 0))),
          _mm256_blendv_ps(b.v[1], a.v[1], _mm256_castsi256_ps(first_lanes(n, 1)))};
}

inline F add(F a, F b) { return {_mm256_add_ps(a.v[0], b.v[0]), _mm256_add_ps(a.v[1], b.v[1])}; }
inline F sub(F a, F b) { return {_mm256_sub_ps(a.v[0], b.v[0]), _mm256_sub_ps(a.v[1], b.v[1])}; }
inline F mul(F a, F b) { return {_mm256_mul_ps(a.v[0], b.v[0]), _mm256_mul_ps(a.v[1], b.v[1])}; }
inline F div(F a, F b) { return {_mm256_div_ps(a.v[0], b.v[0]), _mm256_div_ps(a.v[1], b.v[1])}; }
inline F fma(F a, F b, F c) {
  return {_mm256_fmadd_ps(a.v[0], b.v[0], c.v[0]), _mm256_fmadd_ps(a.v[1], b.v[1], c.v[1])};
}
inline F fnma(F a, F b, F c) {
  return {_mm256_fnmadd_ps(a.v[0], b.v[0], c.v[0]), _mm256_fnmadd_ps(a.v[1], b.v[1], c.v[1])};
}
inline F max(F a, F b) { return {_mm256_max_ps(a.v[0], b.v[0]), _mm256_max_ps(a.v[1], b.v[1])}; }
inline F min(F a, F b) { return {_mm256_min_ps(a.v[0], b.v[0]), _mm256_min_ps(a.v[1], b.v[1])}; }
inline F round(F a) {
  return {_mm256_round_ps(a.v[0], _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC),
          _mm256_round_ps(a.v[1], _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
inline __m256 power_of_two(__m256i n) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
}
// In two steps, each of which is a float while |n| <= 252.
inline __m256 scale_by_power(__m256 a, __m256 n) {
  const __m256i whole = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(whole, 1);
  return _mm256_mul_ps(_mm256_mul_ps(a, power_of_two(half)), power_of_two(_mm256_sub_epi32(whole, half)));
}
inline F scale_by_power(F a, F n) { return {scale_by_power(a.v[0], n.v[0]), scale_by_power(a.v[1], n.v[1])}; }
inline uint32_t largest_bits(F a, F b) {
  const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
  const auto bits = [&](__m256 v) { return _mm256_and_si256(_mm256_castps_si256(v), magnitude); };
  const __m256i m =
      _mm256_max_epi32(_mm256_max_epi32(bits(a.v[0]), bits(a.v[1])), _mm256_max_epi32(bits(b.v[0]), bits(b.v[1])));
  __m128i q = _mm_max_epi32(_mm256_castsi256_si128(m), _mm256_extracti128_si256(m, 1));
  q = _mm_max_epi32(q, _mm_shuffle_epi32(q, 0x4e));
  q = _mm_max_epi32(q, _mm_shuffle_epi32(q, 0xb1));
  return static_cast<uint32_t>(_mm_cvtsi128_si32(q));
}

inline float sum_lanes(F a) {
  const __m256 h = _mm256_add_ps(a.v[0], a.v[1]);
  __m128 q = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
  q = _mm_add_ps(q, _mm_movehl_ps(q, q));
  return _mm_cvtss_f32(_mm_add_ss(q, _mm_shuffle_ps(q, q, 1)));
}
inline float max_lanes(F a) {
  const __m256 h = _mm256_max_ps(a.v[0], a.v[1]);
  __m128 q = _mm_max_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
  q = _mm_max_ps(q, _mm_movehl_ps(q, q));
  return _mm_cvtss_f32(_mm_max_ss(q, _mm_shuffle_ps(q, q, 1)));
}

inline F from_f16(const void* p) {
  const auto* at = static_cast<const __m128i*>(p);
  return {_mm256_cvtph_ps(_mm_loadu_si128(at)), _mm256_cvtph_ps(_mm_loadu_si128(at + 1))};
}
inline void to_f16(void* p, F a) {
  auto* at = static_cast<__m128i*>(p);
  _mm_storeu_si128(at, _mm256_cvtps_ph(a.v[0], _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  _mm_storeu_si128(at + 1, _mm256_cvtps_ph(a.v[1], _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
inline F from_bf16(const void* p) {
  const auto* at = static_cast<const __m128i*>(p);
  const auto half = [](__m128i h) { return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16)); };
  return {half(_mm_loadu_si128(at)), half(_mm_loadu_si128(at + 1))};
}
inline F from_i8(const void* p) {
  const __m128i bytes = _mm_loadu_si128(static_cast<const __m128i*>(p));
  return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)),
          _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8)))};
}
inline int32_t to_i8(void* p, F a) {
  const __m256i words =
      _mm256_permute4x64_epi64(_mm256_packs_epi32(_mm256_cvtps_epi32(a.v[0]), _mm256_cvtps_epi32(a.v[1])), 0xd8);
  const __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
  _mm_storeu_si128(static_cast<__m128i*>(p), bytes);
  const __m128i sums = _mm_sad_epu8(_mm_xor_si128(bytes, _mm_set1_epi8(-128)), _mm_setzero_si128());
  return _mm_cvtsi128_si32(sums) + _mm_extract_epi16(sums, 4) - 16 * 128;
}
inline float f16_value(uint16_t half) { return _cvtsh_ss(half); }
inline F splat_f16(const void* p) {
  uint16_t half;
  __builtin_memcpy(&half, p, sizeof(half));
  const __m256 v = _mm256_cvtph_ps(_mm_set1_epi16(static_cast<short>(half)));
  return {v, v};
}
inline float first_lane(F a) { return _mm256_cvtss_f32(a.v[0]); }

inline I splat_i(int32_t x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
inline F to_f32(I a) { return {_mm256_cvtepi32_ps(a.v[0]), _mm256_cvtepi32_ps(a.v[1])}; }

inline B splat_b(uint8_t x) {
  const __m256i v = _mm256_set1_epi8(static_cast<char>(x));
  return {v, v};
}
inline B load_b(const void* p) {
  const auto* at = static_cast<const __m256i*>(p);
  return {_mm256_loadu_si256(at), _mm256_loadu_si256(at + 1)};
}
inline B and_b(B a, B b) { return {_mm256_and_si256(a.v[0], b.v[0]), _mm256_and_si256(a.v[1], b.v[1])}; }
inline B lookup_b(const uint8_t* table, B codes) {
  const __m256i twice = _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table)));
  return {_mm256_shuffle_epi8(twice, codes.v[0]), _mm256_shuffle_epi8(twice, codes.v[1])};
}
inline B choose_b(B mask, B a, B b) {
  return {_mm256_or_si256(_mm256_and_si256(mask.v[0], a.v[0]), _mm256_andnot_si256(mask.v[0], b.v[0])),
          _mm256_or_si256(_mm256_and_si256(mask.v[1], a.v[1]), _mm256_andnot_si256(mask.v[1], b.v[1]))};
}
template <int N>
inline B shift_right(B a) {
  return {_mm256_srli_epi32(a.v[0], N), _mm256_srli_epi32(a.v[1], N)};
}
template <int N>
inline B shift_left(B a) {
  return {_mm256_slli_epi32(a.v[0], N), _mm256_slli_epi32(a.v[1], N)};
}
inline __m256i add_pairs(__m256i sum, __m256i pairs) {
  return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}
inline __m256i four_times(const void* x) {
  int32_t four;
  __builtin_memcpy(&four, x, sizeof(four));
  return _mm256_set1_epi32(four);
}
// Sums in 16 bits: 8 pairs of products up to 2 * 15 * 127, or 2 up to 2 * 63 * 127, fit.
struct Small {
  __m256i v[2];
};
inline Small open_small(I) { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
inline Small dot_small(Small sum, B w, const void* x) {
  const __m256i xs = four_times(x);
  return {_mm256_add_epi16(sum.v[0], _mm256_maddubs_epi16(w.v[0], xs)),
          _mm256_add_epi16(sum.v[1], _mm256_maddubs_epi16(w.v[1], xs))};
}
inline I close_small(I sum, Small small) { return {add_pairs(sum.v[0], small.v[0]), add_pairs(sum.v[1], small.v[1])}; }
// The weight's sign moves to x, since pairs of codes up to 255 would not fit in 16 bits: 2 * 128 * 127 does.
inline I dot_codes(I sum, B w, const void* x) {
  const __m256i xs = four_times(x), flip = _mm256_set1_epi8(-128);
  const __m256i a = _mm256_xor_si256(w.v[0], flip), b = _mm256_xor_si256(w.v[1], flip);
  return {add_pairs(sum.v[0], _mm256_maddubs_epi16(_mm256_abs_epi8(a), _mm256_sign_epi8(xs, a))),
          add_pairs(sum.v[1], _mm256_maddubs_epi16(_mm256_abs_epi8(b), _mm256_sign_epi8(xs, b)))};
}

struct Squares {
  __m256d v[4];
};
inline void add_squares(Squares& s, F a) {
  const __m256d d[4] = {
      _mm256_cvtps_pd(_mm256_castps256_ps128(a.v[0])), _mm256_cvtps_pd(_mm256_extractf128_ps(a.v[0], 1)),
      _mm256_cvtps_pd(_mm256_castps256_ps128(a.v[1])), _mm256_cvtps_pd(_mm256_extractf128_ps(a.v[1], 1))};
  for (int i = 0; i < 4; ++i) s.v[i] = _mm256_fmadd_pd(d[i], d[i], s.v[i]);
}
inline double sum_squares(const Squares& s) {
  const __m256d h = _mm256_add_pd(_mm256_add_pd(s.v[0], s.v[2]), _mm256_add_pd(s.v[1], s.v[3]));
  const __m128d q = _mm_add_pd(_mm256_castpd256_pd128(h), _mm256_extractf128_pd(h, 1));
  return _mm_cvtsd_f64(_mm_add_sd(q, _mm_unpackhi_pd(q, q)));
}

// 8 x 8 floats: one half of 8 rows becomes one half of 8 columns.
inline void transpose_eighth(const F* rows, int half, F* out, int out_half) {
  __m256 a[8], b[8];
  for (int r = 0; r < 8; r += 2) {
    b[r] = _mm256_unpacklo_ps(rows[r].v[half], rows[r + 1].v[half]);
    b[r + 1] = _mm256_unpackhi_ps(rows[r].v[half], rows[r + 1].v[half]);
  }
  for (int r = 0; r < 8; r += 4) {  // a[4g + c] holds in its half h: column 4h + c of rows 4g .. 4g + 3
    a[r] = _mm256_shuffle_ps(b[r], b[r + 2], 0x44);
    a[r + 1] = _mm256_shuffle_ps(b[r], b[r + 2], 0xee);
    a[r + 2] = _mm256_shuffle_ps(b[r + 1], b[r + 3], 0x44);
    a[r + 3] = _mm256_shuffle_ps(b[r + 1], b[r + 3], 0xee);
  }
  for (int c = 0; c < 4; ++c) {
    out[c].v[out_half] = _mm256_permute2f128_ps(a[c], a[4 + c], 0x20);
    out[4 + c].v[out_half] = _mm256_permute2f128_ps(a[c], a[4 + c], 0x31);
  }
}
template <class Put>
[[gnu::always_inline]] inline void transpose(const F* rows, Put put) {
  for (uint64_t half = 0; half < 2; ++half) {
    F columns[8];
    transpose_eighth(rows, int(half), columns, 0);
    transpose_eighth(rows + 8, int(half), columns, 1);
    for (uint64_t c = 0; c < 8; ++c) put(8 * half + c, columns[c]);
  }
}

}  // namespace
}  // namespace sluice::backend::cpu::avx2
