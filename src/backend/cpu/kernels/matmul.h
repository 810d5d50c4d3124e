// What the four matrix kernels share: up to 16 rows of a weight matrix, unpacked once in scratch and multiplied with
// any number of activation rows.
#pragma once
#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "backend/cpu/kernels/dot.h"
#include "backend/cpu/kernels/q8_row.h"
#include "backend/cpu/worker.h"
#include "quant/panel.h"
#include "quant/quant.h"

namespace sluice::backend::cpu::reference {

// Hosts refuse longer rows: one unpacked row must fit the scratch memory (codes and scales take less than f32).
inline constexpr uint64_t kMaxColumns = kScratchBytes / sizeof(float);

// The product that panel.h lays down.
static inline float dot_panel(const int8_t* codes, const float* scales, const float* mins, quant::PanelGroups groups,
                              const Q8Row& x, size_t k) {
  float acc = 0.0f;
  const uint32_t group = groups.n_columns;
  for (size_t g = 0; g < k / group; ++g) {
    int32_t sum = 0, sum_x = 0;
    for (size_t c = g * group; c < (g + 1) * group; ++c) {
      sum += int32_t{codes[c]} * int32_t{x.q[c]};
      sum_x += int32_t{x.q[c]};
    }
    const float d = x.d[g * group / 32];
    acc = std::fma(static_cast<float>(sum), scales[g] * d, acc);
    if (groups.has_mins) acc = std::fma(static_cast<float>(-sum_x), mins[g] * d, acc);
  }
  return acc;
}

class WeightTile {
 public:
  WeightTile(const Worker& worker, uint32_t k) : key_(worker.key()), scratch_(worker.scratch<std::byte>()), k_(k) {
    assert(k <= kMaxColumns);
    n_rows_max_ = std::clamp<uint64_t>(kScratchBytes / row_space(), 1, quant::kPanelRows);
  }

  // Tiles in a matrix of m rows; tile i holds rows [i * rows_max, (i + 1) * rows_max).
  uint64_t count(uint64_t m) const { return (m + n_rows_max_ - 1) / n_rows_max_; }
  uint64_t n_rows() const { return n_rows_; }
  uint64_t first_row() const { return first_; }
  uint64_t x_row_bytes() const { return packed() ? kernels::q8_row_bytes(k_) : uint64_t{k_} * sizeof(float); }

  // Unpacks tile `tile` of the (m, k) matrix at `w`.
  void load(const std::byte* w, uint64_t m, uint64_t tile) {
    load_rows(w, tile * n_rows_max_, std::min(n_rows_max_, m - tile * n_rows_max_));
  }
  // One row's product with x.
  float row_product(const std::byte* w, uint64_t row, const std::byte* x) {
    load_rows(w, row, 1);
    return product(0, x);
  }

  // y_of(i)[r] = row r of the tile . x_of(i), for every i < n_x; y_of and x_of give the rows of whole outputs and
  // inputs.
  template <class XOf, class YOf>
  void multiply(uint64_t n_x, XOf x_of, YOf y_of) const {
    // Activation rows that stay in a core's cache while all weight rows pass over them.
    const uint64_t block = std::max<uint64_t>(1, kCacheBytes / x_row_bytes());
    for (uint64_t begin = 0; begin < n_x; begin += block) {
      const uint64_t end = std::min(n_x, begin + block);
      for (uint64_t r = 0; r < n_rows_; ++r) {
        for (uint64_t i = begin; i < end; ++i) y_of(i)[first_ + r] = product(r, x_of(i));
      }
    }
  }

 private:
  void load_rows(const std::byte* w, uint64_t first, uint64_t n) {
    first_ = first;
    n_rows_ = n;
    for (uint64_t r = 0; r < n_rows_; ++r) {
      if (packed()) {
        groups_ = quant::panel16_codes(key_.type, w, first_ + r, k_, codes(r), scales(r), mins(r));
      } else {
        quant::codec(key_.type).dequantize(w + (first_ + r) * quant::row_bytes(key_.type, k_), values(r), k_);
      }
    }
  }

  static constexpr uint64_t kCacheBytes = 64 << 10;

  bool packed() const { return key_.layout == Layout::panel16; }
  // Scratch of one row: k floats, or k codes, at most k / 16 scales and k / 32 mins.
  uint64_t row_space() const {
    return packed() ? (uint64_t{k_} + k_ / 4 + k_ / 8 + 63) / 64 * 64 : uint64_t{k_} * sizeof(float);
  }
  float* values(uint64_t r) const { return reinterpret_cast<float*>(scratch_ + r * row_space()); }
  int8_t* codes(uint64_t r) const { return reinterpret_cast<int8_t*>(scratch_ + r * row_space()); }
  float* scales(uint64_t r) const { return reinterpret_cast<float*>(scratch_ + r * row_space() + k_); }

  float* mins(uint64_t r) const { return reinterpret_cast<float*>(scratch_ + r * row_space() + k_ + k_ / 4); }

  float product(uint64_t r, const std::byte* x) const {
    if (packed()) return dot_panel(codes(r), scales(r), mins(r), groups_, Q8Row(x, k_), k_);
    return dot(values(r), reinterpret_cast<const float*>(x), k_);
  }

  KernelKey key_;
  std::byte* scratch_;
  uint64_t k_;
  uint64_t n_rows_max_ = 1, n_rows_ = 0, first_ = 0;
  quant::PanelGroups groups_ = {32, false};
};

}  // namespace sluice::backend::cpu::reference
