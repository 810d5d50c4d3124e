// 16 lanes on NEON with dot products: four registers each. The names are those of avx512/vec.h, which says what each
// does.
#pragma once
#include <arm_neon.h>

#include <cstddef>
#include <cstdint>

// The tier neon_i8mm is this file with its compiler flags, and what neon_i8mm/vec.h adds.
#if defined(__ARM_FEATURE_MATMUL_INT8)
#define SLUICE_NEON neon_i8mm
#else
#define SLUICE_NEON neon
#endif

namespace sluice::backend::cpu::SLUICE_NEON {
namespace {

constexpr int kPanelTokens = 4;
constexpr int kDotTokens = 1;
constexpr int kAttentionLanes = 1;
constexpr int kAttentionQueries = 4;

struct F {
  float32x4_t v[4];
};
struct I {
  int32x4_t v[4];
};
struct B {
  uint8x16_t v[4];
};

// Inlined always: gcc 12 drops calls of a function that does nothing but prefetch.
[[gnu::always_inline]] inline void prefetch(const void* p) { __builtin_prefetch(p); }
[[gnu::always_inline]] inline void prefetch_far(const void* p) { __builtin_prefetch(p, 0, 2); }

// The same operation on all four registers.
template <class Fn>
[[gnu::always_inline]] inline F each(Fn fn) {
  return {{fn(0), fn(1), fn(2), fn(3)}};
}

inline F splat(float x) {
  return each([&](int) { return vdupq_n_f32(x); });
}
inline F zero() { return splat(0.0f); }
inline F load(const float* p) {
  return each([&](int i) { return vld1q_f32(p + 4 * i); });
}
inline void store(float* p, F a) {
  for (int i = 0; i < 4; ++i) vst1q_f32(p + 4 * i, a.v[i]);
}
inline F load_first(const float* p, uint32_t n) {
  float lanes[16] = {};
  __builtin_memcpy(lanes, p, n * sizeof(float));
  return load(lanes);
}
inline void store_first(float* p, F a, uint32_t n) {
  float lanes[16];
  store(lanes, a);
  __builtin_memcpy(p, lanes, n * sizeof(float));
}
inline F select_first(uint32_t n, F a, F b) {
  const uint32_t lanes[4] = {0, 1, 2, 3};
  const uint32x4_t lane = vld1q_u32(lanes);
  return each([&](int i) {
    const uint32x4_t at = vaddq_u32(lane, vdupq_n_u32(static_cast<uint32_t>(4 * i)));
    return vbslq_f32(vcltq_u32(at, vdupq_n_u32(n)), a.v[i], b.v[i]);
  });
}

inline F add(F a, F b) {
  return each([&](int i) { return vaddq_f32(a.v[i], b.v[i]); });
}
inline F sub(F a, F b) {
  return each([&](int i) { return vsubq_f32(a.v[i], b.v[i]); });
}
inline F mul(F a, F b) {
  return each([&](int i) { return vmulq_f32(a.v[i], b.v[i]); });
}
inline F div(F a, F b) {
  return each([&](int i) { return vdivq_f32(a.v[i], b.v[i]); });
}
inline F fma(F a, F b, F c) {
  return each([&](int i) { return vfmaq_f32(c.v[i], a.v[i], b.v[i]); });
}
inline F fnma(F a, F b, F c) {
  return each([&](int i) { return vfmsq_f32(c.v[i], a.v[i], b.v[i]); });
}
inline F max(F a, F b) {
  return each([&](int i) { return vbslq_f32(vcgtq_f32(a.v[i], b.v[i]), a.v[i], b.v[i]); });
}
inline F min(F a, F b) {
  return each([&](int i) { return vminq_f32(a.v[i], b.v[i]); });
}
inline F round(F a) {
  return each([&](int i) { return vrndnq_f32(a.v[i]); });
}
inline float32x4_t power_of_two(int32x4_t n) {
  return vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(n, vdupq_n_s32(127)), 23));
}
// In two steps, each of which is a float while |n| <= 252.
inline F scale_by_power(F a, F n) {
  return each([&](int i) {
    const int32x4_t whole = vcvtnq_s32_f32(n.v[i]), half = vshrq_n_s32(whole, 1);
    return vmulq_f32(vmulq_f32(a.v[i], power_of_two(half)), power_of_two(vsubq_s32(whole, half)));
  });
}
inline uint32_t largest_bits(F a, F b) {
  uint32x4_t m = vdupq_n_u32(0);
  const uint32x4_t magnitude = vdupq_n_u32(0x7fffffff);
  for (int i = 0; i < 4; ++i) {
    m = vmaxq_u32(m, vandq_u32(vreinterpretq_u32_f32(a.v[i]), magnitude));
    m = vmaxq_u32(m, vandq_u32(vreinterpretq_u32_f32(b.v[i]), magnitude));
  }
  return vmaxvq_u32(m);
}

