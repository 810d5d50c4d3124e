#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/cpu/worker.h"

namespace sluice::backend::cpu::reference {

void attn_merge(const kernels::AttnMergeArgs& a, Worker& w) {
  const uint64_t n_items = uint64_t{ptr(a.step)->n_tokens} * a.n_head, row_floats = uint64_t{a.d_v} + 2;
  for (Chunk c; w.claim(n_items, w.quarter(n_items), c);) {
    for (uint64_t i = c.begin; i < c.end; ++i) {
      const uint64_t n = ptr(ptr(a.step)->pos)[i / a.n_head] / kernels::kRangeTokens + 1;
      const float* part = ptr(a.part) + i * a.n_ranges * row_floats;
      float* out = ptr(a.out) + i * a.d_v;
      float most = -std::numeric_limits<float>::infinity(), total = 0;
      for (uint64_t r = 0; r < n; ++r) most = std::max(most, part[r * row_floats + a.d_v]);
      std::fill_n(out, a.d_v, 0.0f);
      for (uint64_t r = 0; r < n; ++r) {
        const float* row = part + r * row_floats;
        const float e = std::exp(row[a.d_v] - most);
        total += e * row[a.d_v + 1];
        for (uint64_t column = 0; column < a.d_v; ++column) out[column] += e * row[column];
      }
      for (uint64_t column = 0; column < a.d_v; ++column) out[column] /= total;
    }
  }
}

}  // namespace sluice::backend::cpu::reference
