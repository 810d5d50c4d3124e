#include <cstring>

#include "backend/cpu/kernels/matmul.h"

namespace sluice::backend::cpu::reference {

void moe_gemv(const kernels::MoeGemvArgs& a, Worker& w) {
  const uint64_t n_entries = uint64_t{ptr(a.step)->n_tokens} * a.n_used;
  const auto* x = ptr_as<const std::byte>(a.x);
  WeightTile tile(w, a.k);
  const uint64_t n_tiles = tile.count(a.m), n_items = n_entries * n_tiles;
  for (Chunk c; w.claim(n_items, w.quarter(n_items), c);) {
    for (uint64_t i = c.begin; i < c.end; ++i) {
      const uint64_t entry = i / n_tiles, row = a.x_by_entry != 0 ? entry : entry / a.n_used;
      const auto* weights = reinterpret_cast<const std::byte*>(ptr(a.expert_addr)[ptr(a.sel_expert)[entry]]);
      float* y = ptr(a.y) + entry * a.m;
      if (weights == nullptr) {
        if (i % n_tiles == 0) std::memset(y, 0, a.m * sizeof(float));
        continue;
      }
      tile.load(weights, a.m, i % n_tiles);
      tile.multiply(
          1, [&](uint64_t) { return x + row * tile.x_row_bytes(); }, [&](uint64_t) { return y; });
    }
  }
}

}  // namespace sluice::backend::cpu::reference
