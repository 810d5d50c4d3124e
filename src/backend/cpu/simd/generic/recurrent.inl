// Kernels whose state sums up all tokens, and the norms and gates around them: included inside a tier.
#pragma once
#include "backend/cpu/simd/generic/common.inl"
#include "backend/cpu/simd/generic/q8.inl"

namespace sluice::backend::cpu::SLUICE_TIER {
namespace {

constexpr uint64_t kStateColumns = 64;  // of a work item
constexpr int kStateVectors = 4;        // that are computed together: those columns

inline float exp_one(float x) { return first_lane(exp_of(splat(x))); }
inline float softplus(float x) { return x > 20 ? x : static_cast<float>(__builtin_log1p(__builtin_exp(x))); }
inline float sigmoid(float x) { return 1.0f / (1.0f + exp_one(-x)); }

// out = row * scale / sqrt(sum of squares + eps)
inline void unit_row(const float* row, uint64_t n, float eps, float scale, float* out) {
  Squares squares{};
  by_lanes(0, n, [&](uint64_t i, uint32_t lanes) { add_squares(squares, load_up_to(row + i, lanes)); });
  const double root = __builtin_sqrt(sum_squares(squares) + static_cast<double>(eps));
  const F factor = splat(static_cast<float>(static_cast<double>(scale) / root));
  by_lanes(0, n,
           [&](uint64_t i, uint32_t lanes) { store_up_to(out + i, mul(load_up_to(row + i, lanes), factor), lanes); });
}

// Calls fn(Vectors<V>, first, lanes) for columns 0 .. n - 1: 64 at once where there are so many, else 16.
template <int V>
struct Vectors {};
template <class Fn>
inline void by_columns(uint64_t n, Fn fn) {
  if (n == kStateColumns) {
    fn(Vectors<kStateVectors>{}, uint64_t{0}, 16u);
  } else {
    by_lanes(0, n, [&](uint64_t first, uint32_t lanes) { fn(Vectors<1>{}, first, lanes); });
  }
}

// What a token does to one head of a delta net; q and k are normalised.
struct DeltaUpdate {
  const float *q, *k, *v;
  float decay, beta;
};

// 16 V columns of M, of which the last 16 count as `lanes`; `from` (null: zeros) may be `to`.
template <int V>
inline void delta_columns(const DeltaUpdate& u, uint64_t size, uint64_t first, uint32_t lanes, const float* from,
                          float* to, float* y) {
  const F decay = splat(u.decay);
  F d[V], sum[V];
  unrolled<V>([&](int j) { d[j] = sum[j] = zero(); });
  for (uint64_t i = 0; i < size; ++i) {
    const F k = splat(u.k[i]);
    unrolled<V>([&](int j) {
      const uint64_t at = i * size + first + 16 * static_cast<uint64_t>(j);
      const F m = from == nullptr ? zero() : mul(load_up_to(from + at, lanes), decay);
      store_up_to(to + at, m, lanes);
      d[j] = fma(k, m, d[j]);
    });
  }
  unrolled<V>([&](int j) {
    d[j] = mul(splat(u.beta), sub(load_up_to(u.v + first + 16 * static_cast<uint64_t>(j), lanes), d[j]));
  });
  for (uint64_t i = 0; i < size; ++i) {
    const F k = splat(u.k[i]), q = splat(u.q[i]);
    unrolled<V>([&](int j) {
      float* at = to + i * size + first + 16 * static_cast<uint64_t>(j);
      const F m = fma(k, d[j], load_up_to(at, lanes));
      store_up_to(at, m, lanes);
      sum[j] = fma(q, m, sum[j]);
    });
  }
  unrolled<V>([&](int j) { store_up_to(y + first + 16 * static_cast<uint64_t>(j), sum[j], lanes); });
}

// Columns first .. first + n - 1 of one head, for all tokens of the sequence.
void delta_walk(const kernels::DeltaNetArgs& a, const kernels::SeqSlice& seq, uint64_t head, uint64_t first, uint64_t n,
                float* scratch) {
  const uint64_t size = a.size, r = a.n_value / a.n_key, row_heads = 2 * uint64_t{a.n_key} + a.n_value;
  const bool tiled = a.heads == kernels::kValueHeadsTiled;
  const uint64_t key_head = tiled ? head % a.n_key : head / r, row_floats = a.n_value * size * size;
  float *slot = at(a.state) + uint64_t{seq.state_slot} * a.slot_stride + head * size * size, *q = scratch,
        *k = q + (size + 15) / 16 * 16;
  for (uint64_t t = 0; t < seq.n_tokens; ++t) {
    const uint64_t token = seq.first_token + t, position = uint64_t{seq.first_pos} + t;
    const float* qkv = at(a.qkv) + token * row_heads * size;
    unit_row(qkv + key_head * size, size, a.eps, 1.0f / __builtin_sqrtf(static_cast<float>(size)), q);
    unit_row(qkv + (a.n_key + key_head) * size, size, a.eps, 1, k);
    const uint64_t gate = tiled ? token * a.n_value + head : (token * a.n_key + key_head) * 2 * r + head % r;
    const float alpha = tiled ? at(a.alpha)[gate] : at(a.beta)[gate + r];
    const DeltaUpdate u{q, k, qkv + (2 * uint64_t{a.n_key} + head) * size,
                        exp_one(at(a.a)[head] * softplus(alpha + at(a.dt_bias)[head])), sigmoid(at(a.beta)[gate])};
    const float* from = position == 0 ? nullptr : slot + (position - 1) % a.n_rows * row_floats;
    float *to = slot + position % a.n_rows * row_floats, *y = at(a.y) + (token * a.n_value + head) * size;
    by_columns(n, [&]<int V>(Vectors<V>, uint64_t column, uint32_t lanes) {
      delta_columns<V>(u, size, first + column, lanes, from, to, y);
    });
  }
}

// fn(sequence, head, first column, columns) for all of a step.
template <class Fn>
inline void by_heads(Worker& worker, const kernels::StepState& step, uint64_t n_head, uint64_t size, Fn fn) {
  const uint64_t blocks = ceil_div(size, kStateColumns), per_sequence = blocks * n_head;
  for (uint64_t i = 0, end = 0; claim_items(worker, per_sequence * step.n_seqs, 1, i, end);) {
    for (; i < end; ++i) {
      const uint64_t first = i % blocks * kStateColumns;
      fn(at(step.seqs)[i / per_sequence], i % per_sequence / blocks, first, least(kStateColumns, size - first));
    }
  }
}

void delta_net(const kernels::DeltaNetArgs& a, Worker& worker) {
  auto* scratch = reinterpret_cast<float*>(scratch_of(worker));
  by_heads(worker, *at(a.step), a.n_value, a.size,
           [&](const kernels::SeqSlice& seq, uint64_t head, uint64_t first, uint64_t n) {
             delta_walk(a, seq, head, first, n, scratch);
           });
}

// What a token does to one head of Mamba-2, from the first of its columns on.
struct ScanUpdate {
  const float *x, *b, *c;
  float dt, decay, d;
};

template <int V>
inline void scan_columns(const ScanUpdate& u, uint64_t n_state, uint64_t size, uint64_t first, uint32_t lanes,
                         const float* from, float* to, float* y) {
  const F decay = splat(u.decay);
  F x[V], sum[V];
  unrolled<V>([&](int j) {
    const F in = load_up_to(u.x + first + 16 * static_cast<uint64_t>(j), lanes);
    x[j] = mul(in, splat(u.dt));
    sum[j] = mul(in, splat(u.d));
  });
  for (uint64_t i = 0; i < n_state; ++i) {
    const F b = splat(u.b[i]), c = splat(u.c[i]);
    unrolled<V>([&](int j) {
      const uint64_t at = i * size + first + 16 * static_cast<uint64_t>(j);
      F m = mul(b, x[j]);
      if (from != nullptr) m = fma(load_up_to(from + at, lanes), decay, m);
      store_up_to(to + at, m, lanes);
      sum[j] = fma(c, m, sum[j]);
    });
  }
  unrolled<V>([&](int j) { store_up_to(y + first + 16 * static_cast<uint64_t>(j), sum[j], lanes); });
}

void scan_walk(const kernels::SsmScanArgs& a, const kernels::SeqSlice& seq, uint64_t head, uint64_t first, uint64_t n) {
  const uint64_t size = a.size, n_x = a.n_head * size, n_b = uint64_t{a.n_group} * a.n_state;
  const uint64_t group = head / (a.n_head / a.n_group), head_floats = a.n_state * size;
  float* slot = at(a.state) + uint64_t{seq.state_slot} * a.slot_stride + head * head_floats;
  for (uint64_t t = 0; t < seq.n_tokens; ++t) {
    const uint64_t token = seq.first_token + t, position = uint64_t{seq.first_pos} + t;
    const float* row = at(a.xbc) + token * (n_x + 2 * n_b);
    const float* b = row + n_x + group * a.n_state;
    const float dt = softplus(at(a.dt)[token * a.dt_stride + head] + at(a.dt_bias)[head]);
    const ScanUpdate u{row + head * size, b, b + n_b, dt, exp_one(dt * at(a.a)[head]), at(a.d)[head]};
    const float* from = position == 0 ? nullptr : slot + (position - 1) % a.n_rows * a.n_head * head_floats;
    float *to = slot + position % a.n_rows * a.n_head * head_floats, *y = at(a.y) + token * n_x + head * size;
    by_columns(n, [&]<int V>(Vectors<V>, uint64_t column, uint32_t lanes) {
      scan_columns<V>(u, a.n_state, size, first + column, lanes, from, to, y);
    });
  }
}

void ssm_scan(const kernels::SsmScanArgs& a, Worker& worker) {
  by_heads(worker, *at(a.step), a.n_head, a.size,
           [&](const kernels::SeqSlice& seq, uint64_t head, uint64_t first, uint64_t n) {
             scan_walk(a, seq, head, first, n);
           });
}

// fn(token, head) for all heads of a step.
template <class Fn>
inline void by_token_heads(Worker& worker, const kernels::StepState& step, uint64_t n_head, Fn fn) {
  const uint64_t rows = step.n_tokens * n_head;
  for (uint64_t r = 0, end = 0; claim_items(worker, rows, most(1, rows / (4 * n_workers(worker))), r, end);) {
    for (; r < end; ++r) fn(r / n_head, r % n_head);
  }
}

void gated_norm(const kernels::GatedNormArgs& a, Worker& worker) {
  by_token_heads(worker, *at(a.step), a.n_head, [&](uint64_t token, uint64_t head) {
    const uint64_t row = token * a.n_head + head;
    const float *x = at(a.x) + row * a.x_pitch, *w = at(a.w) + head % a.n_w * a.n;
    const float* z = a.z.address != 0 ? at(a.z) + token * a.z_stride + head * a.n : nullptr;
    const bool before = z != nullptr && a.gate_first != 0, after = z != nullptr && a.gate_first == 0;
    float* y = at(a.y) + row * a.n;
    Squares squares{};
    by_lanes(0, a.n, [&](uint64_t i, uint32_t n) {
      F h = load_up_to(x + i, n);
      if (before) h = silu_times(load_up_to(z + i, n), h);
      add_squares(squares, h);
      store_up_to(y + i, h, n);
    });
    const double mean = sum_squares(squares) / static_cast<double>(a.n);
    const F scale = splat(static_cast<float>(1.0 / __builtin_sqrt(mean + static_cast<double>(a.eps))));
    by_lanes(0, a.n, [&](uint64_t i, uint32_t n) {
      F h = mul(mul(load_up_to(y + i, n), scale), load_up_to(w + i, n));
      if (after) h = silu_times(load_up_to(z + i, n), h);
      store_up_to(y + i, h, n);
    });
  });
}

void sigmoid_gate(const kernels::SigmoidGateArgs& a, Worker& worker) {
  by_token_heads(worker, *at(a.step), a.n_head, [&](uint64_t token, uint64_t head) {
    const uint64_t row = token * a.n_head + head;
    float* y = at(a.y) + row * a.n;
    const float* gate = at(a.gate) + row * a.pitch;
    by_lanes(0, a.n, [&](uint64_t i, uint32_t n) {
      const F divisor = add(splat(1.0f), exp_of(sub(zero(), load_up_to(gate + i, n))));
      store_up_to(y + i, div(load_up_to(y + i, n), divisor), n);
    });
  });
}

}  // namespace
}  // namespace sluice::backend::cpu::SLUICE_TIER
