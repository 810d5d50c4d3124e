#include "support/kernel_case.h"

namespace sluice::test {
namespace {

struct ReluSquaredCase {
  std::string name;
  uint32_t n = 64, n_tokens = 1, per = 1;
  bool floats = true, q8 = false, in_place = false;
  float scale = 1.0f;

  KernelKey key() const { return {KernelId::relu_squared, Type::F32, Layout::row_major, 0}; }
  uint32_t n_rows() const { return n_tokens * per; }
  std::vector<float> x() const {
    std::vector<float> values = Random(n).normals(size_t{n_rows()} * n, scale);
    if (values.size() > 5 && !q8) values[5] = kNaN;
    return values;
  }

  Outputs run(Job& job) const {
    const size_t n_values = size_t{n_rows()} * n, q8_bytes = n_rows() * kernels::q8_row_bytes(n);
    kernels::ReluSquaredArgs args{.y = {},
                                  .y_q8 = {},
                                  .x = job.in(x()),
                                  .step = job.step(make_step(n_tokens)),
                                  .rows = {kernels::kRowsOfTokens, per},
                                  .n = n};
    if (floats) args.y = in_place ? args.x : job.out<float>(n_values);
    if (q8) args.y_q8 = {job.out<uint>(q8_bytes / 4).address};
    job.launch(key(), args, {ceil_div(n, 64), n_rows(), 1});
    Outputs outputs;
    if (floats) outputs.push_back({.name = "y", .reals = reals(job.read(args.y, n_values)), .tier_bound = 0});
    if (!q8) return outputs;
    const auto rows = job.read_bytes(args.y_q8, q8_bytes);
    outputs.push_back({.name = "y_q8", .reals = reals(q8_values(rows, n_rows(), n)), .truth_bound = 1e-4});
    return outputs;
  }

  Outputs expected() const {
    std::vector<double> y;
    for (const float value : x()) y.push_back(value < 0 ? 0.0 : double{value} * double{value});
    Outputs outputs;
    if (floats) outputs.push_back({.name = "y", .reals = y});
    if (q8) outputs.push_back({.name = "y_q8", .reals = y});
    return outputs;
  }
};

const ReluSquaredCase kCases[] = {
    {.name = "one row, a NaN in it"},
    {.name = "odd width in place", .n = 77, .n_tokens = 3, .per = 2, .in_place = true},
    {.name = "one value", .n = 1, .n_tokens = 2},
    {.name = "q8 alone", .n = 1408, .n_tokens = 3, .floats = false, .q8 = true},
    {.name = "both", .n = 288, .n_tokens = 2, .per = 3, .q8 = true},
    {.name = "huge activations", .n = 64, .scale = 1e18f},
    {.name = "no tokens", .n_tokens = 0, .q8 = true},
};

SLUICE_KERNEL_CASES(ReluSquared, ReluSquaredCase, kCases);

}  // namespace
}  // namespace sluice::test
