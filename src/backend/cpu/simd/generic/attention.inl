// Attention over the paged cache, and the store into it: included inside a tier.
//
// A page of one head becomes f32 once per tile of query tokens: keys transposed (d, position), values (position, d).
// Then the heads of the group, kQueries at a time, are small matrix products, in each of which a column is one
// chain of fused multiply-adds: over d for a score, over the positions for an output. So a token's bits do not depend
// on the tile. Where the queries are few, values go from the cache to the products without a copy.
#pragma once
#include "backend/cpu/simd/generic/cache_rows.inl"
#include "backend/cpu/simd/generic/common.inl"
#include "backend/cpu/simd/generic/rows_f32.inl"

namespace sluice::backend::cpu::SLUICE_TIER {
namespace {

constexpr uint64_t kPage = kernels::kPageTokens;
constexpr uint64_t kTileQueries = 128;
constexpr int kQueries = kAttentionQueries;
constexpr uint64_t kFewQueries = 8;

inline uint64_t up_to_16(uint64_t n) { return (n + 15) / 16 * 16; }

// Rows of a matrix, and the same rows of the one that comes next, `ahead` bytes on.
struct Rows {
  const std::byte* first;
  uint64_t bytes;  // of a row
  int64_t ahead;
};

// c[q][column] += sum over i < n, in order, of a[q][i] * b[i][column], for 16 * C columns.
template <class Row, int Q, int C>
[[gnu::always_inline]] inline void multiply_columns(const float* const* a, const Rows& b, uint64_t n, float* const* c,
                                                    uint64_t column) {
  F sum[Q * C];
  unrolled<Q * C>([&](int i) { sum[i] = load(c[i / C] + column + 16 * (i % C)); });
  const float* row[Q];
  unrolled<Q>([&](int q) { row[q] = a[q]; });
  const std::byte* from = b.first;
  for (uint64_t i = 0; i < n; ++i, from += b.bytes) {
    if constexpr (Row::kFromCache) prefetch_bytes<Row::kBytesOf16 * C>(from + b.ahead + column / 16 * Row::kBytesOf16);
    F columns[C];
    Row::template load_columns<C>(from, column, columns);
    unrolled<Q>([&](int q) {
      const F x = splat(row[q][i]);
      unrolled<C>([&](int j) { sum[q * C + j] = fma(x, columns[j], sum[q * C + j]); });
    });
  }
  unrolled<Q * C>([&](int i) { store(c[i / C] + column + 16 * (i % C), sum[i]); });
}

template <class Row, int Q>
[[gnu::noinline]] void multiply_queries(const float* const* a, const Rows& b, uint64_t n, float* const* c,
                                        uint64_t columns) {
  uint64_t column = 0;
  for (; column + 16 * kAttentionLanes <= columns; column += 16 * kAttentionLanes) {
    multiply_columns<Row, Q, kAttentionLanes>(a, b, n, c, column);
  }
  for (; column < columns; column += 16) multiply_columns<Row, Q, 1>(a, b, n, c, column);
}
template <class Row, int Q = kQueries>
inline void multiply_some(uint64_t queries, const float* const* a, const Rows& b, uint64_t n, float* const* c,
                          uint64_t columns) {
  if (queries == Q) return multiply_queries<Row, Q>(a, b, n, c, columns);
  if constexpr (Q > 1) multiply_some<Row, Q - 1>(queries, a, b, n, c, columns);
}

// Softmax over the positions seen so far; outputs are sums of exp(score - max) * v.
struct Running {
  float max, sum;
};

class Attention {
 public:
  // The heads that share a kv head go in `parts` of equal size, which divides their number.
  Attention(const kernels::AttnDecodeArgs& a, const KernelKey& key, std::byte* scratch, uint64_t parts)
      : a_(a),
        step_(*at(a.step)),
        k_type_(key.type),
        v_type_(static_cast<Type>(key.variant)),
        parts_(parts),
        group_(a.n_head / a.n_kv_head / parts),
        d_k_(up_to_16(a.d_k)),
        d_v_(up_to_16(a.d_v)),
        k_row_(row_bytes(k_type_, a.d_k)),
        v_row_(row_bytes(v_type_, a.d_v)),
        tile_(most(1, kTileQueries / group_)) {
    keys_ = reinterpret_cast<float*>(scratch);
    values_ = keys_ + kPage * d_k_;
    running_ = reinterpret_cast<Running*>(values_ + kPage * d_v_);
    sums_ = reinterpret_cast<float*>(running_ + tile_ * group_);
    const uint64_t left = kScratchBytes - static_cast<uint64_t>(reinterpret_cast<std::byte*>(sums_) - scratch);
    tile_ = most(1, least(tile_, left / (group_ * d_v_ * sizeof(float))));
  }

