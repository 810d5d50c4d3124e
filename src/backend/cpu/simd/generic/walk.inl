// How the threads of a launch divide a product of matrices: included inside a tier, see tier_tables.h.
//
// A bucket is one weight matrix and the entries it multiplies: all rows of x (gemv, gemm), one entry (moe_gemv), or the
// entries of one expert (moe_gemm). Buckets are cut into groups whose activations stay in a core's cache. A unit is the
// smallest number of weight rows that is computed together; the cost of all units of all groups is laid end to end, and
// threads claim stretches of it, long ones first: few switches, and an even end whatever the sizes of the experts.
#pragma once
#include "backend/cpu/simd/generic/common.inl"

namespace sluice::backend::cpu::SLUICE_TIER {
namespace {

// A launch of any of the four kernels. Entries are the rows of y.
struct Product {
  float* y;            // (n_entries, m)
  const std::byte* x;  // rows of x_row_bytes
  uint64_t x_row_bytes;
  uint64_t m, k;
  uint64_t n_entries, n_used;
  bool x_by_entry;
  uint64_t n_buckets;
  const std::byte* w;           // of the only bucket, or null
  const uint64_t* expert_addr;  // (n_expert)
  const uint32_t* sel_expert;   // (n_entries): a bucket per entry, or null
  const uint32_t* offsets;      // (n_expert + 1): a bucket per expert, or null
  const uint32_t* order;        // (n_entries): position in the buckets -> entry, or null
  // Gated products alone: the second matrix of the only bucket, or of each expert, and where 8-bit rows of y go.
  const std::byte* up;
  const uint64_t* up_addr;
  std::byte* y_q8;

  uint64_t entry(uint64_t position) const { return order != nullptr ? order[position] : position; }
  const std::byte* x_row(uint64_t position) const {
    const uint64_t e = entry(position);
    return x + (x_by_entry ? e : e / n_used) * x_row_bytes;
  }
  float* y_row(uint64_t position) const { return y + entry(position) * m; }
};

struct Bucket {
  const std::byte* w;   // null: the result is zeros
  const std::byte* up;  // of gated products
  uint64_t begin, end;
};

inline Bucket expert_bucket(const Product& p, uint64_t expert, uint64_t begin, uint64_t end) {
  const uint64_t up = p.up_addr != nullptr ? p.up_addr[expert] : 0;
  return {reinterpret_cast<const std::byte*>(p.expert_addr[expert]), reinterpret_cast<const std::byte*>(up), begin,
          end};
}

inline Bucket bucket_of(const Product& p, uint64_t i) {
  if (p.offsets != nullptr) return expert_bucket(p, i, p.offsets[i], p.offsets[i + 1]);
  if (p.sel_expert != nullptr) return expert_bucket(p, p.sel_expert[i], i, i + 1);
  return {p.w, p.up, 0, p.n_entries};
}

inline uint64_t x_bytes(Layout layout, uint64_t k) { return layout == Layout::panel16 ? q8_bytes(k) : k * 4; }

inline Product product_of(const kernels::GemvArgs& a, Layout layout) {
  Product p{};
  p.y = at(a.y);
  p.x = bytes_at(a.x);
  p.x_row_bytes = x_bytes(layout, a.k);
  p.m = a.m;
  p.k = a.k;
  p.n_entries = rows_of(*at(a.step), a.rows);
  p.n_used = 1;
  p.n_buckets = 1;
  p.w = bytes_at(a.w);
  return p;
}

template <class Args>
inline Product moe_product_of(const Args& a, Layout layout) {
  Product p{};
  p.y = at(a.y);
  p.x = bytes_at(a.x);
  p.x_row_bytes = x_bytes(layout, a.k);
  p.m = a.m;
  p.k = a.k;
  p.n_entries = uint64_t{at(a.step)->n_tokens} * a.n_used;
  p.n_used = a.n_used;
  p.x_by_entry = a.x_by_entry != 0;
  p.expert_addr = at(a.expert_addr);
  return p;
}

inline Product product_of(const kernels::MoeGemvArgs& a, Layout layout) {
  Product p = moe_product_of(a, layout);
  p.n_buckets = p.n_entries;
  p.sel_expert = at(a.sel_expert);
  return p;
}

inline Product product_of(const kernels::MoeGemmArgs& a, Layout layout) {
  Product p = moe_product_of(a, layout);
  p.n_buckets = a.n_expert;
  p.offsets = at(a.offsets);
  p.order = at(a.order);
  return p;
}

inline Product product_of(const kernels::GateUpArgs& a, Layout layout) {
  Product p{};
  p.y = at(a.y);
  p.y_q8 = bytes_at(a.y_q8);
  p.x = bytes_at(a.x);
  p.x_row_bytes = x_bytes(layout, a.k);
  p.m = a.m;
  p.k = a.k;
  p.n_entries = rows_of(*at(a.step), a.rows);
  p.n_used = 1;
  p.n_buckets = 1;
  p.w = bytes_at(a.gate);
  p.up = bytes_at(a.up);
  return p;
}

inline Product product_of(const kernels::MoeGateUpArgs& a, Layout layout) {
  Product p{};
  p.y = at(a.y);
  p.y_q8 = bytes_at(a.y_q8);
  p.x = bytes_at(a.x);
  p.x_row_bytes = x_bytes(layout, a.k);
  p.m = a.m;
  p.k = a.k;
  p.n_entries = uint64_t{at(a.step)->n_tokens} * a.n_used;
  p.n_used = a.n_used;
  p.expert_addr = at(a.gate_addr);
  p.up_addr = at(a.up_addr);
  p.sel_expert = at(a.sel_expert);
  p.n_buckets = p.n_entries;
  if (a.order.address != 0) {
    p.offsets = at(a.offsets);
    p.order = at(a.order);
    p.n_buckets = a.n_expert;
  }
  return p;
}

// A group of entries and some units of its weights.
struct Piece {
  const std::byte* w;   // null: the result is zeros
  const std::byte* up;  // of gated products
  uint64_t group;       // differs from group to group of a launch
  uint64_t begin, end;  // positions
  uint64_t unit_begin, unit_end;
};

// Of weights in the shortest stretch that is claimed: in the time that they take to read, several threads can claim.
constexpr uint64_t kLeastBytes = 1 << 13;

class Walk {
 public:
  // `fixed` is the cost of a unit's weights against the cost of multiplying them with one entry.
  Walk(const Product& p, Worker& worker, uint64_t n_units, uint64_t unit_bytes, uint64_t group_entries, uint64_t fixed)
      : p_(p), worker_(worker), n_units_(n_units), group_entries_(group_entries), fixed_(fixed) {
    for (uint64_t i = 0; i < p.n_buckets; ++i) {
      const Bucket b = bucket_of(p, i);
      total_ += cost(b.end - b.begin);
    }
    least_ = most(kLeastBytes / unit_bytes * (1 + fixed), total_ / (n_workers(worker) * 64));
    least_ = most(1, least_);
  }

