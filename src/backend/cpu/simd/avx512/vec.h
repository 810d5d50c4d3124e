// 16 lanes on AVX-512: one register each. Every tier offers the same names, so that the texts in simd/generic/ compile
// for all.
#pragma once
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

// gcc 12 takes the deliberately undefined registers of its own intrinsics for mistakes.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

namespace sluice::backend::cpu::avx512 {
namespace {

constexpr int kPanelTokens = 12;      // tokens of a register tile: 12 integer and 12 float sums, 2 weights, constants
constexpr int kDotTokens = 4;         // tokens of a register tile of row_major kernels, for 4 rows
constexpr int kAttentionLanes = 4;    // 16-lane columns of attention's register tile
constexpr int kAttentionQueries = 4;  // queries of it
constexpr int kCodeOffset = 16;  // dot_codes multiplies code + 128: -8 times the sum of x, times this, takes it away
constexpr bool kTokenPairs = false;  // panel products take two tokens at once, by PairSums
template <int T>
struct PairSums;

struct F {
  __m512 v;  // 16 floats
};
struct I {
  __m512i v;  // 16 int32
};
struct B {
  __m512i v;  // 16 lanes of 4 bytes
};

// Inlined always: gcc 12 drops calls of a function that does nothing but prefetch.
[[gnu::always_inline]] inline void prefetch(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0); }
// Into the second level of cache only, which keeps more reads in flight.
[[gnu::always_inline]] inline void prefetch_far(const void* p) {
  _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T1);
}

inline F zero() { return {_mm512_setzero_ps()}; }
inline F splat(float x) { return {_mm512_set1_ps(x)}; }
inline F load(const float* p) { return {_mm512_loadu_ps(p)}; }
inline void store(float* p, F a) { _mm512_storeu_ps(p, a.v); }
inline __mmask16 first_lanes(uint32_t n) { return static_cast<__mmask16>((1u << n) - 1u); }
// The first n < 16 lanes; the others are zero.
inline F load_first(const float* p, uint32_t n) { return {_mm512_maskz_loadu_ps(first_lanes(n), p)}; }
inline void store_first(float* p, F a, uint32_t n) { _mm512_mask_storeu_ps(p, first_lanes(n), a.v); }
// Lanes below n from a, the others from b.
inline F select_first(uint32_t n, F a, F b) { return {_mm512_mask_blend_ps(first_lanes(n), b.v, a.v)}; }

inline F add(F a, F b) { return {_mm512_add_ps(a.v, b.v)}; }
inline F sub(F a, F b) { return {_mm512_sub_ps(a.v, b.v)}; }
inline F mul(F a, F b) { return {_mm512_mul_ps(a.v, b.v)}; }
inline F div(F a, F b) { return {_mm512_div_ps(a.v, b.v)}; }
inline F fma(F a, F b, F c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
inline F fnma(F a, F b, F c) { return {_mm512_fnmadd_ps(a.v, b.v, c.v)}; }  // c - a * b
// b where one is a NaN.
inline F max(F a, F b) { return {_mm512_max_ps(a.v, b.v)}; }
inline F min(F a, F b) { return {_mm512_min_ps(a.v, b.v)}; }
inline F round(F a) { return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)}; }
// a * 2^n for whole n.
inline F scale_by_power(F a, F n) { return {_mm512_scalef_ps(a.v, n.v)}; }
// The largest magnitude of a and b as bits of a float: above those of infinity where one is a NaN.
inline uint32_t largest_bits(F a, F b) {
  const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
  return static_cast<uint32_t>(_mm512_reduce_max_epi32(_mm512_max_epi32(
      _mm512_and_si512(_mm512_castps_si512(a.v), magnitude), _mm512_and_si512(_mm512_castps_si512(b.v), magnitude))));
}

// Lanes at a distance of 8, 4, 2, 1 are added: every tier keeps this order.
inline float sum_lanes(F a) {
  const __m256 h = _mm256_add_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  __m128 q = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
  q = _mm_add_ps(q, _mm_movehl_ps(q, q));
  return _mm_cvtss_f32(_mm_add_ss(q, _mm_shuffle_ps(q, q, 1)));
}
inline float max_lanes(F a) {
  const __m256 h = _mm256_max_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  __m128 q = _mm_max_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
  q = _mm_max_ps(q, _mm_movehl_ps(q, q));
  return _mm_cvtss_f32(_mm_max_ss(q, _mm_shuffle_ps(q, q, 1)));
}

inline F from_f16(const void* p) { return {_mm512_cvtph_ps(_mm256_loadu_si256(static_cast<const __m256i*>(p)))}; }
inline void to_f16(void* p, F a) {
  _mm256_storeu_si256(static_cast<__m256i*>(p), _mm512_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
inline F from_bf16(const void* p) {
  const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(static_cast<const __m256i*>(p)));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(wide, 16))};
}
inline F from_i8(const void* p) {
  return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p))))};
}
// Sixteen whole floats of at most 127 in magnitude as bytes; returns their sum.
inline int32_t to_i8(void* p, F a) {
  const __m128i bytes = _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(a.v));
  _mm_storeu_si128(static_cast<__m128i*>(p), bytes);
  const __m128i sums = _mm_sad_epu8(_mm_xor_si128(bytes, _mm_set1_epi8(-128)), _mm_setzero_si128());
  return _mm_cvtsi128_si32(sums) + _mm_extract_epi16(sums, 4) - 16 * 128;
}
inline float f16_value(uint16_t half) { return _cvtsh_ss(half); }
inline F splat_f16(const void* p) {
  uint16_t half;
  __builtin_memcpy(&half, p, sizeof(half));
  return {_mm512_cvtph_ps(_mm256_set1_epi16(static_cast<short>(half)))};
}
inline float first_lane(F a) { return _mm_cvtss_f32(_mm512_castps512_ps128(a.v)); }

