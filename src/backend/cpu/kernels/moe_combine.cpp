#include "backend/cpu/worker.h"

namespace sluice::backend::cpu::reference {

void moe_combine(const kernels::MoeCombineArgs& a, Worker& w) {
  const uint64_t n_tokens = ptr(a.step)->n_tokens, m = a.m;
  for (Chunk c; w.claim(n_tokens, w.quarter(n_tokens), c);) {
    for (uint64_t token = c.begin; token < c.end; ++token) {
      const float *z = ptr(a.z) + token * a.n_used * m, *weight = ptr(a.weight) + token * a.n_used;
      float* out = ptr(a.out) + token * m;
      for (uint64_t row = 0; row < m; ++row) {
        float sum = a.accumulate != 0 ? out[row] : 0.0f;
        for (uint64_t slot = 0; slot < a.n_used; ++slot) {
          const uint64_t expert = a.sel_expert ? ptr(a.sel_expert)[token * a.n_used + slot] : 0;
          float value = z[slot * m + row];
          if (a.bias) value += ptr(a.bias)[expert * m + row];
          sum += (a.scale ? weight[slot] * ptr(a.scale)[expert] : weight[slot]) * value;
        }
        out[row] = sum;
      }
    }
  }
}

}  // namespace sluice::backend::cpu::reference
