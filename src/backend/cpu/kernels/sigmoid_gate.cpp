#include <cmath>

#include "backend/cpu/worker.h"

namespace sluice::backend::cpu::reference {

void sigmoid_gate(const kernels::SigmoidGateArgs& a, Worker& w) {
  const uint64_t rows = uint64_t{ptr(a.step)->n_tokens} * a.n_head;
  for (Chunk c; w.claim(rows, w.quarter(rows), c);) {
    for (uint64_t r = c.begin; r < c.end; ++r) {
      float* y = ptr(a.y) + r * a.n;
      const float* gate = ptr(a.gate) + r * a.pitch;
      for (uint64_t i = 0; i < a.n; ++i) y[i] /= 1.0f + std::exp(-gate[i]);
    }
  }
}

}  // namespace sluice::backend::cpu::reference