inline I splat_i(int32_t x) { return {_mm512_set1_epi32(x)}; }
inline F to_f32(I a) { return {_mm512_cvtepi32_ps(a.v)}; }

inline B splat_b(uint8_t x) { return {_mm512_set1_epi8(static_cast<char>(x))}; }
inline B load_b(const void* p) { return {_mm512_loadu_si512(p)}; }
inline B and_b(B a, B b) { return {_mm512_and_si512(a.v, b.v)}; }
inline B xor_b(B a, B b) { return {_mm512_xor_si512(a.v, b.v)}; }
// table[code] for every byte; codes are below 16.
inline B lookup_b(const uint8_t* table, B codes) {
  const __m128i once = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table));
  return {_mm512_shuffle_epi8(_mm512_broadcast_i32x4(once), codes.v)};
}
// Bits of a where mask is 1, else of b.
inline B choose_b(B mask, B a, B b) { return {_mm512_ternarylogic_epi32(mask.v, a.v, b.v, 0xca)}; }
// Shifts of 4-byte lanes: the caller masks the bits that cross bytes.
template <int N>
inline B shift_right(B a) {
  return {_mm512_srli_epi32(a.v, N)};
}
template <int N>
inline B shift_left(B a) {
  return {_mm512_slli_epi32(a.v, N)};
}
// sum + the product of each lane's 4 unsigned bytes with the same 4 signed bytes at x. As text, because gcc 12 cannot
// fold the broadcast into the instruction and then runs out of registers.
inline I dot_bytes(I sum, B w, const void* x) {
  struct Four {
    char bytes[4];
  };
  asm("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(sum.v) : "v"(w.v), "m"(*static_cast<const Four*>(x)));
  return sum;
}
// Sums of few small products, between open and close: 8 of codes up to 15, or 2 of codes up to 63. Some tiers keep them
// in 16 bits.
using Small = I;
inline Small open_small(I sum) { return sum; }
inline Small dot_small(Small sum, B w, const void* x) { return dot_bytes(sum, w, x); }
inline I close_small(I, Small sum) { return sum; }
// The same for Q8_0's codes (the weight plus 128), at once in 32 bits.
inline I dot_codes(I sum, B w, const void* x) { return dot_bytes(sum, w, x); }

// 16 double sums of squares.
struct Squares {
  __m512d v[2];
};
inline void add_squares(Squares& s, F a) {
  const __m512d low = _mm512_cvtps_pd(_mm512_castps512_ps256(a.v));
  const __m512d high = _mm512_cvtps_pd(_mm512_extractf32x8_ps(a.v, 1));
  s.v[0] = _mm512_fmadd_pd(low, low, s.v[0]);
  s.v[1] = _mm512_fmadd_pd(high, high, s.v[1]);
}
inline double sum_squares(const Squares& s) { return _mm512_reduce_add_pd(_mm512_add_pd(s.v[0], s.v[1])); }

// put(c, column c) of 16 x 16 floats.
template <class Put>
[[gnu::always_inline]] inline void transpose(const F* rows, Put put) {
  __m512 a[16], b[16];
  for (int r = 0; r < 16; r += 2) {
    b[r] = _mm512_unpacklo_ps(rows[r].v, rows[r + 1].v);
    b[r + 1] = _mm512_unpackhi_ps(rows[r].v, rows[r + 1].v);
  }
  for (int r = 0; r < 16; r += 4) {  // a[4g + c] holds in its quarter q: column 4q + c of rows 4g .. 4g + 3
    a[r] = _mm512_shuffle_ps(b[r], b[r + 2], 0x44);
    a[r + 1] = _mm512_shuffle_ps(b[r], b[r + 2], 0xee);
    a[r + 2] = _mm512_shuffle_ps(b[r + 1], b[r + 3], 0x44);
    a[r + 3] = _mm512_shuffle_ps(b[r + 1], b[r + 3], 0xee);
  }
  for (uint64_t c = 0; c < 4; ++c) {
    const __m512 even_low = _mm512_shuffle_f32x4(a[c], a[4 + c], 0x88),
                 odd_low = _mm512_shuffle_f32x4(a[c], a[4 + c], 0xdd);
    const __m512 even_high = _mm512_shuffle_f32x4(a[8 + c], a[12 + c], 0x88);
    const __m512 odd_high = _mm512_shuffle_f32x4(a[8 + c], a[12 + c], 0xdd);
    put(c, F{_mm512_shuffle_f32x4(even_low, even_high, 0x88)});
    put(4 + c, F{_mm512_shuffle_f32x4(odd_low, odd_high, 0x88)});
    put(8 + c, F{_mm512_shuffle_f32x4(even_low, even_high, 0xdd)});
    put(12 + c, F{_mm512_shuffle_f32x4(odd_low, odd_high, 0xdd)});
  }
}

}  // namespace
}  // namespace sluice::backend::cpu::avx512
