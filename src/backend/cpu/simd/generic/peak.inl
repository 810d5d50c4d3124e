// What the instructions of a tier reach when nothing else is in their way: included inside a tier, see tier_tables.h.
#pragma once
#include "backend/cpu/simd/generic/common.inl"

namespace sluice::backend::cpu::SLUICE_TIER {
namespace {

// Compilers must compute each round anew, and keep what comes out.
template <class T>
[[gnu::always_inline]] inline void unknown(const T*& p) {
  asm volatile("" : "+r"(p));
}
[[gnu::always_inline]] inline void keep(float x) { asm volatile("" : : "m"(x)); }

template <int T>
void sum_dots(uint64_t rounds, const std::byte* x, I (&sum)[T]) {
  unknown(x);
  const B w = load_b(x);
  for (uint64_t r = 0; r < rounds; ++r) {
    unknown(x);
    Small small[T];
    unrolled<T>([&](int t) { small[t] = open_small(sum[t]); });
    unrolled<8>([&](int j) { unrolled<T>([&](int t) { small[t] = dot_small(small[t], w, x + 32 * t + 4 * j); }); });
    unrolled<T>([&](int t) { sum[t] = close_small(sum[t], small[t]); });
  }
}
template <int T>
void sum_pairs(uint64_t rounds, const std::byte* x, I (&sum)[T]) {
  unknown(x);
  const B low = load_b(x);
  unknown(x);
  const B high = load_b(x);
  PairSums<T> pairs(sum);
  for (uint64_t r = 0; r < rounds; ++r) {
    unknown(x);
    unrolled<4>([&](int j) { pairs.add(low, high, x, 8 * j); });
  }
  pairs.close(sum);
}

// A register tile of panel.inl over one block of 4-bit codes, without unpacking and scales.
void peak_dots(uint64_t rounds) {
  alignas(64) const std::byte bytes[32 * kPanelTokens + 64] = {};
  I sum[kPanelTokens];
  unrolled<kPanelTokens>([&](int t) { sum[t] = splat_i(0); });
  if constexpr (kTokenPairs) {
    sum_pairs<kPanelTokens>(rounds, bytes, sum);
  } else {
    sum_dots<kPanelTokens>(rounds, bytes, sum);
  }
  F all = zero();
  unrolled<kPanelTokens>([&](int t) { all = add(all, to_f32(sum[t])); });
  keep(sum_lanes(all));
}

// As many independent sums as attention's register tile has.
constexpr int kPeakSums = 4 * kAttentionLanes;

void peak_fmas(uint64_t rounds) {
  const F x = splat(0.5f), y = splat(0.25f);
  const float zeros[16] = {};
  F sum[kPeakSums];
  unrolled<kPeakSums>([&](int i) {  // sums that are known to be equal would be computed once
    const float* p = zeros;
    unknown(p);
    sum[i] = load(p);
  });
  for (uint64_t r = 0; r < rounds; ++r) {
    unrolled<4>([&](int) { unrolled<kPeakSums>([&](int i) { sum[i] = fma(sum[i], x, y); }); });
  }
  F all = zero();
  unrolled<kPeakSums>([&](int i) { all = add(all, sum[i]); });
  keep(sum_lanes(all));
}

// Prefetched as the kernels do it: hardware alone stops at the end of every small page.
void peak_read(const std::byte* bytes, uint64_t n) {
  constexpr uint64_t kAhead = 4096;
  const auto* p = reinterpret_cast<const float*>(bytes);
  F sum[4];
  unrolled<4>([&](int i) { sum[i] = zero(); });
  for (uint64_t i = 0; i < n / 4; i += 128) {
    unrolled<8>([&](int j) {
      prefetch(bytes + 4 * i + 64 * j + kAhead);
      sum[j % 4] = add(sum[j % 4], load(p + i + 16 * j));
    });
  }
  keep(sum_lanes(add(add(sum[0], sum[1]), add(sum[2], sum[3]))));
}

}  // namespace

TierPeak peak() {
  constexpr uint64_t kLanes = 16;
  return {peak_dots, 2 * 8 * 4 * kLanes * kPanelTokens, peak_fmas, 2 * 4 * kLanes * kPeakSums, peak_read};
}

}  // namespace sluice::backend::cpu::SLUICE_TIER
