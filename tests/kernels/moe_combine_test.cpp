#include "support/kernel_case.h"

namespace sluice::test {
namespace {

struct MoeCombineCase {
  std::string name;
  uint32_t n_tokens = 1, m = 64, n_used = 4;
  bool accumulate = false;
  float scale = 1.0f;
  bool same_expert = false;  // all slots of a token hold the same values
  bool biased = false;       // by the row of each entry's expert, of kExperts
  bool scaled = false;       // by a number of each entry's expert

  static constexpr uint32_t kExperts = 5;

  KernelKey key() const { return {KernelId::moe_combine, Type::F32, Layout::row_major, 0}; }
  std::vector<float> bias() const { return Random(m + 2).normals(size_t{kExperts} * m); }
  std::vector<float> scale_of_expert() const { return Random(m + 3).normals(kExperts); }
  std::vector<uint> sel_expert() const {
    std::vector<uint> ids;
    for (uint e = 0; e < n_tokens * n_used; ++e) ids.push_back((e * 3 + 4) % kExperts);
    return ids;
  }
  std::vector<float> z() const {
    std::vector<float> z = Random(m).normals(size_t{n_tokens} * n_used * m, scale);
    for (size_t i = 0; same_expert && i < z.size(); ++i) z[i] = z[i / (n_used * m) * (n_used * m) + i % m];
    return z;
  }
  std::vector<float> weight() const {
    std::vector<float> w = Random(n_used).normals(size_t{n_tokens} * n_used, 0.5f);
    for (float& v : w) v = std::fabs(v);
    return w;
  }
  std::vector<float> before() const {
    if (!accumulate) return std::vector<float>(size_t{n_tokens} * m, kNaN);  // stale: must be overwritten
    return Random(m + 1).normals(size_t{n_tokens} * m, scale);
  }

  Outputs run(Job& job) const {
    const kernels::MoeCombineArgs args{.out = job.in(before()),
                                       .z = job.in(z()),
                                       .weight = job.in(weight()),
                                       .bias = biased ? job.in(bias()) : DevPtr<float>{},
                                       .scale = scaled ? job.in(scale_of_expert()) : DevPtr<float>{},
                                       .sel_expert = biased || scaled ? job.in(sel_expert()) : DevPtr<uint>{},
                                       .step = job.step(make_step(n_tokens)),
                                       .m = m,
                                       .n_used = n_used,
                                       .accumulate = accumulate ? 1u : 0u};
    job.launch(key(), args, {ceil_div(m, 64), n_tokens, 1});
    return {{.name = "out", .reals = reals(job.read(args.out, size_t{n_tokens} * m)), .truth_bound = 1e-12}};
  }

  Outputs expected() const {
    const std::vector<float> all_z = z(), w = weight(), old = before(), b = bias(), scales = scale_of_expert();
    const std::vector<uint> expert = sel_expert();
    std::vector<double> out;
    for (size_t t = 0; t < n_tokens; ++t) {
      for (size_t i = 0; i < m; ++i) {
        double sum = accumulate ? double{old[t * m + i]} : 0;
        for (size_t e = t * n_used; e < (t + 1) * n_used; ++e) {
          sum += double{w[e]} * (scaled ? double{scales[expert[e]]} : 1) *
                 (double{all_z[e * m + i]} + (biased ? double{b[expert[e] * m + i]} : 0));
        }
        out.push_back(sum);
      }
    }
    return {{.name = "out", .reals = out}};
  }
};

const MoeCombineCase kCases[] = {
    {.name = "one token"},
    {.name = "odd width", .n_tokens = 3, .m = 77, .n_used = 3},
    {.name = "one value", .n_tokens = 2, .m = 1, .n_used = 1},
    {.name = "adds to a shared expert", .n_tokens = 5, .n_used = 2, .accumulate = true},
    {.name = "M06 repeated expert in one token", .n_tokens = 2, .same_expert = true},
    {.name = "huge values stay finite", .n_tokens = 2, .n_used = 2, .scale = 1e30f},
    {.name = "many tokens", .n_tokens = 65, .m = 33, .n_used = 8},
    {.name = "biases of the experts", .n_tokens = 7, .m = 77, .n_used = 3, .accumulate = true, .biased = true},
    {.name = "scales of the experts", .n_tokens = 6, .m = 65, .n_used = 3, .scaled = true},
    {.name = "both", .n_tokens = 3, .m = 64, .n_used = 2, .accumulate = true, .biased = true, .scaled = true},
    {.name = "no tokens", .n_tokens = 0, .biased = true},
};

SLUICE_KERNEL_CASES(MoeCombine, MoeCombineCase, kCases);

// Experts that give +1 and -1, gate weights 3/4 and 1/4.
TEST(MoeCombine, R10_gate_weights_enter_the_sum) {
  for (const Subject& subject : subjects()) {
    const KernelKey key{KernelId::moe_combine, Type::F32, Layout::row_major, 0};
    if (!subject.device->has(key)) continue;
    Job job(*subject.device);
    const kernels::MoeCombineArgs args{.out = job.out<float>(1),
                                       .z = job.in(std::vector<float>{1.0f, -1.0f}),
                                       .weight = job.in(std::vector<float>{0.75f, 0.25f}),
                                       .bias = {},
                                       .scale = {},
                                       .sel_expert = {},
                                       .step = job.step(make_step(1)),
                                       .m = 1,
                                       .n_used = 2,
                                       .accumulate = 0};
    job.launch(key, args, {1, 1, 1});
    EXPECT_EQ(job.read(args.out, 1)[0], 0.5f) << subject.name;
  }
}

}  // namespace
}  // namespace sluice::test
