#include "backend/cpu/phases.h"

#include <limits>

#include "kernels/all_contracts.h"

namespace sluice::backend::cpu {
namespace {

// Sharing saves half of a launch's time at least, and costs a barrier and the first touch of what others wrote.
constexpr double kAloneCycles = 2500;

// Lanes of a grid whose groups have `width` of them.
double lanes(const Grid& grid, double width) { return double(grid.x) * double(grid.y) * double(grid.z) * width; }

}  // namespace

double estimated_cycles(const Launch& launch) {
  const Grid& grid = launch.grid;
  switch (launch.key.id) {
    case KernelId::rms_norm:
      return 0.7 * grid.y * args_of<kernels::RmsNormArgs>(launch).n;
    case KernelId::quantize_q8:
      return 0.7 * lanes(grid, 32);
    case KernelId::swiglu:
      return 2.0 * lanes(grid, 64);
    case KernelId::add:
    case KernelId::gather_rows:
      return 0.3 * lanes(grid, 64);
    case KernelId::moe_combine:
      return 0.3 * lanes(grid, 64) * args_of<kernels::MoeCombineArgs>(launch).n_used;
    case KernelId::conv1d:
      return 1.0 * lanes(grid, 64);
    case KernelId::embed:
      return 1.0 * lanes(grid, 64);
    case KernelId::rope:
      return 1.0 * lanes(grid, 64);
    case KernelId::kv_store:
      return 0.3 * lanes(grid, args_of<kernels::KvStoreArgs>(launch).d);
    case KernelId::moe_route:
      return 40.0 * grid.x * args_of<kernels::MoeRouteArgs>(launch).n_expert;
    case KernelId::argmax:
      return 0.15 * grid.y * args_of<kernels::ArgmaxArgs>(launch).n_vocab;
    case KernelId::moe_group:
      return 0;  // one item
    case KernelId::gemv: {
      const auto args = args_of<kernels::GemvArgs>(launch);
      return double(args.m) * args.k * grid.y / 12;
    }
    default:
      return std::numeric_limits<double>::infinity();
  }
}

std::vector<Phase> phases_of(std::span<const Launch> launches) {
  std::vector<Phase> phases;
  for (uint32_t first = 0, end = 0; first < launches.size(); first = end) {
    double cycles = 0;
    do cycles += estimated_cycles(launches[end++]);
    while (end < launches.size() && launches[end].overlaps_previous);
    const bool alone = cycles <= kAloneCycles;
    if (alone && !phases.empty() && phases.back().alone)
      phases.back().end = end;
    else
      phases.push_back({first, end, alone});
  }
  return phases;
}

}  // namespace sluice::backend::cpu
