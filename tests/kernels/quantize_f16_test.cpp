#include <cstring>

#include "quant/half.h"
#include "support/kernel_case.h"

namespace sluice::test {
namespace {

enum class Fill : uint8_t { normal, zeros, special, powers };

struct QuantizeF16Case {
  std::string name;
  uint32_t k = 256, n_rows = 1;
  Fill fill = Fill::normal;
  float scale = 1.0f;

  KernelKey key() const { return {KernelId::quantize_f16, Type::F32, Layout::row_major, 0}; }

  std::vector<float> x() const {
    Random random(k + n_rows);
    std::vector<float> x = random.normals(size_t{n_rows} * k, scale);
    for (size_t i = 0; i < x.size(); ++i) {
      if (fill == Fill::zeros) x[i] = i % 3 == 0 ? -0.0f : 0.0f;
      if (fill == Fill::special && i % 64 == 5) x[i] = i % 128 == 5 ? -kInf : kNaN;
      if (fill == Fill::powers) x[i] = std::ldexp(i % 2 == 0 ? 1.0f : -1.5f, static_cast<int>(i % 250) - 125);
    }
    return x;
  }

  // NaN payloads are anybody's.
  Outputs outputs(const std::vector<std::byte>& rows) const {
    Output halves{.name = "h", .truth_bound = 0, .tier_bound = 0},
        units{.name = "unit", .truth_bound = 0, .tier_bound = 0};
    for (size_t r = 0; r < n_rows; ++r) {
      const std::byte* row = rows.data() + r * kernels::f16_row_bytes(k);
      for (size_t i = 0; i < kernels::f16_row_halves(k); ++i) {
        uint16_t h;
        std::memcpy(&h, row + i * 2, 2);
        halves.reals.push_back(double{quant::f16_to_f32(h)});
      }
      float unit;
      std::memcpy(&unit, row + kernels::f16_row_halves(k) * 2, sizeof(unit));
      units.reals.push_back(double{unit});
    }
    return {halves, units};
  }

  Outputs run(Job& job) const {
    const size_t n_bytes = n_rows * kernels::f16_row_bytes(k);
    const DevPtr<uint> out = job.out<uint>(n_bytes / 4);
    job.launch(key(),
               kernels::QuantizeF16Args{
                   .out = out, .x = job.in(x()), .step = job.step(make_step(n_rows)), .rows = {0, 1}, .k = k},
               {1, n_rows, 1});
    return outputs(job.read_bytes(out, n_bytes));
  }

  Outputs expected() const { return outputs(f16_rows(x(), n_rows, k)); }
};

const QuantizeF16Case kCases[] = {
    {.name = "one row"},
    {.name = "odd width", .k = 77, .n_rows = 3},
    {.name = "a width of half a step", .k = 96, .n_rows = 9},
    {.name = "one value", .k = 1, .n_rows = 2},
    {.name = "many rows", .k = 2048, .n_rows = 33},
    {.name = "no rows", .n_rows = 0},
    {.name = "zeros have the unit 1", .fill = Fill::zeros},
    {.name = "NaN and infinities stay", .n_rows = 2, .fill = Fill::special},
    {.name = "huge", .n_rows = 2, .scale = 1e36f},
    {.name = "small", .n_rows = 2, .scale = 1e-33f},
    {.name = "all magnitudes", .fill = Fill::powers},
};

SLUICE_KERNEL_CASES(QuantizeF16, QuantizeF16Case, kCases);

}  // namespace
}  // namespace sluice::test
