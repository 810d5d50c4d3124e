#include "backend/cpu/worker.h"
#include "quant/quant.h"

namespace sluice::backend::cpu::reference {

void kv_store(const kernels::KvStoreArgs& a, Worker& w) {
  const kernels::StepState& step = *ptr(a.step);
  const quant::Codec& codec = quant::codec(w.key().type);
  const uint64_t row_bytes = quant::row_bytes(w.key().type, a.d);
  for (Chunk c; w.claim(step.n_tokens, 1, c);) {
    for (uint64_t t = c.begin; t < c.end; ++t) {
      const uint64_t pos = ptr(step.pos)[t];
      const kernels::SeqSlice& seq = ptr(step.seqs)[ptr(step.seq)[t]];
      const uint64_t page = ptr(step.page_table)[seq.first_page + pos / kernels::kPageTokens];
      for (uint64_t head = 0; head < a.n_kv_head; ++head) {
        const uint64_t row = (page * a.n_kv_head + head) * kernels::kPageTokens + pos % kernels::kPageTokens;
        codec.quantize(ptr(a.x) + (t * a.n_kv_head + head) * a.d, ptr_as<std::byte>(a.cache) + row * row_bytes, a.d);
      }
    }
  }
}

}  // namespace sluice::backend::cpu::reference