  uint64_t tile() const { return tile_; }

  // The heads of part `part`, counted over all kv heads, for tokens begin .. end - 1, at most tile() of any sequences.
  void attend(uint64_t part, uint64_t begin, uint64_t end) {
    while (begin < end) {
      uint64_t run = begin + 1;  // tokens of one sequence share its pages
      while (run < end && at(step_.seq)[run] == at(step_.seq)[begin]) ++run;
      attend_run(part, begin, run);
      begin = run;
    }
  }

 private:
  void attend_run(uint64_t part, uint64_t begin, uint64_t end) {
    const uint64_t kv_head = part / parts_;
    const uint32_t* pos = at(step_.pos);
    const uint64_t n_queries = (end - begin) * group_;
    uint64_t last = 0, first_page = ~uint64_t{0};
    for (uint64_t t = begin; t < end; ++t) {
      last = most(last, pos[t]);
      first_page = least(first_page, kernels::first_seen(pos[t], a_.window) / kPage);
    }
    for (uint64_t i = 0; i < n_queries; ++i) running_[i] = {-__builtin_inff(), 0.0f};
    for (uint64_t i = 0; i < n_queries * d_v_; i += 16) store(sums_ + i, zero());
    copy_values_ = n_queries > kFewQueries || a_.d_v % 16 != 0;
    const uint32_t* pages = at(step_.page_table) + at(step_.seqs)[at(step_.seq)[begin]].first_page;
    for (uint64_t page = first_page; page * kPage <= last; ++page) {
      const uint64_t first = page * kPage;
      const uint64_t next = first + kPage <= last ? page + 1 : page;
      load_page((pages[page] * a_.n_kv_head + kv_head) * kPage, (pages[next] * a_.n_kv_head + kv_head) * kPage,
                least(kPage, last - first + 1));
      // Queries of tokens that see the same positions of the page go together.
      for (uint64_t t = begin; t < end;) {
        const uint64_t n = seen(pos[t], first), from = unseen(pos[t], first);
        uint64_t until = t + 1;
        while (until < end && seen(pos[until], first) == n && unseen(pos[until], first) == from) ++until;
        if (n > from) add_page(part, begin, t, until, from, n);
        t = until;
      }
    }
    for (uint64_t i = 0; i < n_queries; ++i) {
      const uint64_t head = head_of(part, begin, i);
      if (a_.sinks.address != 0) add_sink(i, at(a_.sinks)[head % a_.n_head]);
      finish(i, at(a_.out) + head * a_.d_v);
    }
  }

  // Of the page that begins at position `first`, a token sees positions unseen .. seen - 1.
  static uint64_t seen(uint64_t pos, uint64_t first) { return pos < first ? 0 : least(kPage, pos - first + 1); }
  uint64_t unseen(uint32_t pos, uint64_t first) const {
    const uint64_t from = kernels::first_seen(pos, a_.window);
    return from <= first ? 0 : least(kPage, from - first);
  }
  // Query i of the tile: token by token, the heads of the part.
  uint64_t head_of(uint64_t part, uint64_t begin, uint64_t i) const {
    return (begin + i / group_) * a_.n_head + part * group_ + i % group_;
  }

