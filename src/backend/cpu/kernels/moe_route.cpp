#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

#include "backend/cpu/worker.h"

namespace sluice::backend::cpu::reference {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kLargest = std::numeric_limits<float>::max();
constexpr float kSmallestDivisor = 0x1p-14f;

float sanitised(float x) { return std::isnan(x) ? -kInfinity : std::min(x, kLargest); }

// x[i] becomes exp(x[i] - max) / sum; minus infinity becomes 0, also where all are.
void softmax(float* x, uint64_t n) {
  const float max = *std::max_element(x, x + n);
  double sum = 0;
  for (uint64_t i = 0; i < n; ++i) {
    x[i] = x[i] > -kInfinity ? std::exp(x[i] - max) : 0.0f;
    sum += double{x[i]};
  }
  for (uint64_t i = 0; i < n; ++i) x[i] = sum > 0 ? static_cast<float>(double{x[i]} / sum) : 0.0f;
}

// The n_used largest scores, best first, ties and the rest that is minus infinity by id. Returns how many were finite.
uint64_t pick(const float* score, uint64_t n_expert, uint64_t n_used, bool* taken, kernels::uint* ids) {
  std::fill_n(taken, n_expert, false);
  uint64_t n_finite = 0;
  for (uint64_t slot = 0; slot < n_used; ++slot) {
    uint64_t best = n_expert;
    for (uint64_t e = 0; e < n_expert; ++e) {
      if (!taken[e] && (best == n_expert || score[e] > score[best])) best = e;
    }
    taken[best] = true;
    ids[slot] = static_cast<kernels::uint>(best);
    if (score[best] > -kInfinity) ++n_finite;
  }
  return n_finite;
}

// The scores of experts outside the best groups become minus infinity.
void keep_groups(const kernels::MoeRouteArgs& a, float* score) {
  const uint64_t size = a.n_expert / a.n_group;
  float of_group[kernels::kMostGroups];
  for (uint64_t g = 0; g < a.n_group; ++g) {
    float best = -kInfinity, second = -kInfinity;
    for (uint64_t e = g * size; e < (g + 1) * size; ++e) {
      second = std::max(second, std::min(best, score[e]));
      best = std::max(best, score[e]);
    }
    of_group[g] = a.n_group_best == 2 && size > 1 ? best + second : best;
  }
  for (uint64_t g = 0; g < a.n_group; ++g) {
    uint64_t n_better = 0;
    for (uint64_t i = 0; i < a.n_group; ++i) {
      if (of_group[i] > of_group[g] || (of_group[i] == of_group[g] && i < g)) ++n_better;
    }
    if (n_better >= a.n_group_used) std::fill_n(score + g * size, size, -kInfinity);
  }
}

// One token; false where none of its logits is usable.
bool route(const kernels::MoeRouteArgs& a, uint64_t token, float* scratch) {
  const uint64_t n_expert = a.n_expert, n_used = a.n_used;
  const float* logits = ptr(a.logits) + token * n_expert;
  kernels::uint* ids = ptr(a.sel_expert) + token * n_used;
  float* weight = ptr(a.weight) + token * n_used;
  float *probs = scratch, *score = probs + n_expert;

  for (uint64_t e = 0; e < n_expert; ++e) score[e] = probs[e] = sanitised(logits[e]);
  const bool usable = *std::max_element(probs, probs + n_expert) > -kInfinity;
  if (a.gate == kernels::kGateSoftmaxAll) softmax(probs, n_expert);
  if (a.gate == kernels::kGateSigmoid) {
    for (uint64_t e = 0; e < n_expert; ++e) probs[e] = 1.0f / (1.0f + std::exp(-probs[e]));
  }
  for (uint64_t e = 0; e < n_expert; ++e) {
    if (score[e] > -kInfinity) score[e] = sanitised(a.bias ? probs[e] + ptr(a.bias)[e] : probs[e]);
  }

  if (a.n_group != 0 && !a.forced) keep_groups(a, score);
  uint64_t n_weighted = n_used;
  if (a.forced) {
    std::copy_n(ptr(a.forced) + token * n_used, n_used, ids);
  } else {
    n_weighted = pick(score, n_expert, n_used, reinterpret_cast<bool*>(score + n_expert), ids);
  }
  const bool picked = a.gate == kernels::kGateSoftmaxPicked;
  for (uint64_t s = 0; s < n_used; ++s) weight[s] = (picked ? score : probs)[ids[s]];
  if (picked) softmax(weight, n_used);
  std::fill(weight + n_weighted, weight + n_used, 0.0f);

  float divisor = 1.0f;
  if (a.renormalise != 0) {
    float sum = 0;
    for (uint64_t s = 0; s < n_used; ++s) sum += weight[s];
    divisor = std::max(sum, kSmallestDivisor);
  }
  for (uint64_t s = 0; s < n_used; ++s) weight[s] = weight[s] / divisor * a.scale;
  return usable;
}

}  // namespace

void moe_route(const kernels::MoeRouteArgs& a, Worker& w) {
  const kernels::StepState& step = *ptr(a.step);
  assert(a.n_used <= a.n_expert);
  assert(a.n_group == 0 || (a.n_group <= kernels::kMostGroups && a.n_expert % a.n_group == 0));
  assert(a.n_expert * (2 * sizeof(float) + sizeof(bool)) <= kScratchBytes);
  for (Chunk c; w.claim(step.n_tokens, 1, c);) {
    for (uint64_t t = c.begin; t < c.end; ++t) {
      if (!route(a, t, w.scratch<float>())) ptr(step.row_error)[t] = 1;
    }
  }
}

}  // namespace sluice::backend::cpu::reference
