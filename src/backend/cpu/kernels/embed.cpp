#include "backend/cpu/worker.h"
#include "quant/panel.h"
#include "quant/quant.h"

namespace sluice::backend::cpu::reference {

void embed(const kernels::EmbedArgs& a, Worker& w) {
  const kernels::StepState& step = *ptr(a.step);
  const KernelKey key = w.key();
  const auto* rows = ptr_as<const std::byte>(a.w);
  for (Chunk c; w.claim(step.n_tokens, 1, c);) {
    for (uint64_t t = c.begin; t < c.end; ++t) {
      const uint64_t id = ptr(step.token)[t];
      float* out = ptr(a.out) + t * a.k;
      if (key.layout == Layout::panel16) {
        quant::panel16_row(key.type, rows, id, a.k, out);
      } else {
        quant::codec(key.type).dequantize(rows + id * quant::row_bytes(key.type, a.k), out, a.k);
      }
      for (uint64_t i = 0; i < a.k; ++i) out[i] *= a.scale;
    }
  }
}

}  // namespace sluice::backend::cpu::reference
