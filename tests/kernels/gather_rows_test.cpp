#include "support/kernel_case.h"

namespace sluice::test {
namespace {

struct GatherRowsCase {
  std::string name;
  uint32_t n = 64, n_tokens = 5;
  std::vector<uint> out_token = {4};

  KernelKey key() const { return {KernelId::gather_rows, Type::F32, Layout::row_major, 0}; }
  std::vector<float> x() const { return Random(n).normals(size_t{n_tokens} * n); }

  Outputs run(Job& job) const {
    Step step = make_step(n_tokens);
    step.out_token = out_token;
    const kernels::GatherRowsArgs args{
        .out = job.out<float>(out_token.size() * n), .x = job.in(x()), .step = job.step(step), .n = n};
    job.launch(key(), args, {ceil_div(n, 64), static_cast<uint32_t>(out_token.size()), 1});
    return {
        {.name = "out", .reals = reals(job.read(args.out, out_token.size() * n)), .truth_bound = 0, .tier_bound = 0}};
  }

  Outputs expected() const {
    const std::vector<float> all = x();
    std::vector<double> out;
    for (const uint t : out_token) out.insert(out.end(), all.begin() + t * n, all.begin() + (t + 1) * n);
    return {{.name = "out", .reals = out}};
  }
};

const GatherRowsCase kCases[] = {
    {.name = "last token"},
    {.name = "M10 no logits asked", .out_token = {}},
    {.name = "all tokens", .n = 77, .n_tokens = 3, .out_token = {0, 1, 2}},
    {.name = "out of order and repeated", .n = 1, .out_token = {3, 0, 3}},
};

SLUICE_KERNEL_CASES(GatherRows, GatherRowsCase, kCases);

}  // namespace
}  // namespace sluice::test
