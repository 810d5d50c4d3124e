#include <cmath>

#include "backend/cpu/worker.h"

namespace sluice::backend::cpu::reference {

void argmax(const kernels::ArgmaxArgs& a, Worker& w) {
  for (Chunk c; w.claim(ptr(a.step)->n_out, 1, c);) {
    for (uint64_t row = c.begin; row < c.end; ++row) {
      const float* logits = ptr(a.logits) + row * a.n_vocab;
      kernels::uint best = 0xffffffffu;
      for (kernels::uint i = 0; i < a.n_vocab; ++i) {
        if (!std::isnan(logits[i]) && (best == 0xffffffffu || logits[i] > logits[best])) best = i;
      }
      ptr(a.out)[row] = best;
    }
  }
}

}  // namespace sluice::backend::cpu::reference
