#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "backend/cpu/worker.h"

namespace sluice::backend::cpu::reference {
namespace {

using kernels::SamplingRule;
using kernels::uint;

constexpr uint kNoToken = 0xffffffffu;
static_assert(kernels::kMostSampled * sizeof(uint) <= kScratchBytes);  // a row's ids
constexpr float kInfinity = std::numeric_limits<float>::infinity();

bool usable(std::span<const float> logits) {
  return std::none_of(logits.begin(), logits.end(), [](float x) { return std::isnan(x); }) &&
         std::any_of(logits.begin(), logits.end(), [](float x) { return std::isfinite(x); });
}

void penalise(const SamplingRule& rule, const kernels::Penalty* penalty, std::span<float> logits) {
  for (uint i = 0; i < rule.n_penalties; ++i) {
    const auto [id, amount] = penalty[rule.first_penalty + i];
    if (id >= logits.size()) continue;
    float& logit = logits[id];
    logit = logit > 0 ? logit / rule.repeat_penalty : logit * rule.repeat_penalty;
    logit -= amount;
    if (std::isnan(logit)) logit = -kInfinity;
  }
}

uint64_t mass(float logit, float top, float temperature) {
  if (logit == top) return uint64_t{1} << 40;
  return static_cast<uint64_t>(std::exp((logit - top) / temperature) * 0x1p40f);
}

uint64_t part_of(uint64_t total, uint share) { return (total >> 32) * share + (((total & 0xffffffffu) * share) >> 32); }

// The candidates of a row in order.
struct Front {
  const float* logits;
  std::span<const uint> ids;

  float logit(size_t i) const { return logits[ids[i]]; }
  // How many it takes to have `target` of the mass at a temperature.
  size_t n_reaching(const auto& target, float temperature) const {
    uint64_t total = 0, sum = 0;
    for (size_t i = 0; i < ids.size(); ++i) total += mass(logit(i), logit(0), temperature);
    for (size_t i = 0; i < ids.size(); ++i) {
      sum += mass(logit(i), logit(0), temperature);
      if (sum >= target(total)) return i + 1;
    }
    return ids.size();
  }
};

uint sample(const SamplingRule& rule, std::span<const float> logits, uint* ids) {
  size_t n = 0;
  for (uint i = 0; i < logits.size(); ++i) {
    if (logits[i] > -kInfinity) ids[n++] = i;
  }
  if (n == 0) return kNoToken;
  std::sort(ids, ids + n, [&](uint a, uint b) { return logits[a] != logits[b] ? logits[a] > logits[b] : a < b; });
  if (rule.temperature <= 0) return ids[0];
  if (rule.top_k != 0) n = std::min<size_t>(n, rule.top_k);
  Front front{logits.data(), {ids, n}};
  if (rule.top_p != kernels::kTopPOff) {
    const auto target = [&](uint64_t total) { return std::max<uint64_t>(part_of(total, rule.top_p), 1); };
    front.ids = front.ids.first(front.n_reaching(target, 1));
  }
  while (front.logit(front.ids.size() - 1) < front.logit(0) - rule.min_gap)
    front.ids = front.ids.first(front.ids.size() - 1);
  const auto target = [&](uint64_t total) { return part_of(total, rule.draw) + 1; };
  return front.ids[front.n_reaching(target, rule.temperature) - 1];
}

}  // namespace

void sample_token(const kernels::SampleTokenArgs& a, Worker& w) {
  const kernels::StepState& step = *ptr(a.step);
  for (Chunk c; w.claim(step.n_out, 1, c);) {
    for (uint64_t row = c.begin; row < c.end; ++row) {
      const std::span logits(ptr(a.logits) + row * a.n_vocab, a.n_vocab);
      const SamplingRule& rule = ptr(step.rule)[row];
      const bool good = usable(logits);
      penalise(rule, ptr(step.penalty), logits);
      ptr(a.out)[row] = good ? sample(rule, logits, w.scratch<uint>()) : kNoToken;
    }
  }
}

}  // namespace sluice::backend::cpu::reference
