// moe_gemv over entries bucketed by moe_group: the same sums in the same order, an expert's weights read once for all
// its entries. Grid: (ceil(m / 16), n_tiles) from `grid` of moe_group, or the bound (ceil(m / 16), max_tiles).
// Matrix variant (backend.h): x is f16 rows (lib/f16_row.h), k a multiple of 32; 128 for 16 in the grid, and
// tile_entries of 128 leave least unused.
#pragma once
#include "lib/q8.h"
#include "lib/step.h"

KERNELS_BEGIN

PUB struct MoeGemmArgs {
  PUB DEV_PTR(float) y;               // (n_entries, m)
  PUB DEV_PTR(uint) x;                // (n_tokens or n_entries, k) f32 or q8
  PUB DEV_PTR(uint64_t) expert_addr;  // (n_expert) addresses of (m, k) of the key's type and layout; 0: zeros
  PUB DEV_PTR(uint) offsets;          // (n_expert + 1), by moe_group
  PUB DEV_PTR(uint) order;            // (n_entries), by moe_group
  PUB DEV_PTR(uint) tiles;            // (max_tiles, 2), by moe_group
  PUB DEV_PTR(uint) grid;             // (3), by moe_group
  PUB DEV_PTR(StepState) step;
  PUB uint m;
  PUB uint k;
  PUB uint n_used;
  PUB uint n_expert;
  PUB uint x_by_entry;
  PUB uint tile_entries;
};
ARGS_FIT(MoeGemmArgs)

KERNELS_END
