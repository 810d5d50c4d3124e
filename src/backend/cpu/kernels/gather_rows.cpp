#include <algorithm>
#include <cstring>
#include <limits>

#include "backend/cpu/worker.h"

namespace sluice::backend::cpu::reference {

void gather_rows(const kernels::GatherRowsArgs& a, Worker& w) {
  const kernels::StepState& step = *ptr(a.step);
  for (Chunk c; w.claim(step.n_out, 1, c);) {
    for (uint64_t i = c.begin; i < c.end; ++i) {
      const uint64_t token = ptr(step.out_token)[i];
      float* out = ptr(a.out) + i * a.n;
      if (ptr(step.row_error)[token] != 0) {
        std::fill_n(out, a.n, std::numeric_limits<float>::quiet_NaN());
      } else {
        std::memcpy(out, ptr(a.x) + token * a.n, a.n * sizeof(float));
      }
    }
  }
}

}  // namespace sluice::backend::cpu::reference