  // n positions from cache row `row` on; those from `next` on are needed soon.
  void load_page(uint64_t row, uint64_t next, uint64_t n) {
    const Rows keys = rows_of_page(a_.k_cache, k_row_, row, next);
    v_page_ = rows_of_page(a_.v_cache, v_row_, row, next);
    with_row_of(k_type_, [&](auto k_row) { transpose_keys<decltype(k_row)>(keys, n); });
    if (!copy_values_) return;
    for (uint64_t p = 0; p < n; ++p) {
      float* to = values_ + p * d_v_;
      store(to + d_v_ - 16, zero());
      row_to_f32(v_type_, v_page_.first + p * v_row_, to, a_.d_v);
    }
  }
  static Rows rows_of_page(kernels::DevPtr<uint32_t> cache, uint64_t bytes, uint64_t row, uint64_t next) {
    return {bytes_at(cache) + row * bytes, bytes, static_cast<int64_t>((next - row) * bytes)};
  }

  // Positions past n, of which nothing is wanted, repeat the last: stale ones could be slow.
  template <class Row>
  void transpose_keys(const Rows& keys, uint64_t n) {
    for (uint64_t p = 0; p < n; p += 16) {
      const std::byte* rows[16];
      for (uint64_t r = 0; r < 16; ++r) rows[r] = keys.first + least(p + r, n - 1) * keys.bytes;
      const std::byte* soon = keys.first + p * keys.bytes + keys.ahead;
      for (uint64_t i = 0; i < d_k_; i += 16, soon += 16 * Row::kBytesOf16) {
        prefetch_bytes<16 * Row::kBytesOf16>(soon);
        Row::transpose_columns(rows, i, static_cast<uint32_t>(least(16, a_.d_k - i)), keys_ + i * kPage + p, kPage);
      }
    }
  }

  // The loaded page's positions from .. n - 1 for the queries of tokens t .. until - 1 of the tile that starts at
  // `begin`.
  void add_page(uint64_t part, uint64_t begin, uint64_t t, uint64_t until, uint64_t from, uint64_t n) {
    const uint64_t end = (until - begin) * group_;
    const Rows keys = rows_of_copy(keys_, kPage), values = rows_of_copy(values_ + from * d_v_, d_v_);
    const Rows in_cache{v_page_.first + from * v_row_, v_page_.bytes, v_page_.ahead};
    for (uint64_t i = (t - begin) * group_; i < end; i += kQueries) {
      const uint64_t queries = least(kQueries, end - i);
      float scores[kQueries][kPage];
      const float *q[kQueries], *p[kQueries];
      float *s[kQueries], *sums[kQueries];
      for (uint64_t j = 0; j < queries; ++j) {
        q[j] = at(a_.q) + head_of(part, begin, i + j) * a_.d_k;
        s[j] = scores[j];
        p[j] = scores[j] + from;
        sums[j] = sums_ + (i + j) * d_v_;
        for (uint64_t c = 0; c < up_to_16(n); c += 16) store(s[j] + c, zero());
      }
      multiply_some<CopiedRow>(queries, q, keys, a_.d_k, s, up_to_16(n));
      for (uint64_t j = 0; j < queries; ++j) {
        for (uint64_t c = 0; c < from; ++c) scores[j][c] = -__builtin_inff();
      }
      weigh(queries, n, scores, running_ + i, sums);
      if (copy_values_) {
        multiply_some<CopiedRow>(queries, p, values, n - from, sums, d_v_);
      } else {
        with_row_of(v_type_,
                    [&](auto v_row) { multiply_some<decltype(v_row)>(queries, p, in_cache, n - from, sums, d_v_); });
      }
    }
  }
  static Rows rows_of_copy(const float* first, uint64_t stride) {
    return {reinterpret_cast<const std::byte*>(first), stride * sizeof(float), 0};
  }

