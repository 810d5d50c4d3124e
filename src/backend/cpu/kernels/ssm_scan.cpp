#include <algorithm>
#include <cassert>
#include <cmath>

#include "backend/cpu/worker.h"

namespace sluice::backend::cpu::reference {
namespace {

constexpr uint64_t kColumns = 64;  // of M, of one work item

float softplus(float x) { return x > 20 ? x : std::log1p(std::exp(x)); }

// Columns first .. first + n - 1 of the head's M, for all tokens of the sequence.
void walk(const kernels::SsmScanArgs& a, const kernels::SeqSlice& seq, uint64_t head, uint64_t first, uint64_t n) {
  const uint64_t size = a.size, n_x = a.n_head * size, n_b = uint64_t{a.n_group} * a.n_state;
  const uint64_t g = head / (a.n_head / a.n_group), head_floats = a.n_state * size;
  float* slot = ptr(a.state) + uint64_t{seq.state_slot} * a.slot_stride + head * head_floats + first;
  for (uint64_t t = 0; t < seq.n_tokens; ++t) {
    const uint64_t token = seq.first_token + t, position = uint64_t{seq.first_pos} + t;
    const float *row = ptr(a.xbc) + token * (n_x + 2 * n_b), *x = row + head * size + first;
    const float *b = row + n_x + g * a.n_state, *c = b + n_b;
    float* y = ptr(a.y) + token * n_x + head * size + first;
    const float dt = softplus(ptr(a.dt)[token * a.dt_stride + head] + ptr(a.dt_bias)[head]);
    const float decay = std::exp(dt * ptr(a.a)[head]);
    const float* from = position == 0 ? nullptr : slot + (position - 1) % a.n_rows * a.n_head * head_floats;
    float* to = slot + position % a.n_rows * a.n_head * head_floats;
    for (uint64_t j = 0; j < n; ++j) y[j] = 0;
    for (uint64_t i = 0; i < a.n_state; ++i) {
      for (uint64_t j = 0; j < n; ++j) {
        const float m = (from == nullptr ? 0.0f : from[i * size + j] * decay) + b[i] * (x[j] * dt);
        to[i * size + j] = m;
        y[j] += c[i] * m;
      }
    }
    for (uint64_t j = 0; j < n; ++j) y[j] += ptr(a.d)[head] * x[j];
  }
}

}  // namespace

void ssm_scan(const kernels::SsmScanArgs& a, Worker& w) {
  const kernels::StepState& step = *ptr(a.step);
  assert(a.n_rows >= 1);
  const uint64_t n_blocks = (a.size + kColumns - 1) / kColumns, per_sequence = n_blocks * a.n_head;
  for (Chunk c; w.claim(per_sequence * step.n_seqs, 1, c);) {
    for (uint64_t item = c.begin; item < c.end; ++item) {
      const uint64_t first = item % n_blocks * kColumns;
      walk(a, ptr(step.seqs)[item / per_sequence], item % per_sequence / n_blocks, first,
           std::min(kColumns, a.size - first));
    }
  }
}

}  // namespace sluice::backend::cpu::reference
