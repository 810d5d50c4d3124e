#include "backend/cpu/worker.h"

namespace sluice::backend::cpu::reference {

void rope(const kernels::RopeArgs& a, Worker& w) {
  const kernels::StepState& step = *ptr(a.step);
  const uint64_t n_pairs = a.n_rot / 2;
  const uint64_t next_pair = a.style == 0 ? 1 : 2, partner = a.style == 0 ? n_pairs : 1;
  for (Chunk c; w.claim(step.n_tokens, 1, c);) {
    for (uint64_t t = c.begin; t < c.end; ++t) {
      const float* table = ptr(a.table) + uint64_t{ptr(step.pos)[t]} * n_pairs * 2;
      for (uint64_t head = 0; head < a.n_head; ++head) {
        float* x = ptr(a.x) + (t * a.n_head + head) * a.d;
        for (uint64_t pair = 0; pair < n_pairs; ++pair, x += next_pair) {
          const float cos = table[pair * 2], sin = table[pair * 2 + 1];
          const float first = x[0], second = x[partner];
          x[0] = first * cos - second * sin;
          x[partner] = first * sin + second * cos;
        }
      }
    }
  }
}

}  // namespace sluice::backend::cpu::reference
