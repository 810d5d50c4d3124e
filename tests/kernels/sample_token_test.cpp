#include <algorithm>
#include <numeric>

#include "support/kernel_case.h"

namespace sluice::test {
namespace {

using Penalties = std::vector<kernels::Penalty>;

// How a row is sampled. Where sums are compared with a number, that is half way between two of them: `keep` and `hit`
// say which candidate it falls on, so that the last bits of an exponential decide nothing.
struct Rule {
  float temperature = 1, repeat_penalty = 1;
  uint top_k = 0;
  uint keep = 0;     // by top-p; 0: it is off
  uint share_p = 0;  // or a share of its own, where keep is 0
  float min_gap = kInf;
  uint hit = 0;  // the candidate that is drawn, of those left
  Penalties penalties = {};
};

// One row's rule in the step, and the token.
struct Drawn {
  kernels::SamplingRule rule{};
  uint id = 0xffffffff;
};

uint share(double part) { return static_cast<uint>(part * 0x1p32); }

std::vector<float> penalised(const Rule& rule, std::span<const float> logits) {
  std::vector<float> out(logits.begin(), logits.end());
  for (const auto& [id, amount] : rule.penalties) {
    if (id >= out.size()) continue;
    const float scaled = out[id] > 0 ? out[id] / rule.repeat_penalty : out[id] * rule.repeat_penalty;
    out[id] = std::isnan(scaled - amount) ? -kInf : scaled - amount;
  }
  return out;
}

class Candidates {
 public:
  explicit Candidates(const std::vector<float>& logits) : logits_(logits), ids_(logits.size()) {
    std::iota(ids_.begin(), ids_.end(), 0u);
    std::erase_if(ids_, [&](uint id) { return logits_[id] == -kInf; });
    std::stable_sort(ids_.begin(), ids_.end(), [&](uint a, uint b) { return logits_[a] > logits_[b]; });
  }
  bool empty() const { return ids_.empty(); }
  uint operator[](size_t i) const { return ids_[i]; }
  void keep(size_t n) { ids_.resize(std::min(n, ids_.size())); }
  void keep_above(double lowest) {
    std::erase_if(ids_, [&](uint id) { return double{logits_[id]} < lowest; });
  }
  double top() const { return double{logits_[ids_.front()]}; }
  // By top-p, of candidates that are all equal or where the first decides.
  void keep_share(double part) {
    size_t n = 1;
    while (static_cast<double>(n) < part * static_cast<double>(ids_.size())) ++n;
    keep(n);
  }
  // Half of candidate n's mass and all of those before, of the whole.
  double middle(size_t n, double temperature) const {
    double total = 0, before = 0, own = 0;
    for (size_t i = 0; i < ids_.size(); ++i) {
      const double logit = double{logits_[ids_[i]]};
      const double mass = logit == top() ? 1 : std::exp((logit - top()) / temperature);
      if (i < n) before += mass;
      if (i == n) own = mass;
      total += mass;
    }
    EXPECT_GT(own / total, 1e-7) << "candidate " << n << " is too improbable to be hit";
    return (before + own / 2) / total;
  }

 private:
  const std::vector<float>& logits_;
  std::vector<uint> ids_;
};

Drawn draw(const Rule& rule, std::span<const float> raw) {
  Drawn out;
  out.rule.temperature = rule.temperature;
  out.rule.repeat_penalty = rule.repeat_penalty;
  out.rule.n_penalties = static_cast<uint>(rule.penalties.size());
  out.rule.top_k = rule.top_k;
  out.rule.top_p = rule.share_p != 0 ? rule.share_p : kernels::kTopPOff;
  out.rule.min_gap = rule.min_gap;
  const std::vector<float> logits = penalised(rule, raw);
  Candidates left(logits);
  const bool usable = std::none_of(raw.begin(), raw.end(), [](float x) { return std::isnan(x); }) &&
                      std::any_of(raw.begin(), raw.end(), [](float x) { return std::isfinite(x); });
  if (!usable || left.empty()) return out;
  if (rule.temperature <= 0) {
    out.id = left[0];
    return out;
  }
  const double top = left.top();
  if (rule.top_k != 0) left.keep(rule.top_k);
  if (rule.keep != 0) {
    out.rule.top_p = share(left.middle(rule.keep - 1, 1));
    left.keep(rule.keep);
  } else if (rule.share_p != 0) {
    left.keep_share(rule.share_p * 0x1p-32);
  }
  if (rule.min_gap < kInf) left.keep_above(top - double{rule.min_gap});
  out.rule.draw = share(left.middle(rule.hit, double{rule.temperature}));
  out.id = left[rule.hit];
  return out;
}

struct SampleTokenCase {
  std::string name;
  uint32_t n_vocab = 1000;
  std::vector<Rule> rules = {{}};
  std::vector<std::pair<uint32_t, float>> set = {};  // of every row
  float scale = 2;                                   // of the logits
  float offset = 0;

