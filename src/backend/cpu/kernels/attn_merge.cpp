#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/cpu/worker.h"

namespace sluice::backend::cpu::reference {

void attn_merge(const kernels::AttnMergeArgs& a, Worker& w) {
  const uint64_t n_items = uint64_t{ptr(a.step)->n_tokens} * a.n_head, row_floats = uint64_t{a.d_v} + 2;
  for (Chunk c; w.claim(n_items, w.quarter(n_items), c);) {
    for (uint64_t i = c.begin; i < c.end; ++i) {
      const kernels::uint pos = ptr(ptr(a.step)->pos)[i / a.n_head];
      const uint64_t begin = kernels::first_seen(pos, a.window) / kernels::kRangeTokens;
      const uint64_t n = pos / kernels::kRangeTokens + 1;
      const float* part = ptr(a.part) + i * a.n_ranges * row_floats;
      float* out = ptr(a.out) + i * a.d_v;
      float most = -std::numeric_limits<float>::infinity(), total = 0;
      for (uint64_t r = begin; r < n; ++r) most = std::max(most, part[r * row_floats + a.d_v]);
      if (a.sinks) most = std::max(most, ptr(a.sinks)[i % a.n_head]);
      std::fill_n(out, a.d_v, 0.0f);
      for (uint64_t r = begin; r < n; ++r) {
        const float* row = part + r * row_floats;
        const float e = std::exp(row[a.d_v] - most);
        total += e * row[a.d_v + 1];
        for (uint64_t column = 0; column < a.d_v; ++column) out[column] += e * row[column];
      }
      if (a.sinks) total += std::exp(ptr(a.sinks)[i % a.n_head] - most);
      for (uint64_t column = 0; column < a.d_v; ++column) out[column] /= total;
    }
  }
}

}  // namespace sluice::backend::cpu::reference