inline float sum_lanes(F a) {
  const float32x4_t q = vaddq_f32(vaddq_f32(a.v[0], a.v[2]), vaddq_f32(a.v[1], a.v[3]));
  const float32x2_t d = vadd_f32(vget_low_f32(q), vget_high_f32(q));
  return vget_lane_f32(d, 0) + vget_lane_f32(d, 1);
}
inline float max_lanes(F a) { return vmaxvq_f32(vmaxq_f32(vmaxq_f32(a.v[0], a.v[1]), vmaxq_f32(a.v[2], a.v[3]))); }

inline F from_f16(const void* p) {
  const auto* at = static_cast<const uint8_t*>(p);
  return each([&](int i) { return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(at + 8 * i))); });
}
inline void to_f16(void* p, F a) {
  auto* at = static_cast<uint8_t*>(p);
  for (int i = 0; i < 4; ++i) vst1_u8(at + 8 * i, vreinterpret_u8_f16(vcvt_f16_f32(a.v[i])));
}
inline F from_bf16(const void* p) {
  const auto* at = static_cast<const uint8_t*>(p);
  return each([&](int i) { return vreinterpretq_f32_u32(vshll_n_u16(vreinterpret_u16_u8(vld1_u8(at + 8 * i)), 16)); });
}
inline F from_i8(const void* p) {
  const int8x16_t bytes = vld1q_s8(static_cast<const int8_t*>(p));
  const int16x8_t low = vmovl_s8(vget_low_s8(bytes)), high = vmovl_s8(vget_high_s8(bytes));
  return {{vcvtq_f32_s32(vmovl_s16(vget_low_s16(low))), vcvtq_f32_s32(vmovl_s16(vget_high_s16(low))),
           vcvtq_f32_s32(vmovl_s16(vget_low_s16(high))), vcvtq_f32_s32(vmovl_s16(vget_high_s16(high)))}};
}
inline int32_t to_i8(void* p, F a) {
  const int16x8_t low = vcombine_s16(vmovn_s32(vcvtnq_s32_f32(a.v[0])), vmovn_s32(vcvtnq_s32_f32(a.v[1])));
  const int16x8_t high = vcombine_s16(vmovn_s32(vcvtnq_s32_f32(a.v[2])), vmovn_s32(vcvtnq_s32_f32(a.v[3])));
  const int8x16_t bytes = vcombine_s8(vmovn_s16(low), vmovn_s16(high));
  vst1q_s8(static_cast<int8_t*>(p), bytes);
  return vaddlvq_s8(bytes);
}
inline float f16_value(uint16_t half) {
  return vgetq_lane_f32(vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(half))), 0);
}
inline F splat_f16(const void* p) {
  uint16_t half;
  __builtin_memcpy(&half, p, sizeof(half));
  return splat(f16_value(half));
}
inline float first_lane(F a) { return vgetq_lane_f32(a.v[0], 0); }

inline I splat_i(int32_t x) { return {{vdupq_n_s32(x), vdupq_n_s32(x), vdupq_n_s32(x), vdupq_n_s32(x)}}; }
inline F to_f32(I a) {
  return each([&](int i) { return vcvtq_f32_s32(a.v[i]); });
}

