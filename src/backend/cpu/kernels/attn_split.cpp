#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/cpu/kernels/dot.h"
#include "backend/cpu/worker.h"
#include "quant/quant.h"

namespace sluice::backend::cpu::reference {
namespace {

// Positions begin .. end - 1 of a head, to `part`.
void split(const kernels::AttnSplitArgs& a, Type k_type, Type v_type, uint64_t token, uint64_t head, uint64_t begin,
           uint64_t end, float* scratch, float* part) {
  const kernels::StepState& step = *ptr(a.step);
  const kernels::uint* pages = ptr(step.page_table) + ptr(step.seqs)[ptr(step.seq)[token]].first_page;
  const uint64_t kv_head = head / (a.n_head / a.n_kv_head);
  const auto load = [&](Type type, const std::byte* cache, uint64_t p, uint64_t d) {
    const uint64_t row = (uint64_t{pages[p / kernels::kPageTokens]} * a.n_kv_head + kv_head) * kernels::kPageTokens +
                         p % kernels::kPageTokens;
    quant::codec(type).dequantize(cache + row * quant::row_bytes(type, d), scratch, d);
  };
  float score[kernels::kRangeTokens];
  float most = -std::numeric_limits<float>::infinity(), sum = 0;
  for (uint64_t p = begin; p < end; ++p) {
    load(k_type, ptr_as<const std::byte>(a.k_cache), p, a.d_k);
    score[p - begin] = a.scale * dot(ptr(a.q) + (token * a.n_head + head) * a.d_k, scratch, a.d_k);
    most = std::max(most, score[p - begin]);
  }
  std::fill_n(part, a.d_v, 0.0f);
  for (uint64_t p = begin; p < end; ++p) {
    load(v_type, ptr_as<const std::byte>(a.v_cache), p, a.d_v);
    const float e = std::exp(score[p - begin] - most);
    sum += e;
    for (uint64_t i = 0; i < a.d_v; ++i) part[i] += e * scratch[i];
  }
  part[a.d_v] = most;
  part[a.d_v + 1] = sum;
}

}  // namespace

void attn_split(const kernels::AttnSplitArgs& a, Worker& w) {
  const uint64_t n_items = uint64_t{ptr(a.step)->n_tokens} * a.n_head;
  for (Chunk c; w.claim(n_items, 1, c);) {
    for (uint64_t i = c.begin; i < c.end; ++i) {
      const uint64_t token = i / a.n_head, n = uint64_t{ptr(ptr(a.step)->pos)[token]} + 1;
      const uint64_t from = kernels::first_seen(static_cast<kernels::uint>(n - 1), a.window);
      for (uint64_t range = from / kernels::kRangeTokens; range * kernels::kRangeTokens < n; ++range) {
        const uint64_t begin = range * kernels::kRangeTokens;
        float* part = ptr(a.part) + (i * a.n_ranges + range) * (a.d_v + 2);
        split(a, w.key().type, static_cast<Type>(w.key().variant), token, i % a.n_head, std::max(from, begin),
              std::min<uint64_t>(n, begin + kernels::kRangeTokens), w.scratch<float>(), part);
      }
    }
  }
}

}  // namespace sluice::backend::cpu::reference
