#include "backend/cpu/worker.h"

namespace sluice::backend::cpu::reference {

void add(const kernels::AddArgs& a, Worker& w) {
  const uint64_t n = n_rows(*ptr(a.step), a.rows) * a.n;
  for (Chunk c; w.claim(n, w.quarter(n), c);) {
    for (uint64_t i = c.begin; i < c.end; ++i) ptr(a.y)[i] = ptr(a.a)[i] + ptr(a.b)[a.b_is_row != 0 ? i % a.n : i];
  }
}

}  // namespace sluice::backend::cpu::reference