  // Scores of n positions -> exp(score - max), with the sums so far brought to the new maximum. Each step for all
  // queries at once: one query alone would wait for every reduction.
  template <int Vectors = kPage / 16>
  void weigh(uint64_t queries, uint64_t n, float (*scores)[kPage], Running* running, float* const* sums) const {
    if constexpr (Vectors > 1) {
      if (n <= 16 * (Vectors - 1)) return weigh<Vectors - 1>(queries, n, scores, running, sums);
    }
    const auto lanes = static_cast<uint32_t>(n - 16 * (Vectors - 1));  // of the last vector
    const F scale = splat(a_.scale);
    float new_max[kQueries];
    for (uint64_t j = 0; j < queries; ++j) {
      F largest = splat(running[j].max);
      unrolled<Vectors>([&](int v) {
        const F s = mul(load(scores[j] + 16 * v), scale);
        store(scores[j] + 16 * v, s);
        largest = max(largest, v + 1 < Vectors ? s : select_first(lanes, s, splat(-__builtin_inff())));
      });
      new_max[j] = max_lanes(largest);
    }
    for (uint64_t j = 0; j < queries; ++j) {
      F sum = zero();
      unrolled<Vectors>([&](int v) {
        const F e = exp_of(sub(load(scores[j] + 16 * v), splat(new_max[j])));
        const F wanted = v + 1 < Vectors ? e : select_first(lanes, e, zero());
        store(scores[j] + 16 * v, wanted);
        sum = add(sum, wanted);
      });
      const float keep = running[j].max == new_max[j] ? 1.0f : first_lane(exp_of(splat(running[j].max - new_max[j])));
      running[j] = {new_max[j], running[j].sum * keep + sum_lanes(sum)};
      if (keep == 1.0f) continue;
      for (uint64_t i = 0; i < d_v_; i += 16) store(sums[j] + i, mul(load(sums[j] + i), splat(keep)));
    }
  }

  void add_sink(uint64_t i, float sink) {
    const float largest = sink > running_[i].max ? sink : running_[i].max;
    const float keep = first_lane(exp_of(splat(running_[i].max - largest)));
    running_[i] = {largest, running_[i].sum * keep + first_lane(exp_of(splat(sink - largest)))};
    for (uint64_t c = 0; c < d_v_; c += 16) store(sums_ + i * d_v_ + c, mul(load(sums_ + i * d_v_ + c), splat(keep)));
  }

  void finish(uint64_t i, float* out) const {
    const F sum = splat(running_[i].sum);
    by_lanes(0, a_.d_v,
             [&](uint64_t c, uint32_t lanes) { store_up_to(out + c, div(load(sums_ + i * d_v_ + c), sum), lanes); });
  }

