#include <algorithm>
#include <numeric>

#include "support/kernel_case.h"

namespace sluice::test {
namespace {

constexpr KernelKey kKey{KernelId::moe_route, Type::F32, Layout::row_major, 0};
constexpr uint kAll = kernels::kGateSoftmaxAll, kSigmoid = kernels::kGateSigmoid, kPicked = kernels::kGateSoftmaxPicked;

enum class Fill : uint8_t {
  normal,
  zeros,         // every score tied
  pairs,         // experts 2i and 2i + 1 tied
  one_nan,       // NaN where the best would be
  nan_row,       // token 1: all NaN
  one_inf,       // +infinity at expert 1, -infinity at 2
  two_inf,       // +infinity at the last two: tied
  few_finite,    // only experts 3 and 5 are finite
  best_is_last,  // the best expert has the last id
  huge           // +-1e30
};

struct MoeRouteCase {
  std::string name;
  uint32_t n_expert = 8, n_used = 2, n_tokens = 1;
  uint gate = kAll;
  bool renormalise = false, bias = false, forced = false;
  float scale = 1.0f;
  Fill fill = Fill::normal;
  uint n_group = 0, n_group_used = 0, n_group_best = 0;

  KernelKey key() const { return kKey; }

  std::vector<float> logits() const {
    std::vector<float> x = Random(n_expert + n_tokens).normals(size_t{n_tokens} * n_expert, 2.0f);
    for (size_t i = 0; i < x.size(); ++i) {
      const size_t token = i / n_expert, e = i % n_expert;
      switch (fill) {
        case Fill::normal:
          break;
        case Fill::zeros:
          x[i] = 0;
          break;
        case Fill::pairs:
          x[i] = x[i / 2 * 2];
          break;
        case Fill::one_nan:
          x[i] = e == n_expert / 2 ? kNaN : x[i];
          break;
        case Fill::nan_row:
          x[i] = token == 1 ? kNaN : x[i];
          break;
        case Fill::one_inf:
          x[i] = e == 1 ? kInf : e == 2 ? -kInf : x[i];
          break;
        case Fill::two_inf:
          x[i] = e + 2 >= n_expert ? kInf : x[i];
          break;
        case Fill::few_finite:
          x[i] = e == 3 || e == 5 ? x[i] : e % 2 == 0 ? kNaN : -kInf;
          break;
        case Fill::best_is_last:
          x[i] = e + 1 == n_expert ? 20.0f : x[i];
          break;
        case Fill::huge:
          x[i] *= 1e30f;
          break;
      }
    }
    return x;
  }
  std::vector<float> bias_values() const { return Random(n_expert + 5).normals(n_expert, 0.5f); }
  std::vector<uint> forced_ids() const {
    std::vector<uint> ids;
    for (uint i = 0; i < n_tokens * n_used; ++i) ids.push_back((n_expert - 1 + 3 * i) % n_expert);
    return ids;
  }

  Outputs run(Job& job) const {
    const kernels::MoeRouteArgs args{.sel_expert = job.out<uint>(size_t{n_tokens} * n_used),
                                     .weight = job.out<float>(size_t{n_tokens} * n_used),
                                     .logits = job.in(logits()),
                                     .bias = bias ? job.in(bias_values()) : DevPtr<float>{},
                                     .forced = forced ? job.in(forced_ids()) : DevPtr<uint>{},
                                     .step = job.step(make_step(n_tokens)),
                                     .n_expert = n_expert,
                                     .n_used = n_used,
                                     .gate = gate,
                                     .renormalise = renormalise ? 1u : 0u,
                                     .n_group = n_group,
                                     .n_group_used = n_group_used,
                                     .n_group_best = n_group_best,
                                     .scale = scale};
    job.launch(kKey, args, {n_tokens, 1, 1});
    return {{.name = "sel_expert", .ints = job.read(args.sel_expert, size_t{n_tokens} * n_used)},
            {.name = "weight", .reals = reals(job.read(args.weight, size_t{n_tokens} * n_used))},
            {.name = "row_error", .ints = job.row_error()}};
  }

