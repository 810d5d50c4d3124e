#include "support/attention_case.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "quant/quant.h"

namespace sluice::test {
namespace {

size_t cache_row(const AttentionCase& c, uint64_t page, uint64_t head, uint64_t position) {
  return (page * c.n_kv_head + head) * kernels::kPageTokens + position % kernels::kPageTokens;
}

// Softmax attention of one head of one token over positions first .. n - 1; row(p) is the cache row of position p.
template <class Row>
std::vector<double> attend(std::span<const float> q, uint64_t first, uint64_t n, double sink,
                           const std::vector<float>& k, const std::vector<float>& v, size_t d_v, double scale,
                           Row row) {
  std::vector<double> weight;
  double most = std::isnan(sink) ? -std::numeric_limits<double>::infinity() : sink;
  for (uint64_t p = first; p < n; ++p) {
    double score = 0;
    for (size_t i = 0; i < q.size(); ++i) score += double{q[i]} * double{k[row(p) * q.size() + i]};
    weight.push_back(score * scale);
    most = std::max(most, weight.back());
  }
  double sum = std::isnan(sink) ? 0 : std::exp(sink - most);
  for (double& w : weight) sum += w = std::exp(w - most);
  std::vector<double> out(d_v, 0.0);
  for (uint64_t p = first; p < n; ++p) {
    for (size_t i = 0; i < d_v; ++i) out[i] += weight[p - first] / sum * double{v[row(p) * d_v + i]};
  }
  return out;
}

float scale_of(const AttentionCase& c) { return 1.0f / std::sqrt(static_cast<float>(c.d_k)); }

}  // namespace

std::vector<float> AttentionCase::q() const {
  return Random(n_head + d_k).normals(size_t{make_step(sequences).n_tokens()} * n_head * d_k, q_scale);
}

std::vector<float> AttentionCase::sinks() const {
  std::vector<float> values;
  for (uint32_t h = 0; h < n_head; ++h) values.push_back(sink + 0.5f * static_cast<float>(h));
  return values;
}

std::vector<std::byte> AttentionCase::cache(Type type, uint32_t d, uint64_t seed) const {
  const Step step = make_step(sequences);
  const size_t row_bytes = quant::row_bytes(type, d);
  std::vector<std::byte> bytes(size_t{step.n_pages} * n_kv_head * kernels::kPageTokens * row_bytes, std::byte{0xff});
  Random random(seed);
  for (const kernels::SeqSlice& seq : step.seqs) {
    for (uint32_t p = 0; p < seq.first_pos + seq.n_tokens; ++p) {
      if (p < kernels::first_seen(seq.first_pos, window)) continue;
      const uint64_t page = step.page_table[seq.first_page + p / kernels::kPageTokens];
      for (uint32_t head = 0; head < n_kv_head; ++head) {
        const std::vector<std::byte> row = quantised(type, random.normals(d));
        std::memcpy(&bytes[cache_row(*this, page, head, p) * row_bytes], row.data(), row_bytes);
      }
    }
  }
  return bytes;
}

Outputs AttentionCase::run(Job& job) const {
  const Step step = make_step(sequences);
  const size_t n_out = size_t{step.n_tokens()} * n_head * d_v;
  if (id == KernelId::attn_split) return run_split(job, step);
  kernels::AttnDecodeArgs args{.out = job.out<float>(n_out),
                               .q = job.in(q()),
                               .k_cache = job.bytes(cache(k_type, d_k, 1)),
                               .v_cache = job.bytes(cache(v_type, d_v, 2)),
                               .step = job.step(step),
                               .n_head = n_head,
                               .n_kv_head = n_kv_head,
                               .d_k = d_k,
                               .d_v = d_v,
                               .window = window,
                               .scale = scale_of(*this)};
  if (!std::isnan(sink)) args.sinks = job.in(sinks());
  const uint32_t columns = id == KernelId::attn_decode ? step.n_tokens()
                           : matrices                  ? ceil_div(uint64_t{step.n_tokens()} * n_head / n_kv_head, 64)
                                                       : ceil_div(step.n_tokens(), 16);
  job.launch(key(), args, {n_kv_head, columns, 1});
  return {{.name = "out", .reals = reals(job.read(args.out, n_out)), .truth_bound = matrices ? kF16Bound : 1e-10}};
}

// attn_split, and attn_merge after it.
Outputs AttentionCase::run_split(Job& job, const Step& step) const {
  const size_t n_rows = size_t{step.n_tokens()} * n_head;
  uint32_t n_ranges = 1;
  for (const uint pos : step.pos) n_ranges = std::max(n_ranges, pos / kernels::kRangeTokens + 1);
  const kernels::AttnSplitArgs split{.part = job.out<float>(n_rows * n_ranges * (d_v + 2)),
                                     .q = job.in(q()),
                                     .k_cache = job.bytes(cache(k_type, d_k, 1)),
                                     .v_cache = job.bytes(cache(v_type, d_v, 2)),
                                     .step = job.step(step),
                                     .n_head = n_head,
                                     .n_kv_head = n_kv_head,
                                     .d_k = d_k,
                                     .d_v = d_v,
                                     .n_ranges = n_ranges,
                                     .window = window,
                                     .scale = scale_of(*this)};
  job.launch(key(), split, {n_kv_head, step.n_tokens(), n_ranges});
  kernels::AttnMergeArgs merge{.out = job.out<float>(n_rows * d_v),
                               .part = split.part,
                               .step = split.step,
                               .n_head = n_head,
                               .d_v = d_v,
                               .n_ranges = n_ranges,
                               .window = window};
  if (!std::isnan(sink)) merge.sinks = job.in(sinks());
  job.launch({.id = KernelId::attn_merge}, merge, {n_head, step.n_tokens(), 1});
  return {{.name = "out", .reals = reals(job.read(merge.out, n_rows * d_v))}};
}

Outputs AttentionCase::expected() const {
  const Step step = make_step(sequences);
  const size_t n_rows = size_t{step.n_pages} * n_kv_head * kernels::kPageTokens;
  const std::vector<float> all_q = q(), k = dequantised(k_type, cache(k_type, d_k, 1), n_rows, d_k),
                           v = dequantised(v_type, cache(v_type, d_v, 2), n_rows, d_v);
  std::vector<double> out;
  for (size_t t = 0; t < step.n_tokens(); ++t) {
    for (size_t h = 0; h < n_head; ++h) {
      const std::vector<double> row =
          attend(std::span(all_q).subspan((t * n_head + h) * d_k, d_k), kernels::first_seen(step.pos[t], window),
                 step.pos[t] + 1, double{sink + 0.5f * static_cast<float>(h)}, k, v, d_v, scale_of(*this),
                 [&](uint64_t p) { return cache_row(*this, step.page_of(t, p), h / (n_head / n_kv_head), p); });
      out.insert(out.end(), row.begin(), row.end());
    }
  }
  return {{.name = "out", .reals = out}};
}

std::vector<AttentionCase> attention_cases(KernelId id) {
  constexpr Type kCacheTypes[] = {Type::F32, Type::F16, Type::Q8_0};
  const std::vector<Sequence> mixed = {
      {.n_tokens = 1, .first_pos = 199}, {.n_tokens = 9}, {.n_tokens = 4, .first_pos = 62}};
  std::vector<AttentionCase> cases;
  for (const Type k : kCacheTypes) {
    for (const Type v : kCacheTypes) {
      const std::string name = std::string(type_info(k).name) + " keys " + std::string(type_info(v).name) + " values";
      cases.push_back({.name = name, .k_type = k, .v_type = v, .sequences = mixed});
    }
  }
  for (const uint32_t n : {1u, 63u, 64u, 65u, 200u}) {
    cases.push_back({.name = "last of " + std::to_string(n) + " positions", .sequences = {{1, n - 1}}});
  }
  for (const uint32_t group : {1u, 2u, 4u, 8u}) {
    cases.push_back(
        {.name = std::to_string(group) + " heads per kv head", .n_head = 2 * group, .sequences = {{3, 70}}});
  }
  cases.push_back({.name = "one kv head", .n_head = 5, .n_kv_head = 1, .sequences = {{.n_tokens = 2}}});
  cases.push_back({.name = "many heads per kv head", .n_head = 32, .n_kv_head = 1, .sequences = {{1, 70}}});
  cases.push_back({.name = "odd head size", .k_type = Type::F32, .d_k = 20, .d_v = 12, .sequences = mixed});
  cases.push_back({.name = "values wider than keys", .d_k = 32, .d_v = 128, .sequences = {{.n_tokens = 5}}});
  cases.push_back(
      {.name = "largest head", .n_head = 2, .n_kv_head = 1, .d_k = 1024, .d_v = 1024, .sequences = {{17, 60}}});
  cases.push_back({.name = "one position wins", .sequences = mixed, .q_scale = 1000.0f});
  cases.push_back({.name = "a prompt over two pages", .sequences = {{.n_tokens = 70}}});
  cases.push_back({.name = "many short sequences in one tile", .sequences = std::vector<Sequence>(20)});
  cases.push_back({.name = "three ranges", .sequences = {{2, 300}, {1, 127}, {1, 128}}});
  cases.push_back({.name = "no tokens", .sequences = {}});
  for (const uint32_t window : {1u, 20u, 64u, 129u}) {
    cases.push_back(
        {.name = "a window of " + std::to_string(window), .sequences = {{70, 100}, {1, 300}, {3}}, .window = window});
  }
  cases.push_back(
      {.name = "a window over odd heads", .k_type = Type::F32, .d_k = 20, .d_v = 12, .sequences = mixed, .window = 30});
  for (const float sink : {-25.0f, 0.0f, 30.0f}) {
    cases.push_back({.name = "sinks from " + std::to_string(static_cast<int>(sink)), .sequences = mixed, .sink = sink});
  }
  cases.push_back({.name = "a window and sinks", .sequences = {{2, 300}, {5, 60}}, .window = 20, .sink = 1.0f});
  for (AttentionCase& c : cases) c.id = id;
  return cases;
}

std::vector<AttentionCase> attention_matrix_cases() {
  const std::vector<Sequence> mixed = {
      {.n_tokens = 1, .first_pos = 199}, {.n_tokens = 39}, {.n_tokens = 34, .first_pos = 62}};
  std::vector<AttentionCase> cases = {
      {.name = "several sequences", .sequences = mixed},
      {.name = "a prompt over three pages", .n_kv_head = 1, .sequences = {{.n_tokens = 150}}},
      {.name = "many short sequences", .sequences = std::vector<Sequence>(20)},
      {.name = "no tokens", .sequences = {}},
      {.name = "five heads per kv head", .n_head = 5, .n_kv_head = 1, .sequences = {{.n_tokens = 40}}},
      {.name = "one head per kv head", .n_head = 2, .sequences = {{3, 70}}},
      {.name = "smallest heads", .d_k = 16, .d_v = 16, .sequences = {{.n_tokens = 33}}},
      {.name = "values wider than keys", .d_k = 48, .d_v = 128, .sequences = {{.n_tokens = 35, .first_pos = 40}}},
      {.name = "keys wider than values", .d_k = 128, .d_v = 80, .sequences = {{.n_tokens = 35, .first_pos = 60}}},
      {.name = "one position wins", .sequences = mixed, .q_scale = 1000.0f},
      {.name = "beyond f16", .sequences = {{.n_tokens = 35}}, .q_scale = 1e6f},
      {.name = "a window of 20", .sequences = {{150, 100}, {1, 300}, {33}}, .window = 20},
      {.name = "a window of 129", .sequences = {{150, 100}, {1, 300}}, .window = 129},
      {.name = "sinks", .sequences = mixed, .sink = 0.5f},
      {.name = "a window and sinks", .sequences = {{70, 60}}, .window = 40, .sink = 1.0f},
  };
  for (AttentionCase& c : cases) {
    c.id = KernelId::attn_prefill;
    c.matrices = true;
  }
  return cases;
}

}  // namespace sluice::test
