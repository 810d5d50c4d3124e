#include <cassert>
#include <cmath>

#include "backend/cpu/kernels/q8_row.h"
#include "backend/cpu/worker.h"

namespace sluice::backend::cpu::reference {

// Squares are summed in f64: f32 activations near 1e20 would overflow, and the order no longer matters.
void rms_norm(const kernels::RmsNormArgs& a, Worker& w) {
  const uint64_t n = a.n, rows = n_rows(*ptr(a.step), a.rows);
  assert(n * sizeof(float) <= kScratchBytes);
  for (Chunk c; w.claim(rows, w.quarter(rows), c);) {
    for (uint64_t r = c.begin; r < c.end; ++r) {
      const float* h = ptr(a.x) + r * n;
      if (a.add) {
        const float *x = h, *add = ptr(a.add) + r * n;
        float* sum = ptr(a.sum) + r * n;
        for (uint64_t i = 0; i < n; ++i) sum[i] = x[i] + add[i];
        h = sum;
      }
      double squares = 0;
      for (uint64_t i = 0; i < n; ++i) squares += double{h[i]} * double{h[i]};
      const auto scale = static_cast<float>(1.0 / std::sqrt(squares / static_cast<double>(n) + double{a.eps}));
      float* y = a.y ? ptr(a.y) + r * n : w.scratch<float>();
      for (uint64_t i = 0; i < n; ++i) y[i] = h[i] * scale * ptr(a.w)[i];
      if (a.y_q8) quantize_q8_row(y, n, ptr_as<std::byte>(a.y_q8) + r * kernels::q8_row_bytes(n));
    }
  }
}

}  // namespace sluice::backend::cpu::reference
