#include <cmath>

#include "backend/cpu/worker.h"

namespace sluice::backend::cpu::reference {

void softcap(const kernels::SoftcapArgs& a, Worker& w) {
  const uint64_t n = a.n, rows = n_rows(*ptr(a.step), a.rows);
  for (Chunk c; w.claim(rows, 1, c);) {
    for (uint64_t i = c.begin * n; i < c.end * n; ++i) ptr(a.y)[i] = a.cap * std::tanh(ptr(a.y)[i] / a.cap);
  }
}

}  // namespace sluice::backend::cpu::reference