  KernelKey key() const { return {KernelId::sample_token, Type::F32, Layout::row_major, 0}; }
  size_t n_out() const { return rules.size(); }
  std::vector<float> logits() const {
    std::vector<float> values = Random(n_vocab).normals(n_out() * n_vocab, scale);
    for (float& v : values) v += offset;
    for (size_t row = 0; row < n_out(); ++row) {
      for (const auto& [i, value] : set) values[row * n_vocab + i] = value;
    }
    return values;
  }

  Outputs run(Job& job) const {
    const std::vector<float> all = logits();
    Step step = make_step(static_cast<uint32_t>(std::max<size_t>(n_out(), 1)));
    step.penalties.push_back({.id = 0, .amount = 1e9f});  // nobody's
    for (uint32_t row = 0; row < n_out(); ++row) {
      step.out_token.push_back(row);
      step.rules.push_back(draw(rules[row], std::span(all).subspan(size_t{row} * n_vocab, n_vocab)).rule);
      step.rules.back().first_penalty = static_cast<uint>(step.penalties.size());
      step.penalties.insert(step.penalties.end(), rules[row].penalties.begin(), rules[row].penalties.end());
    }
    const kernels::SampleTokenArgs args{
        .out = job.out<uint>(n_out()), .logits = job.in(all), .step = job.step(step), .n_vocab = n_vocab};
    job.launch(key(), args, {1, static_cast<uint32_t>(n_out()), 1});
    return outputs(job.read(args.out, n_out()), job.read(args.logits, all.size()));
  }

  Outputs expected() const {
    const std::vector<float> all = logits();
    std::vector<uint32_t> ids;
    std::vector<float> after;
    for (size_t row = 0; row < n_out(); ++row) {
      const auto raw = std::span(all).subspan(row * n_vocab, n_vocab);
      ids.push_back(draw(rules[row], raw).id);
      const std::vector<float> now = penalised(rules[row], raw);
      after.insert(after.end(), now.begin(), now.end());
    }
    return outputs(ids, after);
  }

