#include <algorithm>

#include "backend/cpu/worker.h"

namespace sluice::backend::cpu::reference {
namespace {

void group(const kernels::MoeGroupArgs& a, kernels::uint n_entries, kernels::uint* next) {
  const kernels::uint* expert = ptr(a.sel_expert);
  kernels::uint* offsets = ptr(a.offsets);
  std::fill_n(offsets, a.n_expert + 1, 0u);
  for (kernels::uint e = 0; e < n_entries; ++e) ++offsets[expert[e] + 1];
  for (kernels::uint x = 0; x < a.n_expert; ++x) offsets[x + 1] += offsets[x];

  std::copy_n(offsets, a.n_expert, next);
  for (kernels::uint e = 0; e < n_entries; ++e) ptr(a.order)[next[expert[e]]++] = e;

  kernels::uint n_tiles = 0;
  for (kernels::uint x = 0; x < a.n_expert; ++x) {
    for (kernels::uint at = offsets[x]; at < offsets[x + 1]; at += a.tile_entries, ++n_tiles) {
      ptr(a.tiles)[2 * n_tiles] = x;
      ptr(a.tiles)[2 * n_tiles + 1] = at;
    }
  }
  ptr(a.grid)[0] = a.grid_x;
  ptr(a.grid)[1] = n_tiles;
  ptr(a.grid)[2] = 1;
}

}  // namespace

void moe_group(const kernels::MoeGroupArgs& a, Worker& w) {
  for (Chunk c; w.claim(1, 1, c);) group(a, ptr(a.step)->n_tokens * a.n_used, w.scratch<kernels::uint>());
}

}  // namespace sluice::backend::cpu::reference
