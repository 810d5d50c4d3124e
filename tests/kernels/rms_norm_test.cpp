#include "support/kernel_case.h"

namespace sluice::test {
namespace {

enum class Y : uint8_t { floats, q8, both };
enum class Alias : uint8_t { none, y_is_x, sum_is_x, sum_is_add };

struct RmsNormCase {
  std::string name;
  uint32_t n = 64, n_tokens = 1, per = 1;
  Y y = Y::floats;
  bool add = false;
  Alias alias = Alias::none;
  float scale = 1.0f, eps = 1e-5f;
  bool zeros = false;
  bool of_out = false;

  KernelKey key() const { return {KernelId::rms_norm, Type::F32, Layout::row_major, 0}; }
  uint32_t n_rows() const { return n_tokens * per; }
  size_t n_values() const { return size_t{n_rows()} * n; }
  std::vector<float> operand(uint64_t seed) const {
    if (zeros) return std::vector<float>(n_values(), 0.0f);
    return Random(seed + n).normals(n_values(), scale);
  }
  std::vector<float> w() const { return Random(n + 9).normals(n); }

  Outputs run(Job& job) const {
    const size_t q8_bytes = n_rows() * kernels::q8_row_bytes(n);
    Step step = make_step(of_out ? 70 : n_tokens);
    if (of_out) step.out_token.assign(n_tokens, 69);
    kernels::RmsNormArgs args{.x = job.in(operand(1)),
                              .w = job.in(w()),
                              .step = job.step(step),
                              .rows = {of_out ? kernels::kRowsOfOut : kernels::kRowsOfTokens, per},
                              .n = n,
                              .eps = eps};
    if (add) {
      args.add = job.in(operand(2));
      args.sum = alias == Alias::sum_is_x ? args.x : alias == Alias::sum_is_add ? args.add : job.out<float>(n_values());
    }
    if (y != Y::q8) args.y = alias == Alias::y_is_x ? args.x : job.out<float>(n_values());
    if (y != Y::floats) args.y_q8 = {job.out<uint>(q8_bytes / 4).address};
    job.launch(key(), args, {1, n_rows(), 1});

    Outputs outputs;
    if (add) {
      outputs.push_back(
          {.name = "sum", .reals = reals(job.read(args.sum, n_values())), .truth_bound = 1e-13, .tier_bound = 0});
    }
    if (y != Y::q8) outputs.push_back({.name = "y", .reals = reals(job.read(args.y, n_values()))});
    if (y == Y::floats) return outputs;
    const std::vector<std::byte> q8 = job.read_bytes(args.y_q8, q8_bytes);
    outputs.push_back(
        {.name = "y_q8", .reals = reals(q8_values(q8, n_rows(), n)), .truth_bound = 1e-4, .tier_bound = 1e-4});
    if (y == Y::both) {
      const bool same = q8 == q8_rows(job.read(args.y, n_values()), n_rows(), n);
      outputs.push_back({.name = "y_q8 is y in 8 bits", .ints = {same}});
    }
    return outputs;
  }

  Outputs expected() const {
    const std::vector<float> x = operand(1), b = operand(2), weight = w();
    std::vector<double> h, out;
    for (size_t i = 0; i < x.size(); ++i) h.push_back(add ? double{x[i]} + double{b[i]} : double{x[i]});
    for (size_t r = 0; r < n_rows(); ++r) {
      double squares = 0;
      for (size_t i = 0; i < n; ++i) squares += h[r * n + i] * h[r * n + i];
      for (size_t i = 0; i < n; ++i)
        out.push_back(h[r * n + i] / std::sqrt(squares / n + double{eps}) * double{weight[i]});
    }
    Outputs outputs;
    if (add) outputs.push_back({.name = "sum", .reals = h});
    if (y != Y::q8) outputs.push_back({.name = "y", .reals = out});
    if (y != Y::floats) outputs.push_back({.name = "y_q8", .reals = out});
    if (y == Y::both) outputs.push_back({.name = "y_q8 is y in 8 bits", .ints = {1}});
    return outputs;
  }
};

const RmsNormCase kCases[] = {
    {.name = "one row"},
    {.name = "odd width", .n = 77, .n_tokens = 3},
    {.name = "one value", .n = 1, .n_tokens = 2},
    {.name = "heads", .n = 64, .n_tokens = 5, .per = 8},
    {.name = "rows of out", .n = 48, .n_tokens = 2, .of_out = true},
    {.name = "in place", .n = 33, .n_tokens = 9, .alias = Alias::y_is_x},
    {.name = "with residual", .n = 2048, .n_tokens = 2, .add = true},
    {.name = "residual in place of x", .n = 65, .n_tokens = 9, .add = true, .alias = Alias::sum_is_x},
    {.name = "residual in place of add", .n = 65, .n_tokens = 9, .add = true, .alias = Alias::sum_is_add},
    {.name = "q8 alone", .n = 2880, .n_tokens = 3, .y = Y::q8, .add = true},
    {.name = "both", .n = 96, .n_tokens = 7, .y = Y::both},
    {.name = "zeros", .n = 64, .y = Y::both, .zeros = true},
    {.name = "eps decides", .n = 64, .scale = 1e-5f, .eps = 1e-6f},
    {.name = "huge activations", .n = 256, .scale = 1e15f},
    {.name = "no tokens", .n_tokens = 0, .add = true},
};

SLUICE_KERNEL_CASES(RmsNorm, RmsNormCase, kCases);

}  // namespace
}  // namespace sluice::test
