#include <cstring>

#include "backend/cpu/kernels/matmul.h"

namespace sluice::backend::cpu::reference {

void moe_gemm(const kernels::MoeGemmArgs& a, Worker& w) {
  const auto* x = ptr_as<const std::byte>(a.x);
  WeightTile tile(w, a.k);
  const uint64_t n_tiles = tile.count(a.m), n_items = a.n_expert * n_tiles;
  for (Chunk c; w.claim(n_items, w.quarter(n_items), c);) {
    for (uint64_t i = c.begin; i < c.end; ++i) {
      const uint64_t expert = i / n_tiles;
      const kernels::uint begin = ptr(a.offsets)[expert], end = ptr(a.offsets)[expert + 1];
      const kernels::uint* entries = ptr(a.order) + begin;
      if (begin == end) continue;
      const auto y_of = [&](uint64_t e) { return ptr(a.y) + uint64_t{entries[e]} * a.m; };
      const auto* weights = reinterpret_cast<const std::byte*>(ptr(a.expert_addr)[expert]);
      if (weights == nullptr) {
        for (uint64_t e = 0; i % n_tiles == 0 && e < end - begin; ++e) std::memset(y_of(e), 0, a.m * sizeof(float));
        continue;
      }
      tile.load(weights, a.m, i % n_tiles);
      tile.multiply(
          end - begin,
          [&](uint64_t e) {
            const uint64_t row = a.x_by_entry != 0 ? entries[e] : entries[e] / a.n_used;
            return x + row * tile.x_row_bytes();
          },
          y_of);
    }
  }
}

}  // namespace sluice::backend::cpu::reference
