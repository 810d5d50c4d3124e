#include "support/kernel_case.h"

namespace sluice::test {
namespace {

enum class Y : uint8_t { floats, q8, both };
enum class Alias : uint8_t { none, y_is_gate, y_is_up };

struct SwigluCase {
  std::string name;
  uint32_t n = 64, n_tokens = 1, per = 1;
  Y y = Y::floats;
  Alias alias = Alias::none;
  float scale = 1.0f;
  bool clamped = false, biased = false, gelu = false;

  static constexpr uint32_t kExperts = 3;

  KernelKey key() const { return {KernelId::swiglu, Type::F32, Layout::row_major, 0}; }
  uint32_t n_rows() const { return n_tokens * per; }
  size_t n_values() const { return size_t{n_rows()} * n; }
  std::vector<float> operand(uint64_t seed) const { return Random(seed + n).normals(n_values(), scale); }

  std::vector<float> bias(uint64_t seed) const { return Random(seed).normals(size_t{kExperts} * n, scale); }
  std::vector<uint> sel_expert() const {
    std::vector<uint> ids;
    for (uint r = 0; r < n_rows(); ++r) ids.push_back((r + 2) % kExperts);
    return ids;
  }

  Outputs run(Job& job) const {
    const size_t q8_bytes = n_rows() * kernels::q8_row_bytes(n);
    kernels::SwigluArgs args{.gate = job.in(operand(1)),
                             .up = job.in(operand(2)),
                             .gate_bias = biased ? job.in(bias(3)) : DevPtr<float>{},
                             .up_bias = biased ? job.in(bias(4)) : DevPtr<float>{},
                             .sel_expert = biased ? job.in(sel_expert()) : DevPtr<uint>{},
                             .step = job.step(make_step(n_tokens)),
                             .rows = {kernels::kRowsOfTokens, per},
                             .n = n,
                             .activation = gelu      ? kernels::kGeluTanh
                                           : clamped ? kernels::kClampedSwiglu
                                                     : kernels::kSilu};
    if (y != Y::q8) {
      args.y = alias == Alias::y_is_gate ? args.gate : alias == Alias::y_is_up ? args.up : job.out<float>(n_values());
    }
    if (y != Y::floats) args.y_q8 = {job.out<uint>(q8_bytes / 4).address};
    job.launch(key(), args, {ceil_div(n, 64), n_rows(), 1});
    Outputs outputs;
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
    const std::vector<float> gate = operand(1), up = operand(2), gate_bias = bias(3), up_bias = bias(4);
    const std::vector<uint> expert = sel_expert();
    std::vector<double> out;
    for (size_t i = 0; i < gate.size(); ++i) {
      const size_t b = expert[i / n] * n + i % n;
      double g = double{gate[i]} + (biased ? double{gate_bias[b]} : 0),
             u = double{up[i]} + (biased ? double{up_bias[b]} : 0);
      if (clamped) {
        g = std::min(g, 7.0);
        u = std::min(std::max(u, -7.0), 7.0) + 1;
      }
      if (gelu) {
        out.push_back(0.5 * g * (1 + std::tanh(std::sqrt(2 / M_PI) * (g + 0.044715 * g * g * g))) * u);
        continue;
      }
      out.push_back(g / (1.0 + std::exp(clamped ? -1.702 * g : -g)) * u);
    }
    Outputs outputs;
    if (y != Y::q8) outputs.push_back({.name = "y", .reals = out});
    if (y != Y::floats) outputs.push_back({.name = "y_q8", .reals = out});
    if (y == Y::both) outputs.push_back({.name = "y_q8 is y in 8 bits", .ints = {1}});
    return outputs;
  }
};

const SwigluCase kCases[] = {
    {.name = "one row"},
    {.name = "odd width", .n = 77, .n_tokens = 3},
    {.name = "one value", .n = 1, .n_tokens = 2},
    {.name = "rows per token", .n = 33, .n_tokens = 5, .per = 4},
    {.name = "in place of gate", .n = 65, .n_tokens = 9, .alias = Alias::y_is_gate},
    {.name = "in place of up", .n = 65, .n_tokens = 9, .alias = Alias::y_is_up},
    {.name = "q8 alone", .n = 1408, .n_tokens = 3, .y = Y::q8},
    {.name = "both", .n = 288, .n_tokens = 2, .per = 3, .y = Y::both},
    {.name = "exp overflows for one sign", .n = 64, .scale = 300.0f},
    {.name = "huge activations", .n = 64, .scale = 1e18f},
    {.name = "gelu", .n = 77, .n_tokens = 3, .scale = 3.0f, .gelu = true},
    {.name = "gelu, huge activations", .n = 64, .scale = 1e18f, .gelu = true},
    {.name = "gelu, q8", .n = 288, .n_tokens = 2, .y = Y::both, .scale = 2.0f, .gelu = true},
    {.name = "clamped", .n = 77, .n_tokens = 3, .scale = 8.0f, .clamped = true},
    {.name = "clamped, huge activations", .n = 64, .scale = 1e18f, .clamped = true},
    {.name = "clamped, biases, q8",
     .n = 288,
     .n_tokens = 5,
     .per = 2,
     .y = Y::both,
     .scale = 4.0f,
     .clamped = true,
     .biased = true},
    {.name = "biases of the experts", .n = 65, .n_tokens = 4, .per = 2, .alias = Alias::y_is_up, .biased = true},
    {.name = "no tokens", .n_tokens = 0, .y = Y::both},
};

SLUICE_KERNEL_CASES(Swiglu, SwigluCase, kCases);

}  // namespace
}  // namespace sluice::test
