#include "support/kernel_case.h"

namespace sluice::test {
namespace {

struct SoftcapCase {
  std::string name;
  uint32_t n = 64, n_tokens = 1;
  float cap = 30.0f, scale = 20.0f;

  KernelKey key() const { return {KernelId::softcap, Type::F32, Layout::row_major, 0}; }
  std::vector<float> y() const { return Random(n).normals(size_t{n_tokens} * n, scale); }

  Outputs run(Job& job) const {
    const kernels::SoftcapArgs args{.y = job.in(y()),
                                    .step = job.step(make_step(n_tokens)),
                                    .rows = {kernels::kRowsOfTokens, 1},
                                    .n = n,
                                    .cap = cap};
    job.launch(key(), args, {ceil_div(n, 64), n_tokens, 1});
    return {{.name = "y", .reals = reals(job.read(args.y, size_t{n_tokens} * n)), .truth_bound = 1e-11}};
  }
  Outputs expected() const {
    std::vector<double> out;
    for (const float value : y()) out.push_back(double{cap} * std::tanh(double{value} / double{cap}));
    return {{.name = "y", .reals = out}};
  }
};

const SoftcapCase kCases[] = {
    {.name = "one row"},
    {.name = "odd width", .n = 1077, .n_tokens = 3},
    {.name = "one value", .n = 1, .n_tokens = 2},
    {.name = "far below the cap", .n = 64, .scale = 1.0f},
    {.name = "far above it", .n = 64, .scale = 1e18f},
    {.name = "no tokens", .n_tokens = 0},
};

SLUICE_KERNEL_CASES(Softcap, SoftcapCase, kCases);

}  // namespace
}  // namespace sluice::test
