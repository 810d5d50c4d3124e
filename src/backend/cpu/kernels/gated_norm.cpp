#include <cassert>
#include <cmath>

#include "backend/cpu/worker.h"

namespace sluice::backend::cpu::reference {
namespace {

float silu(float z) { return z / (1.0f + std::exp(-z)); }

void norm_head(const kernels::GatedNormArgs& a, uint64_t token, uint64_t head, float* h) {
  const uint64_t row = token * a.n_head + head;
  const float *x = ptr(a.x) + row * a.x_pitch, *w = ptr(a.w) + head % a.n_w * a.n;
  const float* z = a.z ? ptr(a.z) + token * a.z_stride + head * a.n : nullptr;
  float* y = ptr(a.y) + row * a.n;
  double squares = 0;
  for (uint64_t i = 0; i < a.n; ++i) {
    h[i] = z != nullptr && a.gate_first != 0 ? x[i] * silu(z[i]) : x[i];
    squares += double{h[i]} * double{h[i]};
  }
  const auto scale = static_cast<float>(1.0 / std::sqrt(squares / a.n + double{a.eps}));
  for (uint64_t i = 0; i < a.n; ++i) {
    y[i] = h[i] * scale * w[i];
    if (z != nullptr && a.gate_first == 0) y[i] *= silu(z[i]);
  }
}

}  // namespace

void gated_norm(const kernels::GatedNormArgs& a, Worker& w) {
  assert(a.n * sizeof(float) <= kScratchBytes);
  const uint64_t rows = uint64_t{ptr(a.step)->n_tokens} * a.n_head;
  for (Chunk c; w.claim(rows, w.quarter(rows), c);) {
    for (uint64_t r = c.begin; r < c.end; ++r) norm_head(a, r / a.n_head, r % a.n_head, w.scratch<float>());
  }
}

}  // namespace sluice::backend::cpu::reference
