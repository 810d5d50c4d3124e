// Buckets the entries of a step by expert: a stable counting sort of sel_expert, and the tiles that a grouped GEMM
// walks.
//   offsets[x] .. offsets[x + 1]: the range of expert x in `order`; order: entries, ascending inside a range
//   tiles[i] = (expert, first position in order) of tile_entries entries or fewer; grid = (grid_x, n_tiles, 1)
// max_tiles = (n_entries + (tile_entries - 1) * min(n_expert, n_entries)) / tile_entries. An expert without entries has
// no tile. Grid: (1): one group does it all.
#pragma once
#include "lib/step.h"

KERNELS_BEGIN

PUB struct MoeGroupArgs {
  PUB DEV_PTR(uint) offsets;     // (n_expert + 1)
  PUB DEV_PTR(uint) order;       // (n_entries)
  PUB DEV_PTR(uint) tiles;       // (max_tiles, 2)
  PUB DEV_PTR(uint) grid;        // (3)
  PUB DEV_PTR(uint) sel_expert;  // (n_entries)
  PUB DEV_PTR(StepState) step;
  PUB uint n_expert;
  PUB uint n_used;
  PUB uint tile_entries;
  PUB uint grid_x;
};
ARGS_FIT(MoeGroupArgs)

KERNELS_END
