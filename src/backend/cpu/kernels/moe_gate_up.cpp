#include "backend/cpu/kernels/gated.h"

namespace sluice::backend::cpu::reference {

// Buckets are only about what is read when: entry by entry gives the same.
void moe_gate_up(const kernels::MoeGateUpArgs& a, Worker& w) {
  WeightTile tile(w, a.k);
  const uint64_t n_entries = uint64_t{ptr(a.step)->n_tokens} * a.n_used;
  const uint64_t n_blocks = (a.m + 31) / 32, n_items = n_entries * n_blocks;
  for (Chunk c; w.claim(n_items, w.quarter(n_items), c);) {
    for (uint64_t i = c.begin; i < c.end; ++i) {
      const uint64_t entry = i / n_blocks;
      const uint32_t expert = ptr(a.sel_expert)[entry];
      gated_block(a, tile, reinterpret_cast<const std::byte*>(ptr(a.gate_addr)[expert]),
                  reinterpret_cast<const std::byte*>(ptr(a.up_addr)[expert]),
                  ptr_as<const std::byte>(a.x) + entry / a.n_used * tile.x_row_bytes(), entry, i % n_blocks * 32);
    }
  }
}

}  // namespace sluice::backend::cpu::reference
