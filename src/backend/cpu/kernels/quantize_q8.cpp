#include "backend/cpu/kernels/q8_row.h"
#include "backend/cpu/worker.h"

namespace sluice::backend::cpu::reference {

void quantize_q8(const kernels::QuantizeQ8Args& a, Worker& w) {
  const uint64_t n = n_rows(*ptr(a.step), a.rows);
  for (Chunk c; w.claim(n, w.quarter(n), c);) {
    for (uint64_t r = c.begin; r < c.end; ++r) {
      quantize_q8_row(ptr(a.x) + r * a.k, a.k, ptr_as<std::byte>(a.out) + r * kernels::q8_row_bytes(a.k));
    }
  }
}

}  // namespace sluice::backend::cpu::reference
