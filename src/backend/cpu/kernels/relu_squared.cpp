#include <cassert>

#include "backend/cpu/kernels/q8_row.h"
#include "backend/cpu/worker.h"

namespace sluice::backend::cpu::reference {

void relu_squared(const kernels::ReluSquaredArgs& a, Worker& w) {
  const uint64_t n = a.n, rows = n_rows(*ptr(a.step), a.rows);
  assert(n * sizeof(float) <= kScratchBytes);
  for (Chunk c; w.claim(rows, w.quarter(rows), c);) {
    for (uint64_t r = c.begin; r < c.end; ++r) {
      const float* x = ptr(a.x) + r * n;
      float* y = a.y ? ptr(a.y) + r * n : w.scratch<float>();
      for (uint64_t i = 0; i < n; ++i) {
        const float positive = x[i] < 0 ? 0.0f : x[i];  // a NaN stays
        y[i] = positive * positive;
      }
      if (a.y_q8) quantize_q8_row(y, n, ptr_as<std::byte>(a.y_q8) + r * kernels::q8_row_bytes(n));
    }
  }
}

}  // namespace sluice::backend::cpu::reference