  static Outputs outputs(const std::vector<uint32_t>& ids, const std::vector<float>& logits) {
    return {{.name = "out", .ints = ids}, {.name = "logits", .reals = reals(logits), .tier_bound = 1e-14}};
  }
};

// Of a row whose logits are all equal.
constexpr float kFlat = 0;

const SampleTokenCase kCases[] = {
    {.name = "everything off", .rules = {{.hit = 0}, {.hit = 1}, {.hit = 9}, {.hit = 400}}},
    {.name = "the usual rule",
     .n_vocab = 65536,
     .rules = {{.temperature = 0.8f, .top_k = 40, .keep = 7, .min_gap = 3, .hit = 4}}},
    {.name = "top k", .rules = {{.top_k = 1}, {.top_k = 2, .hit = 1}, {.top_k = 40, .hit = 39}, {.top_k = 999}}},
    {.name = "top k above a thread each",
     .n_vocab = 5000,
     .rules = {{.top_k = 257, .hit = 256}, {.top_k = 1000, .hit = 990}}},
    {.name = "top k of more than there are",
     .n_vocab = 100,
     .rules = {{.top_k = 100, .hit = 60}, {.top_k = 1u << 31, .hit = 60}}},
    {.name = "top p",
     .n_vocab = 3000,
     .rules = {{.keep = 1},
               {.keep = 2, .hit = 1},
               {.keep = 600, .hit = 599},
               {.share_p = 1},
               {.temperature = 2, .keep = 50, .hit = 49}}},
    {.name = "top p of what top k left",
     .rules = {{.top_k = 300, .keep = 200, .hit = 150}, {.top_k = 20, .keep = 20, .hit = 19}}},
    {.name = "min p",
     .rules = {{.min_gap = 0},
               {.min_gap = 3, .hit = 2},
               {.keep = 3, .min_gap = 30, .hit = 2},
               {.keep = 300, .min_gap = 1, .hit = 1}}},
    {.name = "temperatures",
     .rules = {{.temperature = 0},
               {.temperature = -1, .top_k = 5},
               {.temperature = 0.01f},
               {.temperature = 1e-38f},
               {.temperature = 1e30f, .hit = 998},
               {.temperature = 50, .hit = 600}}},
    {.name = "one id", .n_vocab = 1, .rules = {{}, {.top_k = 1}, {.keep = 1, .min_gap = 0}}},
    {.name = "fewer ids than threads",
     .n_vocab = 255,
     .rules = {{.hit = 30}, {.top_k = 254, .hit = 30}, {.keep = 40, .hit = 39}}},
    {.name = "an id more than threads", .n_vocab = 257, .rules = {{.hit = 30}, {.top_k = 256, .hit = 60}}},
    {.name = "as many ids as two bytes count",
     .n_vocab = 65536,
     .rules = {{.hit = 1}, {.temperature = 3, .keep = 300, .hit = 200}, {.top_k = 300, .keep = 100, .hit = 99}}},
    {.name = "a large vocabulary",
     .n_vocab = 300000,
     .rules = {{.hit = 2}, {.keep = 1000, .hit = 700}, {.temperature = 1e30f, .hit = 299999}}},
    {.name = "far below zero", .rules = {{.top_k = 50, .keep = 30, .hit = 10}, {.hit = 60}}, .offset = -1e4f},
    {.name = "around zero", .rules = {{.top_k = 50, .keep = 30, .hit = 10}, {.hit = 600}}, .scale = 1e-30f},
    {.name = "a peak", .rules = {{}, {.top_k = 40}, {.keep = 1}, {.temperature = 20, .hit = 3}}, .set = {{500, 60.0f}}},
    {.name = "ties over the border of top k",
     .n_vocab = 700,
     .rules = {{.top_k = 3, .hit = 2},
               {.top_k = 4, .hit = 3},
               {.top_k = 5, .hit = 4},
               {.top_k = 6, .hit = 5},
               {.keep = 4, .hit = 3}},
     .set = {{699, 50.0f}, {3, 50.0f}, {259, 50.0f}, {4, 50.0f}, {5, 50.5f}, {6, 49.5f}}},
    {.name = "all equal",
     .n_vocab = 3000,
     .rules = {{.hit = 0},
               {.hit = 2999},
               {.top_k = 100, .hit = 99},
               {.top_k = 700, .hit = 600},
               {.keep = 513, .hit = 512},
               {.min_gap = 0, .hit = 1234},
               {.temperature = 0}},
     .scale = kFlat,
     .offset = 3},
    {.name = "all equal and few",
     .n_vocab = 10,
     .rules = {{.hit = 9}, {.top_k = 4, .hit = 3}, {.share_p = 1u << 31, .hit = 4}},
     .scale = kFlat},
    {.name = "the two zeros are equal",
     .n_vocab = 3,
     .rules = {{.top_k = 1}, {.hit = 1}, {.min_gap = 0, .hit = 2}},
     .set = {{0, -0.0f}, {1, 0.0f}, {2, -0.0f}}},
    {.name = "one NaN",
     .n_vocab = 300,
     .rules = {{}, {.temperature = 0}, {.penalties = {{299, 1}}}},
     .set = {{299, kNaN}}},
    {.name = "nothing but NaN", .n_vocab = 2, .set = {{0, kNaN}, {1, kNaN}}},
    {.name = "minus infinity is never chosen",
     .n_vocab = 4,
     .rules = {{.hit = 1}, {.top_k = 3, .hit = 1}, {.temperature = 1e30f, .hit = 1}},
     .set = {{0, -kInf}, {1, 1.0f}, {2, -kInf}, {3, 2.0f}}},
    {.name = "minus infinity alone", .n_vocab = 2, .set = {{0, -kInf}, {1, -kInf}}},
    {.name = "infinite ones share everything",
     .rules = {{.hit = 1},
               {.top_k = 2, .hit = 1},
               {.keep = 2, .hit = 1},
               {.min_gap = 1, .hit = 2},
               {.temperature = 0},
               {.temperature = 1e30f, .hit = 2}},
     .set = {{7, kInf}, {8, 3e38f}, {900, kInf}, {901, kInf}}},
    {.name = "infinite alone", .n_vocab = 2, .set = {{0, kInf}, {1, -kInf}}},
    {.name = "extremes",
     .n_vocab = 4,
     .rules = {{}, {.top_k = 4, .keep = 1}, {.min_gap = 5}},
     .set = {{0, -3.4e38f}, {1, 3.4e38f}, {2, -kInf}, {3, 3.3e38f}}},
    {.name = "penalties",
     .n_vocab = 600,
     .rules = {{.repeat_penalty = 1.3f,
                .hit = 0,
                .penalties = {{5, 0.5f}, {9, 0.25f}, {599, 0}, {600, 7}, {0xffffffff, 7}}},
               {.temperature = 0, .penalties = {{5, 20}}},
               {.temperature = 0, .repeat_penalty = 8, .penalties = {{5, 0}, {7, 0}}},
               {.temperature = 0, .penalties = {{7, -100}}},
               {.top_k = 2, .hit = 1, .penalties = {{5, 7.5f}}}},
     .set = {{5, 12.0f}, {9, -12.0f}, {7, 11.0f}}},
    {.name = "penalties that leave nothing",
     .n_vocab = 3,
     .rules = {{.penalties = {{1, kInf}}},
               {.penalties = {{1, 3e38f}, {2, 3e38f}}},
               {.temperature = 0, .repeat_penalty = 3, .penalties = {{0, 1}}}},
     .set = {{0, -kInf}, {1, -3e38f}, {2, -kInf}}},
    {.name = "a penalty takes what is infinite",
     .n_vocab = 300,
     .rules = {{.temperature = 0, .penalties = {{0, kInf}}},
               {.temperature = 0, .penalties = {{0, 1}}},
               {.temperature = 0, .repeat_penalty = 2, .penalties = {{1, kInf}}}},
     .set = {{0, kInf}, {1, 50.0f}}},
    {.name = "no rows", .rules = {}},
};

SLUICE_KERNEL_CASES(SampleToken, SampleTokenCase, kCases);

}  // namespace
}  // namespace sluice::test
