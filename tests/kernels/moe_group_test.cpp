#include "support/matmul_case.h"

namespace sluice::test {
namespace {

struct MoeGroupCase {
  std::string name;
  uint32_t n_expert = 8, n_used = 2, n_tokens = 1, tile_entries = 16;
  Route route = Route::spread;

  KernelKey key() const { return {KernelId::moe_group, Type::F32, Layout::row_major, 0}; }
  std::vector<uint> sel_expert() const {
    return MoeCase{.n_expert = n_expert, .n_used = n_used, .n_tokens = n_tokens, .route = route}.sel_expert();
  }

  Outputs run(Job& job) const {
    const uint32_t n_entries = n_tokens * n_used;
    const uint32_t max_tiles = (n_entries + (tile_entries - 1) * std::min(n_expert, n_entries)) / tile_entries;
    const kernels::MoeGroupArgs args{.offsets = job.out<uint>(n_expert + 1),
                                     .order = job.out<uint>(n_entries),
                                     .tiles = job.out<uint>(size_t{max_tiles} * 2),
                                     .grid = job.out<uint>(3),
                                     .sel_expert = job.in(sel_expert()),
                                     .step = job.step(make_step(n_tokens)),
                                     .n_expert = n_expert,
                                     .n_used = n_used,
                                     .tile_entries = tile_entries,
                                     .grid_x = 5};
    job.launch(key(), args, {1, 1, 1});
    const std::vector<uint> grid = job.read(args.grid, 3);
    std::vector<uint> tiles = job.read(args.tiles, size_t{max_tiles} * 2);
    tiles.resize(std::min<size_t>(tiles.size(), size_t{grid[1]} * 2));
    return {{.name = "offsets", .ints = job.read(args.offsets, n_expert + 1)},
            {.name = "order", .ints = job.read(args.order, n_entries)},
            {.name = "tiles", .ints = tiles},
            {.name = "grid", .ints = grid}};
  }

  Outputs expected() const {
    const Grouped g = group_entries(sel_expert(), n_expert, tile_entries);
    const auto n_tiles = static_cast<uint>(g.tiles.size() / 2);
    return {{.name = "offsets", .ints = g.offsets},
            {.name = "order", .ints = g.order},
            {.name = "tiles", .ints = g.tiles},
            {.name = "grid", .ints = {5, n_tiles, 1}}};
  }
};

const MoeGroupCase kCases[] = {
    {.name = "one token"},
    {.name = "no tokens", .n_tokens = 0},
    {.name = "empty experts", .n_expert = 32, .n_used = 4, .n_tokens = 9},
    {.name = "M10 all tokens to one expert", .n_used = 1, .n_tokens = 65, .route = Route::all_to_one},
    {.name = "M06 repeated expert in one token", .n_used = 4, .n_tokens = 7, .route = Route::same_in_token},
    {.name = "last expert", .n_expert = 257, .n_tokens = 3, .route = Route::last},
    {.name = "tiles of one entry", .n_used = 3, .n_tokens = 5, .tile_entries = 1},
    {.name = "full tiles", .n_used = 1, .n_tokens = 64, .tile_entries = 32, .route = Route::all_to_one},
    {.name = "one entry over a tile", .n_used = 1, .n_tokens = 33, .tile_entries = 32, .route = Route::all_to_one},
    {.name = "one expert", .n_expert = 1, .n_used = 1, .n_tokens = 3},
    {.name = "most experts", .n_expert = 4096, .n_used = 8, .n_tokens = 31},
    {.name = "M07 many entries", .n_expert = 32, .n_used = 8, .n_tokens = 4096},
};

SLUICE_KERNEL_CASES(MoeGroup, MoeGroupCase, kCases);

}  // namespace
}  // namespace sluice::test