  const kernels::AttnDecodeArgs& a_;
  const kernels::StepState& step_;
  Type k_type_, v_type_;
  uint64_t parts_, group_;    // of each kv head, and heads of a part
  uint64_t d_k_, d_v_;        // d rounded up to 16
  uint64_t k_row_, v_row_;    // bytes
  uint64_t tile_;             // tokens
  bool copy_values_ = false;  // else the products read v_page_
  Rows v_page_{};
  float* keys_;       // (d_k, kPage)
  float* values_;     // (kPage, d_v)
  Running* running_;  // (tile, group)
  float* sums_;       // (tile, group, d_v)
};

// Many heads of few kv heads are shared out between the threads. The sums are those of each head by itself.
inline uint64_t parts_of(const kernels::AttnDecodeArgs& a, uint64_t n_tokens, uint64_t n_threads) {
  const uint64_t group = a.n_head / a.n_kv_head;
  uint64_t parts = 1;
  while (group % (2 * parts) == 0 && group / (2 * parts) >= kFewQueries && n_tokens * a.n_kv_head * parts < n_threads) {
    parts *= 2;
  }
  return parts;
}

inline void attend_tiles(const std::byte* args, Worker& worker, uint64_t most_tokens) {
  const auto& a = *reinterpret_cast<const kernels::AttnDecodeArgs*>(args);
  const uint64_t n_tokens = at(a.step)->n_tokens, parts = parts_of(a, n_tokens, n_workers(worker));
  Attention attention(a, key_of(worker), scratch_of(worker), parts);
  const uint64_t tile = least(most_tokens, attention.tile());
  const uint64_t n_tiles = ceil_div(n_tokens, tile), n_parts = a.n_kv_head * parts;
  for (uint64_t i = 0, end = 0; claim_items(worker, n_tiles * n_parts, 1, i, end);) {
    for (; i < end; ++i) {
      const uint64_t begin = (n_tiles - 1 - i / n_parts) * tile;  // later tokens see more: they go first
      attention.attend(i % n_parts, begin, least(n_tokens, begin + tile));
    }
  }
}

void attn_decode(const std::byte* args, Worker& worker) { attend_tiles(args, worker, 1); }
void attn_prefill(const std::byte* args, Worker& worker) { attend_tiles(args, worker, kTileQueries); }

void kv_store(const std::byte* args, Worker& worker) {
  const auto& a = *reinterpret_cast<const kernels::KvStoreArgs*>(args);
  const kernels::StepState& step = *at(a.step);
  const uint64_t size = key_of(worker).type == Type::F32 ? 4 : 2;
  for (uint64_t t = 0, end = 0;
       claim_items(worker, step.n_tokens, most(1, step.n_tokens / (4 * n_workers(worker))), t, end);) {
    for (; t < end; ++t) {
      const uint64_t pos = at(step.pos)[t];
      const uint64_t page = at(step.page_table)[at(step.seqs)[at(step.seq)[t]].first_page + pos / kPage];
      for (uint64_t head = 0; head < a.n_kv_head; ++head) {
        const float* x = at(a.x) + (t * a.n_kv_head + head) * a.d;
        std::byte* to = bytes_at(a.cache) + ((page * a.n_kv_head + head) * kPage + pos % kPage) * a.d * size;
        if (size == 4) {
          __builtin_memcpy(to, x, a.d * sizeof(float));
          continue;
        }
        by_lanes(0, a.d, [&](uint64_t i, uint32_t n) {
          std::byte halves[32];
          to_f16(halves, load_up_to(x + i, n));
          __builtin_memcpy(to + 2 * i, halves, 2 * n);
        });
      }
    }
  }
}

#define SLUICE_ATTENTION(K, V)                                                                         \
  {{KernelId::attn_decode, Type::K, Layout::row_major, static_cast<uint8_t>(Type::V)}, attn_decode}, { \
    {KernelId::attn_prefill, Type::K, Layout::row_major, static_cast<uint8_t>(Type::V)}, attn_prefill  \
  }
constexpr TierKernel kAttentionTable[] = {SLUICE_ATTENTION(F16, F16),
                                          SLUICE_ATTENTION(F16, F32),
                                          SLUICE_ATTENTION(F16, Q8_0),
                                          SLUICE_ATTENTION(F32, F16),
                                          SLUICE_ATTENTION(F32, F32),
                                          SLUICE_ATTENTION(F32, Q8_0),
                                          SLUICE_ATTENTION(Q8_0, F16),
                                          SLUICE_ATTENTION(Q8_0, F32),
                                          SLUICE_ATTENTION(Q8_0, Q8_0),
                                          {{KernelId::kv_store, Type::F16, Layout::row_major, 0}, kv_store},
                                          {{KernelId::kv_store, Type::F32, Layout::row_major, 0}, kv_store}};
#undef SLUICE_ATTENTION

}  // namespace

TierTable attention_kernels() { return {kAttentionTable, sizeof(kAttentionTable) / sizeof(kAttentionTable[0])}; }

}  // namespace sluice::backend::cpu::SLUICE_TIER
