#include <cstring>

#include "support/kernel_case.h"

namespace sluice::test {
namespace {

enum class Fill : uint8_t { normal, zeros, ties, one_nan, one_inf, subnormal, near_overflow, mixed };

struct QuantizeQ8Case {
  std::string name;
  uint32_t k = 256, n_rows = 1;
  Fill fill = Fill::normal;
  float scale = 1.0f;

  KernelKey key() const { return {KernelId::quantize_q8, Type::F32, Layout::row_major, 0}; }

  std::vector<float> x() const {
    Random random(k + n_rows);
    std::vector<float> x = random.normals(size_t{n_rows} * k, scale);
    for (size_t i = 0; i < x.size(); ++i) {
      switch (fill) {
        case Fill::normal:
          break;
        case Fill::zeros:
          x[i] = i % 3 == 0 ? -0.0f : 0.0f;
          break;
        case Fill::ties:
          x[i] = i % 32 == 0 ? 127.0f : static_cast<float>(i % 32) - 15.5f;
          break;
        case Fill::one_nan:
          x[i] = i == 40 ? kNaN : x[i];
          break;
        case Fill::one_inf:
          x[i] = i == 70 ? -kInf : x[i];
          break;
        case Fill::subnormal:
          x[i] *= 1e-41f;
          break;
        case Fill::near_overflow:
          x[i] = i % 32 == 5 ? -std::numeric_limits<float>::max() : x[i] * 1e37f;
          break;
        case Fill::mixed:
          x[i] *= i / 32 % 2 == 0 ? 1e-38f : 1e20f;
          break;
      }
    }
    return x;
  }

  // Bytes of all rows; the sign and payload of a NaN scale are anybody's.
  Outputs outputs(std::vector<std::byte> rows) const {
    const size_t row_bytes = kernels::q8_row_bytes(k);
    std::vector<float> d;
    for (size_t r = 0; r < n_rows; ++r) {
      std::byte* scales = rows.data() + r * row_bytes + k;
      d.resize(d.size() + k / 32);
      std::memcpy(d.data() + r * (k / 32), scales, k / 8);
      std::memset(scales, 0, k / 8);
    }
    return {{.name = "q and m8", .ints = words(rows)},
            {.name = "d", .reals = reals(d), .truth_bound = 0, .tier_bound = 0}};
  }

  Outputs run(Job& job) const {
    const size_t n_bytes = n_rows * kernels::q8_row_bytes(k);
    const DevPtr<uint> out = {job.out<uint>(n_bytes / 4).address};
    job.launch(key(),
               kernels::QuantizeQ8Args{.out = out,
                                       .x = job.in(x()),
                                       .step = job.step(make_step(n_rows)),
                                       .rows = {kernels::kRowsOfTokens, 1},
                                       .k = k},
               {k / 32, n_rows, 1});
    return outputs(job.read_bytes(out, n_bytes));
  }

  Outputs expected() const { return outputs(q8_rows(x(), n_rows, k)); }
};

const QuantizeQ8Case kCases[] = {
    {.name = "one block", .k = 32},
    {.name = "odd number of blocks", .k = 96, .n_rows = 3},
    {.name = "many rows", .k = 288, .n_rows = 65},
    {.name = "wide", .k = 7168, .n_rows = 2},
    {.name = "no rows", .n_rows = 0},
    {.name = "zeros", .fill = Fill::zeros},
    {.name = "ties go to even", .fill = Fill::ties},
    {.name = "one NaN spoils its block alone", .fill = Fill::one_nan},
    {.name = "one infinity spoils its block alone", .fill = Fill::one_inf},
    {.name = "subnormal values count as zero", .fill = Fill::subnormal},
    {.name = "huge activations", .scale = 1e30f},
    {.name = "near the largest float", .fill = Fill::near_overflow},
    {.name = "tiny beside huge blocks", .n_rows = 2, .fill = Fill::mixed},
};

SLUICE_KERNEL_CASES(QuantizeQ8, QuantizeQ8Case, kCases);

}  // namespace
}  // namespace sluice::test
