// The sums of attn_decode and attn_prefill, once: both give the same bits.
#pragma once
#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "backend/cpu/kernels/dot.h"
#include "backend/cpu/worker.h"
#include "quant/quant.h"

namespace sluice::backend::cpu::reference {

class Attention {
 public:
  static constexpr uint32_t kTileTokens = 16;

  Attention(const kernels::AttnDecodeArgs& a, const Worker& w)
      : a_(a),
        step_(*ptr(a.step)),
        k_type_(w.key().type),
        v_type_(static_cast<Type>(w.key().variant)),
        group_(a.n_head / a.n_kv_head),
        k_page_(w.scratch<float>()),
        v_page_(k_page_ + uint64_t{kernels::kPageTokens} * a.d_k),
        running_(reinterpret_cast<Running*>(v_page_ + uint64_t{kernels::kPageTokens} * a.d_v)) {
    assert(uint64_t{kernels::kPageTokens} * (a.d_k + a.d_v) * sizeof(float) + kTileTokens * group_ * sizeof(Running) <=
           kScratchBytes);
  }

  // Output of the heads of `kv_head` for tokens begin .. end - 1, at most kTileTokens of any sequences.
  void attend(uint64_t kv_head, uint64_t begin, uint64_t end) {
    while (begin < end) {
      uint64_t run = begin + 1;  // tokens of one sequence share its pages
      while (run < end && ptr(step_.seq)[run] == ptr(step_.seq)[begin]) ++run;
      attend_run(kv_head, begin, run);
      begin = run;
    }
  }

 private:
  // Softmax over the positions seen so far, the outputs being sums of exp(s - max) * v.
  struct Running {
    float max, sum;
  };

  void attend_run(uint64_t kv_head, uint64_t begin, uint64_t end) {
    const kernels::uint* pos = ptr(step_.pos);
    uint64_t last = 0, first_page = UINT64_MAX;
    for (uint64_t t = begin; t < end; ++t) {
      last = std::max<uint64_t>(last, pos[t]);
      first_page = std::min<uint64_t>(first_page, kernels::first_seen(pos[t], a_.window) / kernels::kPageTokens);
      std::fill_n(out(t, kv_head * group_), group_ * a_.d_v, 0.0f);
      std::fill_n(running(t - begin, 0), group_, Running{-std::numeric_limits<float>::infinity(), 0.0f});
    }
    for (uint64_t page = first_page; page * kernels::kPageTokens <= last; ++page) {
      const uint64_t first = page * kernels::kPageTokens;
      load_page(ptr(step_.seq)[begin], page, kv_head, std::min<uint64_t>(kernels::kPageTokens, last - first + 1));
      for (uint64_t t = begin; t < end; ++t) {
        if (pos[t] < first) continue;
        const uint64_t n = std::min<uint64_t>(kernels::kPageTokens, pos[t] - first + 1);
        const uint64_t from = std::max<uint64_t>(kernels::first_seen(pos[t], a_.window), first) - first;
        if (from >= n) continue;
        for (uint64_t h = 0; h < group_; ++h) add_page(t, kv_head * group_ + h, from, n, *running(t - begin, h));
      }
    }
    for (uint64_t t = begin; t < end; ++t) {
      for (uint64_t h = 0; h < group_; ++h) {
        float* y = out(t, kv_head * group_ + h);
        if (a_.sinks) add_sink(ptr(a_.sinks)[kv_head * group_ + h], y, *running(t - begin, h));
        for (uint64_t i = 0; i < a_.d_v; ++i) y[i] /= running(t - begin, h)->sum;
      }
    }
  }

  // The page's first n positions as floats.
  void load_page(uint64_t seq, uint64_t page, uint64_t kv_head, uint64_t n) {
    const uint64_t id = ptr(step_.page_table)[ptr(step_.seqs)[seq].first_page + page];
    const uint64_t row = (id * a_.n_kv_head + kv_head) * kernels::kPageTokens;
    const auto load = [&](Type type, const std::byte* cache, uint64_t d, float* to) {
      quant::codec(type).dequantize(cache + row * quant::row_bytes(type, d), to, n * d);
    };
    load(k_type_, ptr_as<const std::byte>(a_.k_cache), a_.d_k, k_page_);
    load(v_type_, ptr_as<const std::byte>(a_.v_cache), a_.d_v, v_page_);
  }

  void add_sink(float sink, float* y, Running& run) {
    const float max = std::max(run.max, sink), keep = std::exp(run.max - max);
    run.sum = run.sum * keep + std::exp(sink - max);
    for (uint64_t i = 0; i < a_.d_v; ++i) y[i] *= keep;
  }

  // One tile of the online softmax: positions from .. n - 1 of the loaded page.
  void add_page(uint64_t token, uint64_t head, uint64_t from, uint64_t n, Running& run) {
    const float* q = ptr(a_.q) + (token * a_.n_head + head) * a_.d_k;
    float* y = out(token, head);
    float score[kernels::kPageTokens];
    float max = run.max;
    for (uint64_t p = from; p < n; ++p) {
      score[p] = a_.scale * dot(q, k_page_ + p * a_.d_k, a_.d_k);
      max = std::max(max, score[p]);
    }
    const float keep = std::exp(run.max - max);
    run.sum *= keep;
    for (uint64_t i = 0; i < a_.d_v; ++i) y[i] *= keep;
    for (uint64_t p = from; p < n; ++p) {
      const float e = std::exp(score[p] - max);
      run.sum += e;
      for (uint64_t i = 0; i < a_.d_v; ++i) y[i] += e * v_page_[p * a_.d_v + i];
    }
    run.max = max;
  }

  float* out(uint64_t token, uint64_t head) const { return ptr(a_.out) + (token * a_.n_head + head) * a_.d_v; }
  Running* running(uint64_t token_of_run, uint64_t h) const { return running_ + token_of_run * group_ + h; }

  const kernels::AttnDecodeArgs& a_;
  const kernels::StepState& step_;
  Type k_type_, v_type_;
  uint64_t group_;
  float* k_page_;     // (kPageTokens, d_k)
  float* v_page_;     // (kPageTokens, d_v)
  Running* running_;  // (kTileTokens, group)
};

}  // namespace sluice::backend::cpu::reference
