#include "backend/cpu/kernels/attention.h"

namespace sluice::backend::cpu::reference {

void attn_prefill(const kernels::AttnPrefillArgs& a, Worker& w) {
  constexpr uint64_t kTile = Attention::kTileTokens;
  const uint64_t n_tokens = ptr(a.step)->n_tokens, n_tiles = (n_tokens + kTile - 1) / kTile;
  const uint64_t n_items = n_tiles * a.n_kv_head;
  Attention attention(a, w);
  for (Chunk c; w.claim(n_items, 1, c);) {
    for (uint64_t i = c.begin; i < c.end; ++i) {
      const uint64_t begin = i % n_tiles * kTile;
      attention.attend(i / n_tiles, begin, std::min(n_tokens, begin + kTile));
    }
  }
}

}  // namespace sluice::backend::cpu::reference
