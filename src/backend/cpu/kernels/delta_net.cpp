#include <algorithm>
#include <cassert>
#include <cmath>

#include "backend/cpu/worker.h"

namespace sluice::backend::cpu::reference {
namespace {

constexpr uint64_t kColumns = 64;  // of M, of one work item

float softplus(float x) { return x > 20 ? x : std::log1p(std::exp(x)); }

// out = row * scale / sqrt(sum of squares + eps)
void unit_row(const float* row, uint64_t n, float eps, float scale, float* out) {
  double squares = 0;
  for (uint64_t i = 0; i < n; ++i) squares += double{row[i]} * double{row[i]};
  const auto factor = static_cast<float>(double{scale} / std::sqrt(squares + double{eps}));
  for (uint64_t i = 0; i < n; ++i) out[i] = row[i] * factor;
}

// What a token does to one head.
struct Update {
  const float *q, *k, *v;  // q and k normalised
  float decay, beta;
};

// Columns first .. first + n - 1 of M (size, size): `from` (null: zeros) becomes `to`, which may be the same memory.
void update(const Update& u, uint64_t size, uint64_t first, uint64_t n, const float* from, float* to, float* y) {
  float d[kColumns] = {};
  for (uint64_t i = 0; i < size; ++i) {
    const uint64_t at = i * size + first;
    for (uint64_t j = 0; j < n; ++j) {
      const float m = from == nullptr ? 0.0f : from[at + j] * u.decay;
      to[at + j] = m;
      d[j] += u.k[i] * m;
    }
  }
  for (uint64_t j = 0; j < n; ++j) {
    d[j] = u.beta * (u.v[first + j] - d[j]);
    y[first + j] = 0;
  }
  for (uint64_t i = 0; i < size; ++i) {
    const uint64_t at = i * size + first;
    for (uint64_t j = 0; j < n; ++j) {
      to[at + j] += u.k[i] * d[j];
      y[first + j] += u.q[i] * to[at + j];
    }
  }
}

void walk(const kernels::DeltaNetArgs& a, const kernels::SeqSlice& seq, uint64_t head, uint64_t first, uint64_t n,
          float* scratch) {
  const uint64_t size = a.size, r = a.n_value / a.n_key, row_heads = 2 * uint64_t{a.n_key} + a.n_value;
  const bool tiled = a.heads == kernels::kValueHeadsTiled;
  const uint64_t key_head = tiled ? head % a.n_key : head / r, row_floats = a.n_value * size * size;
  float *slot = ptr(a.state) + uint64_t{seq.state_slot} * a.slot_stride + head * size * size, *q = scratch,
        *k = q + size;
  for (uint64_t t = 0; t < seq.n_tokens; ++t) {
    const uint64_t token = seq.first_token + t, position = uint64_t{seq.first_pos} + t;
    const float* qkv = ptr(a.qkv) + token * row_heads * size;
    unit_row(qkv + key_head * size, size, a.eps, 1.0f / std::sqrt(static_cast<float>(size)), q);
    unit_row(qkv + (a.n_key + key_head) * size, size, a.eps, 1, k);
    const uint64_t at = tiled ? token * a.n_value + head : (token * a.n_key + key_head) * 2 * r + head % r;
    const float alpha = tiled ? ptr(a.alpha)[at] : ptr(a.beta)[at + r];
    const Update u{q, k, qkv + (2 * uint64_t{a.n_key} + head) * size,
                   std::exp(ptr(a.a)[head] * softplus(alpha + ptr(a.dt_bias)[head])),
                   1.0f / (1.0f + std::exp(-ptr(a.beta)[at]))};
    const float* from = position == 0 ? nullptr : slot + (position - 1) % a.n_rows * row_floats;
    update(u, size, first, n, from, slot + position % a.n_rows * row_floats,
           ptr(a.y) + (token * a.n_value + head) * size);
  }
}

}  // namespace

void delta_net(const kernels::DeltaNetArgs& a, Worker& w) {
  const kernels::StepState& step = *ptr(a.step);
  assert(a.n_rows >= 1 && 2 * uint64_t{a.size} * sizeof(float) <= kScratchBytes);
  const uint64_t n_blocks = (a.size + kColumns - 1) / kColumns, per_sequence = n_blocks * a.n_value;
  for (Chunk c; w.claim(per_sequence * step.n_seqs, 1, c);) {
    for (uint64_t item = c.begin; item < c.end; ++item) {
      const uint64_t first = item % n_blocks * kColumns;
      walk(a, ptr(step.seqs)[item / per_sequence], item % per_sequence / n_blocks, first,
           std::min(kColumns, a.size - first), w.scratch<float>());
    }
  }
}

}  // namespace sluice::backend::cpu::reference
