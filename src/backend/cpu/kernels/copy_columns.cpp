#include <cstring>

#include "backend/cpu/worker.h"

namespace sluice::backend::cpu::reference {

void copy_columns(const kernels::CopyColumnsArgs& a, Worker& w) {
  const uint64_t rows = n_rows(*ptr(a.step), a.rows);
  for (Chunk c; w.claim(rows, w.quarter(rows), c);) {
    for (uint64_t r = c.begin; r < c.end; ++r)
      std::memcpy(ptr(a.y) + r * a.y_stride, ptr(a.x) + r * a.x_stride, a.n * sizeof(kernels::uint));
  }
}

}  // namespace sluice::backend::cpu::reference