inline B splat_b(uint8_t x) { return {{vdupq_n_u8(x), vdupq_n_u8(x), vdupq_n_u8(x), vdupq_n_u8(x)}}; }
inline B load_b(const void* p) {
  const auto* at = static_cast<const uint8_t*>(p);
  return {{vld1q_u8(at), vld1q_u8(at + 16), vld1q_u8(at + 32), vld1q_u8(at + 48)}};
}
template <class Fn>
[[gnu::always_inline]] inline B each_b(Fn fn) {
  return {{fn(0), fn(1), fn(2), fn(3)}};
}
template <class Fn>
[[gnu::always_inline]] inline I each_i(Fn fn) {
  return {{fn(0), fn(1), fn(2), fn(3)}};
}
inline B and_b(B a, B b) {
  return each_b([&](int i) { return vandq_u8(a.v[i], b.v[i]); });
}
inline B lookup_b(const uint8_t* table, B codes) {
  const uint8x16_t once = vld1q_u8(table);
  return each_b([&](int i) { return vqtbl1q_u8(once, codes.v[i]); });
}
inline B choose_b(B mask, B a, B b) {
  return each_b([&](int i) { return vbslq_u8(mask.v[i], a.v[i], b.v[i]); });
}
template <int N>
inline B shift_right(B a) {
  return each_b([&](int i) { return vreinterpretq_u8_u32(vshrq_n_u32(vreinterpretq_u32_u8(a.v[i]), N)); });
}
template <int N>
inline B shift_left(B a) {
  return each_b([&](int i) { return vreinterpretq_u8_u32(vshlq_n_u32(vreinterpretq_u32_u8(a.v[i]), N)); });
}
inline int8x16_t four_times(const void* x) {
  int32_t four;
  __builtin_memcpy(&four, x, sizeof(four));
  return vreinterpretq_s8_s32(vdupq_n_s32(four));
}
// Codes up to 63 are signed bytes, too.
using Small = I;
inline Small open_small(I sum) { return sum; }
inline Small dot_small(Small sum, B w, const void* x) {
  const int8x16_t xs = four_times(x);
  return each_i([&](int i) { return vdotq_s32(sum.v[i], vreinterpretq_s8_u8(w.v[i]), xs); });
}
inline I close_small(I, Small sum) { return sum; }
#if defined(__ARM_FEATURE_MATMUL_INT8)
constexpr int kCodeOffset = 16;
inline I dot_codes(I sum, B w, const void* x) {
  const int8x16_t xs = four_times(x);
  return each_i([&](int i) { return vusdotq_s32(sum.v[i], w.v[i], xs); });
}
constexpr bool kTokenPairs = true;
#else
constexpr int kCodeOffset = 0;
inline I dot_codes(I sum, B w, const void* x) {
  const int8x16_t xs = four_times(x);
  return each_i([&](int i) { return vdotq_s32(sum.v[i], vreinterpretq_s8_u8(veorq_u8(w.v[i], vdupq_n_u8(128))), xs); });
}
constexpr bool kTokenPairs = false;
#endif
template <int T>
struct PairSums;

struct Squares {
  float64x2_t v[8];
};
inline void add_squares(Squares& s, F a) {
  for (int i = 0; i < 4; ++i) {
    const float64x2_t low = vcvt_f64_f32(vget_low_f32(a.v[i])), high = vcvt_high_f64_f32(a.v[i]);
    s.v[2 * i] = vfmaq_f64(s.v[2 * i], low, low);
    s.v[2 * i + 1] = vfmaq_f64(s.v[2 * i + 1], high, high);
  }
}
inline double sum_squares(const Squares& s) {
  float64x2_t sum = s.v[0];
  for (int i = 1; i < 8; ++i) sum = vaddq_f64(sum, s.v[i]);
  return vaddvq_f64(sum);
}

// 4 x 4 floats: one quarter of 4 rows becomes one quarter of 4 columns.
inline void transpose_quarter(const F* rows, int quarter, F* out, int out_quarter) {
  const float32x4x2_t top = vtrnq_f32(rows[0].v[quarter], rows[1].v[quarter]);
  const float32x4x2_t bottom = vtrnq_f32(rows[2].v[quarter], rows[3].v[quarter]);
  out[0].v[out_quarter] = vcombine_f32(vget_low_f32(top.val[0]), vget_low_f32(bottom.val[0]));
  out[1].v[out_quarter] = vcombine_f32(vget_low_f32(top.val[1]), vget_low_f32(bottom.val[1]));
  out[2].v[out_quarter] = vcombine_f32(vget_high_f32(top.val[0]), vget_high_f32(bottom.val[0]));
  out[3].v[out_quarter] = vcombine_f32(vget_high_f32(top.val[1]), vget_high_f32(bottom.val[1]));
}
template <class Put>
[[gnu::always_inline]] inline void transpose(const F* rows, Put put) {
  for (int quarter = 0; quarter < 4; ++quarter) {
    F columns[4];
    for (int r = 0; r < 4; ++r) transpose_quarter(rows + 4 * r, quarter, columns, r);
    for (int c = 0; c < 4; ++c) put(uint64_t(4 * quarter + c), columns[c]);
  }
}

}  // namespace
}  // namespace sluice::backend::cpu::SLUICE_NEON
