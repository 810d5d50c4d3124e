// What gate_up and moe_gate_up share.
#pragma once
#include <algorithm>
#include <cmath>

#include "backend/cpu/kernels/matmul.h"
#include "backend/cpu/kernels/q8_row.h"

namespace sluice::backend::cpu::reference {

// Rows first .. first + 31 of y[row] = silu(gate x) * (up x); zeros where the weights are null.
template <class Args>
void gated_block(const Args& a, WeightTile& tile, const std::byte* gate, const std::byte* up, const std::byte* x,
                 uint64_t row, uint64_t first) {
  float y[32] = {};
  const uint64_t n = std::min<uint64_t>(32, a.m - first);
  for (uint64_t r = 0; gate != nullptr && up != nullptr && r < n; ++r) {
    const float g = tile.row_product(gate, first + r, x);
    y[r] = g / (1.0f + std::exp(-g)) * tile.row_product(up, first + r, x);
  }
  if (a.y) std::copy_n(y, n, ptr(a.y) + row * a.m + first);
  if (a.y_q8) quantize_q8_part(y, a.m, first / 32, ptr_as<std::byte>(a.y_q8) + row * kernels::q8_row_bytes(a.m));
}

}  // namespace sluice::backend::cpu::reference
