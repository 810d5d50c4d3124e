#include <cmath>

#include "support/kernel_case.h"

namespace sluice::test {
namespace {

struct RopeCase {
  std::string name;
  uint32_t n_head = 2, d = 64, n_rot = 64, style = 0;
  std::vector<Sequence> sequences = {{.n_tokens = 3}};

  KernelKey key() const { return {KernelId::rope, Type::F32, Layout::row_major, 0}; }
  size_t n_values() const { return size_t{make_step(sequences).n_tokens()} * n_head * d; }
  std::vector<float> x() const { return Random(d).normals(n_values()); }

  // (n_ctx, n_rot / 2, 2)
  std::vector<float> table() const {
    constexpr uint32_t kContext = 300;
    std::vector<float> cos_sin;
    for (uint32_t pos = 0; pos < kContext; ++pos) {
      for (uint32_t pair = 0; pair < n_rot / 2; ++pair) {
        const double angle = pos * std::pow(10000.0, -2.0 * pair / n_rot);
        cos_sin.push_back(static_cast<float>(std::cos(angle)));
        cos_sin.push_back(static_cast<float>(std::sin(angle)));
      }
    }
    return cos_sin;
  }

  Outputs run(Job& job) const {
    const Step step = make_step(sequences);
    const kernels::RopeArgs args{.x = job.in(x()),
                                 .table = job.in(table()),
                                 .step = job.step(step),
                                 .n_head = n_head,
                                 .d = d,
                                 .n_rot = n_rot,
                                 .style = style};
    job.launch(key(), args, {ceil_div(n_rot / 2, 32), n_head, step.n_tokens()});
    return {{.name = "x", .reals = reals(job.read(args.x, n_values()))}};
  }

  Outputs expected() const {
    const Step step = make_step(sequences);
    std::vector<double> y = reals(x());
    for (size_t t = 0; t < step.n_tokens(); ++t) {
      for (size_t h = 0; h < n_head; ++h) {
        double* head = y.data() + (t * n_head + h) * d;
        for (uint32_t pair = 0; pair < n_rot / 2; ++pair) {
          double& a = head[style == 0 ? pair : 2 * pair];
          double& b = head[style == 0 ? pair + n_rot / 2 : 2 * pair + 1];
          const double angle = step.pos[t] * std::pow(10000.0, -2.0 * pair / n_rot);
          const double turned_a = a * std::cos(angle) - b * std::sin(angle);
          b = a * std::sin(angle) + b * std::cos(angle);
          a = turned_a;
        }
      }
    }
    return {{.name = "x", .reals = y}};
  }
};

const RopeCase kCases[] = {
    {.name = "halves"},
    {.name = "interleaved", .style = 1},
    {.name = "part of a head, halves", .d = 80, .n_rot = 48},
    {.name = "part of a head, interleaved", .d = 80, .n_rot = 22, .style = 1},
    {.name = "one pair", .n_head = 1, .d = 3, .n_rot = 2},
    {.name = "odd number of pairs", .d = 30, .n_rot = 30},
    {.name = "several sequences at different positions",
     .n_head = 5,
     .sequences = {{.n_tokens = 1, .first_pos = 255}, {.n_tokens = 4}, {.n_tokens = 2, .first_pos = 63}}},
    {.name = "no tokens", .sequences = {}},
};

SLUICE_KERNEL_CASES(Rope, RopeCase, kCases);

}  // namespace
}  // namespace sluice::test
