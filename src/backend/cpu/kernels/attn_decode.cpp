#include "backend/cpu/kernels/attention.h"

namespace sluice::backend::cpu::reference {

void attn_decode(const kernels::AttnDecodeArgs& a, Worker& w) {
  const uint64_t n_tokens = ptr(a.step)->n_tokens, n_items = n_tokens * a.n_kv_head;
  Attention attention(a, w);
  for (Chunk c; w.claim(n_items, 1, c);) {
    for (uint64_t i = c.begin; i < c.end; ++i) attention.attend(i / n_tokens, i % n_tokens, i % n_tokens + 1);
  }
}

}  // namespace sluice::backend::cpu::reference
