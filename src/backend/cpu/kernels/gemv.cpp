#include "backend/cpu/kernels/matmul.h"

namespace sluice::backend::cpu::reference {

void gemv(const kernels::GemvArgs& a, Worker& w) {
  const uint64_t n_x = n_rows(*ptr(a.step), a.rows);
  const auto* x = ptr_as<const std::byte>(a.x);
  float* y = ptr(a.y);
  WeightTile tile(w, a.k);
  const uint64_t n_tiles = n_x == 0 ? 0 : tile.count(a.m);
  for (Chunk c; w.claim(n_tiles, w.quarter(n_tiles), c);) {
    for (uint64_t i = c.begin; i < c.end; ++i) {
      tile.load(ptr_as<const std::byte>(a.w), a.m, i);
      tile.multiply(
          n_x, [&](uint64_t r) { return x + r * tile.x_row_bytes(); }, [&](uint64_t r) { return y + r * a.m; });
    }
  }
}

}  // namespace sluice::backend::cpu::reference