  bool next(Piece& out) {
    for (;;) {
      if (at_ >= claimed_ && !claim()) return false;
      while (base_ + span_ <= at_) advance();
      const uint64_t weight = span_ / n_units_;
      out = {bucket_.w,
             bucket_.up,
             group_,
             begin_,
             end_,
             ceil_div(at_ - base_, weight),
             least(n_units_, ceil_div(claimed_ - base_, weight))};
      at_ = least(claimed_, base_ + span_);
      if (out.unit_begin < out.unit_end) return true;
    }
  }

 private:
  uint64_t cost(uint64_t entries) const { return (entries + ceil_div(entries, group_entries_) * fixed_) * n_units_; }

  bool claim() {
    return claim_items(worker_, total_, most(least_, (total_ - claimed_) / (n_workers(worker_) * 2)), at_, claimed_);
  }

  // To the next group that has entries.
  void advance() {
    base_ += span_;
    begin_ = end_;
    while (begin_ == bucket_.end) {
      bucket_ = bucket_of(p_, next_bucket_++);
      begin_ = bucket_.begin;
    }
    end_ = least(bucket_.end, begin_ + group_entries_);
    span_ = cost(end_ - begin_);
    ++group_;
  }

  const Product& p_;
  Worker& worker_;
  uint64_t n_units_, group_entries_, fixed_;
  uint64_t total_ = 0, least_ = 1;
  uint64_t at_ = 0, claimed_ = 0;  // the claimed stretch that is left
  uint64_t next_bucket_ = 0;
  Bucket bucket_{};
  uint64_t group_ = 0, begin_ = 0, end_ = 0;  // the current group, its positions
  uint64_t base_ = 0, span_ = 0;              // where its cost lies in the whole
};

inline void clear_rows(const Product& p, const Piece& piece, uint64_t unit_rows) {
  const uint64_t first = piece.unit_begin * unit_rows, last = least(p.m, piece.unit_end * unit_rows);
  for (uint64_t i = piece.begin; i < piece.end; ++i) {
    float* y = p.y_row(i);
    for (uint64_t r = first; r < last; ++r) y[r] = 0.0f;
  }
}

}  // namespace
}  // namespace sluice::backend::cpu::SLUICE_TIER
