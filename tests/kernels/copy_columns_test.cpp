#include "support/kernel_case.h"

namespace sluice::test {
namespace {

struct CopyColumnsCase {
  std::string name;
  uint32_t n = 64, y_stride = 64, x_stride = 64, n_tokens = 3, per = 1;
  uint32_t y_first = 0, x_first = 0;

  KernelKey key() const { return {KernelId::copy_columns, Type::F32, Layout::row_major, 0}; }
  uint32_t n_rows() const { return n_tokens * per; }
  // Small numbers, which as floats are denormal, and NaN of several kinds.
  std::vector<uint> x() const {
    std::vector<uint> values(size_t{n_rows()} * x_stride + x_first + n);
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<uint>(i % 3 == 0 ? 0x7f800001 + i : i);
    return values;
  }
  std::vector<uint> before() const { return std::vector<uint>(size_t{n_rows()} * y_stride, 0xabcdefu); }

  Outputs run(Job& job) const {
    const DevPtr<uint> y = job.in(before()), from = job.in(x());
    const kernels::CopyColumnsArgs args{.y = {y.address + y_first * sizeof(uint)},
                                        .x = {from.address + x_first * sizeof(uint)},
                                        .step = job.step(make_step(n_tokens)),
                                        .rows = {kernels::kRowsOfTokens, per},
                                        .n = n,
                                        .y_stride = y_stride,
                                        .x_stride = x_stride};
    job.launch(key(), args, {ceil_div(n, 64), n_rows(), 1});
    return {{.name = "y", .ints = job.read(y, before().size())}};
  }

  Outputs expected() const {
    std::vector<uint> y = before();
    const std::vector<uint> from = x();
    for (size_t r = 0; r < n_rows(); ++r) {
      for (size_t i = 0; i < n; ++i) y[r * y_stride + y_first + i] = from[r * x_stride + x_first + i];
    }
    return {{.name = "y", .ints = y}};
  }
};

const CopyColumnsCase kCases[] = {
    {.name = "whole rows"},
    {.name = "out of longer rows", .n = 33, .y_stride = 33, .x_stride = 50, .n_tokens = 5, .x_first = 17},
    {.name = "into longer rows", .n = 16, .y_stride = 80, .x_stride = 16, .per = 4, .y_first = 64},
    {.name = "one row for all", .n = 7, .y_stride = 7, .x_stride = 0, .n_tokens = 9},
    {.name = "many columns", .n = 300, .y_stride = 301, .x_stride = 305, .n_tokens = 2, .y_first = 1, .x_first = 5},
    {.name = "no tokens", .n_tokens = 0},
};

SLUICE_KERNEL_CASES(CopyColumns, CopyColumnsCase, kCases);

}  // namespace
}  // namespace sluice::test
