// What the families of kernels share: included inside a tier, see tier_tables.h.
#pragma once
#include <cfloat>

namespace sluice::backend::cpu::SLUICE_TIER {
namespace {

template <class T>
inline T* at(kernels::DevPtr<T> p) {
  return reinterpret_cast<T*>(p.address);
}
template <class T>
inline std::byte* bytes_at(kernels::DevPtr<T> p) {
  return reinterpret_cast<std::byte*>(p.address);
}
inline uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }
inline uint64_t most(uint64_t a, uint64_t b) { return a > b ? a : b; }
inline uint64_t ceil_div(uint64_t a, uint64_t b) { return (a + b - 1) / b; }
inline uint64_t q8_bytes(uint64_t k) { return k + k / 8 + k / 4; }
inline uint64_t rows_of(const kernels::StepState& step, const kernels::Rows& rows) {
  return uint64_t{rows.of == kernels::kRowsOfOut ? step.n_out : step.n_tokens} * rows.per;
}

// fn(0) ... fn(N - 1), written out: a loop over registers would be kept in memory.
template <int N, class Fn>
[[gnu::always_inline]] inline void unrolled(Fn fn) {
  if constexpr (N > 0) {
    unrolled<N - 1>(fn);
    fn(N - 1);
  }
}

// Calls fn(first, n) for 16 lanes at a time; n < 16 for the last ones.
template <class Fn>
[[gnu::always_inline]] inline void by_lanes(uint64_t begin, uint64_t end, Fn fn) {
  for (uint64_t i = begin; i < end; i += 16) fn(i, static_cast<uint32_t>(least(16, end - i)));
}
inline F load_up_to(const float* p, uint32_t n) { return n == 16 ? load(p) : load_first(p, n); }
inline void store_up_to(float* p, F a, uint32_t n) {
  if (n == 16) {
    store(p, a);
  } else {
    store_first(p, a, n);
  }
}

// e^x within 2 units in the last place; 0 and infinity far out, NaN stays. Cody and Waite 1980: x = n ln 2 + r,
// Taylor's series to r^7 / 7!.
inline F exp_of(F x) {
  x = min(splat(110.0f), max(splat(-110.0f), x));
  const F n = round(mul(x, splat(1.44269504f)));
  F r = fnma(n, splat(0.693359375f), x);
  r = fnma(n, splat(-2.12194440e-4f), r);
  F p = splat(1.0f / 5040);
  p = fma(p, r, splat(1.0f / 720));
  p = fma(p, r, splat(1.0f / 120));
  p = fma(p, r, splat(1.0f / 24));
  p = fma(p, r, splat(1.0f / 6));
  p = fma(p, r, splat(0.5f));
  p = fma(p, r, splat(1.0f));
  p = fma(p, r, splat(1.0f));
  return scale_by_power(p, n);
}

}  // namespace
}  // namespace sluice::backend::cpu::SLUICE_TIER