  Outputs expected() const {
    Outputs all = {{.name = "sel_expert"}, {.name = "weight"}, {.name = "row_error"}};
    for (uint32_t t = 0; t < n_tokens; ++t) route(t, all);
    return all;
  }

 private:
  void route(uint32_t token, Outputs& all) const;
  void keep_groups(std::vector<double>& score) const;
};

// exp(x) over the sum of those of `ids`.
double share(const std::vector<double>& x, const std::vector<uint>& ids, uint id) {
  double most = -kInf, sum = 0;
  for (const uint i : ids) most = std::max(most, x[i]);
  for (const uint i : ids) sum += x[i] == -kInf ? 0 : std::exp(x[i] - most);
  return x[id] == -kInf ? 0 : std::exp(x[id] - most) / sum;
}

// By a plain sort of the groups.
void MoeRouteCase::keep_groups(std::vector<double>& score) const {
  const size_t size = n_expert / n_group;
  std::vector<std::pair<double, size_t>> groups;  // minus the score
  for (size_t g = 0; g < n_group; ++g) {
    std::vector<double> of_group(&score[g * size], &score[g * size] + size);
    std::sort(of_group.rbegin(), of_group.rend());
    const size_t n_best = std::min<size_t>(n_group_best, size);
    groups.emplace_back(-std::accumulate(of_group.begin(), of_group.begin() + static_cast<ptrdiff_t>(n_best), 0.0), g);
  }
  std::sort(groups.begin(), groups.end());
  for (size_t i = n_group_used; i < n_group; ++i) {
    std::fill_n(score.begin() + static_cast<ptrdiff_t>(groups[i].second * size), size, -kInf);
  }
}

void MoeRouteCase::route(uint32_t token, Outputs& all) const {
  const std::vector<float> logit = logits(), b = bias_values();
  std::vector<double> x(n_expert), probs(n_expert), score(n_expert);
  std::vector<uint> ids(n_expert);
  std::iota(ids.begin(), ids.end(), 0u);
  for (size_t e = 0; e < n_expert; ++e) {
    const float v = logit[token * n_expert + e];
    x[e] = std::isnan(v) ? -kInf : std::min(v, std::numeric_limits<float>::max());
  }
  for (uint e = 0; e < n_expert; ++e) {
    probs[e] = gate == kAll ? share(x, ids, e) : gate == kSigmoid ? 1 / (1 + std::exp(-x[e])) : x[e];
    score[e] = x[e] == -kInf ? -kInf : probs[e] + (bias ? double{b[e]} : 0);
  }
  const auto n_finite = n_expert - static_cast<size_t>(std::count(x.begin(), x.end(), -kInf));
  if (n_group != 0) keep_groups(score);
  std::stable_sort(ids.begin(), ids.end(), [&](uint i, uint j) { return score[i] > score[j]; });
  ids.resize(n_used);
  if (forced) {
    const std::vector<uint> wanted = forced_ids();
    ids.assign(wanted.begin() + token * n_used, wanted.begin() + (token + 1) * n_used);
  }
  double sum = 0;
  std::vector<double> weights;
  for (const uint id : ids) {
    weights.push_back(gate == kPicked ? share(score, ids, id) : probs[id]);
    sum += weights.back();
  }
  for (double& w : weights) w *= scale / (renormalise ? std::max(sum, 0x1p-14) : 1.0);
  all[0].ints.insert(all[0].ints.end(), ids.begin(), ids.end());
  all[1].reals.insert(all[1].reals.end(), weights.begin(), weights.end());
  all[2].ints.push_back(n_finite == 0 ? 1 : 0);
}

std::vector<MoeRouteCase> cases() {
  const MoeRouteCase hazards[] = {
      {.name = "one token"},
      {.name = "no tokens", .n_tokens = 0},
      {.name = "many tokens", .n_expert = 33, .n_used = 5, .n_tokens = 65},
      {.name = "one expert", .n_expert = 1, .n_used = 1, .n_tokens = 2},
      {.name = "all experts used", .n_expert = 7, .n_used = 7, .n_tokens = 3},
      {.name = "renormalised and scaled", .n_used = 3, .n_tokens = 5, .renormalise = true, .scale = 2.5f},
      {.name = "bias", .n_expert = 32, .n_used = 4, .n_tokens = 9, .renormalise = true, .bias = true},
      {.name = "forced", .n_used = 3, .n_tokens = 4, .renormalise = true, .forced = true},
      {.name = "forced to a NaN", .n_used = 8, .n_tokens = 2, .forced = true, .fill = Fill::one_nan},
      {.name = "R03 all scores tied", .n_expert = 32, .n_used = 4, .n_tokens = 64, .fill = Fill::zeros},
      {.name = "R03 tied pairs", .n_expert = 16, .n_used = 3, .n_tokens = 9, .fill = Fill::pairs},
      {.name = "one NaN", .n_used = 7, .n_tokens = 2, .renormalise = true, .fill = Fill::one_nan},
      {.name = "R01 one row of NaN among others", .n_tokens = 3, .renormalise = true, .fill = Fill::nan_row},
      {.name = "plus infinity", .n_used = 3, .n_tokens = 2, .renormalise = true, .fill = Fill::one_inf},
      {.name = "two plus infinities are tied", .n_used = 2, .renormalise = true, .fill = Fill::two_inf},
      {.name = "fewer finite than used", .n_used = 4, .n_tokens = 2, .renormalise = true, .fill = Fill::few_finite},
      {.name = "huge logits", .n_used = 2, .n_tokens = 3, .fill = Fill::huge},
      {.name = "R08 last of 257", .n_expert = 257, .n_tokens = 2, .fill = Fill::best_is_last},
      {.name = "R08 last of 512", .n_expert = 512, .n_used = 32, .n_tokens = 2, .fill = Fill::best_is_last},
      {.name = "groups by their best",
       .n_expert = 32,
       .n_used = 4,
       .n_tokens = 9,
       .bias = true,
       .n_group = 8,
       .n_group_used = 3,
       .n_group_best = 1},
      {.name = "groups by their two best",
       .n_expert = 256,
       .n_used = 8,
       .n_tokens = 9,
       .renormalise = true,
       .bias = true,
       .n_group = 8,
       .n_group_used = 4,
       .n_group_best = 2},
      {.name = "tied groups",
       .n_expert = 32,
       .n_used = 4,
       .n_tokens = 3,
       .fill = Fill::zeros,
       .n_group = 8,
       .n_group_used = 3,
       .n_group_best = 2},
      {.name = "groups of one",
       .n_expert = 8,
       .n_used = 3,
       .n_tokens = 3,
       .n_group = 8,
       .n_group_used = 3,
       .n_group_best = 2},
      {.name = "all groups",
       .n_expert = 12,
       .n_used = 5,
       .n_tokens = 3,
       .n_group = 3,
       .n_group_used = 3,
       .n_group_best = 2},
      {.name = "most groups", .n_expert = 4096, .n_used = 8, .n_group = 256, .n_group_used = 2, .n_group_best = 2},
      {.name = "most experts", .n_expert = 4096, .n_used = 8, .fill = Fill::best_is_last},
  };
  constexpr const char* kGates[] = {"softmax of all", "sigmoid", "softmax of picked"};
  std::vector<MoeRouteCase> all;
  for (const uint gate : {kAll, kSigmoid, kPicked}) {
    for (MoeRouteCase c : hazards) {
      c.gate = gate;
      c.name += std::string(", ") + kGates[gate];
      all.push_back(c);
    }
  }
  return all;
}

SLUICE_KERNEL_CASES(MoeRoute, MoeRouteCase, cases());

struct Picks {
  std::vector<uint> ids;
  std::vector<float> weights;
  uint error;
};

struct Gate {
  std::vector<float> logits, bias = {};
  uint n_used = 2, gate = kAll;
  bool renormalise = false;
  float scale = 1.0f;
};

// One token on every subject, with hand-made numbers.
void for_each_pick(const Gate& g, const std::function<void(const Picks&)>& check) {
  for (const Subject& subject : subjects()) {
    if (!subject.device->has(kKey)) continue;
    SCOPED_TRACE(subject.name);
    Job job(*subject.device);
    const kernels::MoeRouteArgs args{.sel_expert = job.out<uint>(g.n_used),
                                     .weight = job.out<float>(g.n_used),
                                     .logits = job.in(g.logits),
                                     .bias = g.bias.empty() ? DevPtr<float>{} : job.in(g.bias),
                                     .forced = {},
                                     .step = job.step(make_step(1)),
                                     .n_expert = static_cast<uint>(g.logits.size()),
                                     .n_used = g.n_used,
                                     .gate = g.gate,
                                     .renormalise = g.renormalise ? 1u : 0u,
                                     .n_group = 0,
                                     .n_group_used = 0,
                                     .n_group_best = 0,
                                     .scale = g.scale};
    job.launch(kKey, args, {1, 1, 1});
    check({job.read(args.sel_expert, g.n_used), job.read(args.weight, g.n_used), job.row_error()[0]});
  }
}

TEST(MoeRoute, R01_row_of_nan_gives_distinct_ids) {
  for (const uint gate : {kAll, kSigmoid, kPicked}) {
    for_each_pick({.logits = std::vector<float>(8, kNaN), .gate = gate, .renormalise = true}, [](const Picks& p) {
      EXPECT_EQ(p.ids, (std::vector<uint>{0, 1}));
      EXPECT_EQ(p.weights, (std::vector<float>{0, 0}));
      EXPECT_EQ(p.error, 1u);
    });
  }
}

// The bias moves the pick from expert 0 to 2 and never enters the weights.
TEST(MoeRoute, R04_bias_selects_but_does_not_weigh) {
  const Gate g{.logits = {1.0f, 2.0f, 0.0f, -1.0f},
               .bias = {0.0f, 0.0f, 0.9f, 0.0f},
               .gate = kSigmoid,
               .renormalise = true,
               .scale = 2.0f};
  for_each_pick(g, [](const Picks& p) {
    EXPECT_EQ(p.ids, (std::vector<uint>{2, 1}));  // 0.5 + 0.9 before 0.8808
    EXPECT_NEAR(p.weights[0], 2 * 0.5 / (0.5 + 0.880797), 1e-5);
    EXPECT_NEAR(p.weights[1], 2 * 0.880797 / (0.5 + 0.880797), 1e-5);
  });
}

TEST(MoeRoute, R11_flat_row_without_renormalising_sums_to_k_over_e) {
  Gate g{.logits = std::vector<float>(64, 0.5f), .n_used = 8};
  for_each_pick(
      g, [](const Picks& p) { EXPECT_NEAR(std::accumulate(p.weights.begin(), p.weights.end(), 0.0), 8.0 / 64, 1e-6); });
  g.renormalise = true;
  for_each_pick(
      g, [](const Picks& p) { EXPECT_NEAR(std::accumulate(p.weights.begin(), p.weights.end(), 0.0), 1.0, 1e-6); });
}

// Router bias first, then the picks, then softmax over them.
TEST(MoeRoute, R15_bias_counts_in_selection_and_weight) {
  const Gate g{.logits = {1.0f, 2.0f, 0.0f, -1.0f}, .bias = {0.0f, 0.0f, 3.0f, 0.0f}, .gate = kPicked};
  for_each_pick(g, [](const Picks& p) {
    EXPECT_EQ(p.ids, (std::vector<uint>{2, 1}));
    EXPECT_NEAR(p.weights[0], 1 / (1 + std::exp(-1.0)), 1e-6);  // 3 against 2
    EXPECT_NEAR(p.weights[1], 1 - p.weights[0], 1e-6);
  });
}

TEST(MoeRoute, divisor_has_a_lower_bound) {
  const Gate g{.logits = {-20.0f, -21.0f, -22.0f}, .gate = kSigmoid, .renormalise = true};
  for_each_pick(g, [](const Picks& p) { EXPECT_NEAR(p.weights[0], std::exp(-20.0) * 0x1p14, 1e-9); });
}

}  // namespace
}  // namespace sluice::test
