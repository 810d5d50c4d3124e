#include "support/kernel_case.h"

namespace sluice::test {
namespace {

enum class Alias : uint8_t { none, y_is_a, y_is_b };

struct AddCase {
  std::string name;
  uint32_t n = 64, n_tokens = 1, per = 1;
  float scale = 1.0f;
  Alias alias = Alias::none;
  bool b_is_row = false;

  KernelKey key() const { return {KernelId::add, Type::F32, Layout::row_major, 0}; }
  uint32_t n_rows() const { return n_tokens * per; }
  std::vector<float> operand(uint64_t seed) const { return Random(seed + n).normals(size_t{n_rows()} * n, scale); }

  std::vector<float> b_values() const {
    std::vector<float> b = operand(2);
    if (b_is_row) b.resize(n);
    return b;
  }

  Outputs run(Job& job) const {
    const DevPtr<float> a = job.in(operand(1)), b = job.in(b_values());
    const DevPtr<float> y = alias == Alias::y_is_a ? a : alias == Alias::y_is_b ? b : job.out<float>(n_rows() * n);
    job.launch(key(),
               kernels::AddArgs{.y = y,
                                .a = a,
                                .b = b,
                                .step = job.step(make_step(n_tokens)),
                                .rows = {kernels::kRowsOfTokens, per},
                                .n = n,
                                .b_is_row = b_is_row ? 1u : 0u},
               {ceil_div(n, 64), n_rows(), 1});
    return {{.name = "y", .reals = reals(job.read(y, n_rows() * n)), .truth_bound = 1e-13, .tier_bound = 0}};
  }

  Outputs expected() const {
    const std::vector<float> a = operand(1), b = b_values();
    std::vector<double> y;
    for (size_t i = 0; i < a.size(); ++i) y.push_back(double{a[i]} + double{b[b_is_row ? i % n : i]});
    return {{.name = "y", .reals = y}};
  }
};

const AddCase kCases[] = {
    {.name = "one row"},
    {.name = "odd width", .n = 77, .n_tokens = 3},
    {.name = "one value", .n = 1, .n_tokens = 7},
    {.name = "rows per token", .n = 15, .n_tokens = 5, .per = 4},
    {.name = "in place of a", .n = 33, .n_tokens = 9, .alias = Alias::y_is_a},
    {.name = "in place of b", .n = 33, .n_tokens = 9, .alias = Alias::y_is_b},
    {.name = "huge values stay finite", .n = 2048, .scale = 1e37f},
    {.name = "a row to each", .n = 77, .n_tokens = 5, .per = 2, .b_is_row = true},
    {.name = "a row to each, in place", .n = 2048, .n_tokens = 3, .alias = Alias::y_is_a, .b_is_row = true},
    {.name = "no tokens", .n_tokens = 0},
};

SLUICE_KERNEL_CASES(Add, AddCase, kCases);

}  // namespace
}  // namespace sluice::test
