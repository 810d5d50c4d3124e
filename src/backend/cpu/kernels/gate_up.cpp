#include "backend/cpu/kernels/gated.h"

namespace sluice::backend::cpu::reference {

void gate_up(const kernels::GateUpArgs& a, Worker& w) {
  WeightTile tile(w, a.k);
  const uint64_t n_blocks = (a.m + 31) / 32, n_items = n_rows(*ptr(a.step), a.rows) * n_blocks;
  for (Chunk c; w.claim(n_items, w.quarter(n_items), c);) {
    for (uint64_t i = c.begin; i < c.end; ++i) {
      const uint64_t row = i / n_blocks;
      gated_block(a, tile, ptr_as<const std::byte>(a.gate), ptr_as<const std::byte>(a.up),
                  ptr_as<const std::byte>(a.x) + row * tile.x_row_bytes(), row, i % n_blocks * 32);
    }
  }
}

}  // namespace sluice::backend::cpu::reference
