// Gate logits -> the experts of every token and their weights.
//   probs:      softmax over all experts | sigmoid | (softmax_picked) the logits themselves
//   selection:  the n_used largest of probs + bias, best first; ties go to the lower id
//   groups:     where n_group is not 0, experts are that many groups of equal size, and those outside the n_group_used
//               best count as minus infinity; a group's score is the sum of its n_group_best (1 or 2) best probs +
//               bias, ties go to the lower group
//   weight:     probs of the picked ones, without the bias; softmax_picked: softmax over the picked logits (bias
//   included there) renormalise: weights divided by max(their sum, 2^-14); then all are multiplied by scale
// A NaN logit counts as minus infinity, plus infinity as the largest finite float. Where fewer than n_used are finite
// the rest get the lowest free ids with weight 0. A token without a finite logit (all NaN) gets weights 0 and sets
// step.row_error. A bias that is minus infinity or NaN keeps its expert from being picked before the others. Ids are
// distinct and < n_expert. With `forced` the ids are read from there, and weighted by the same rule. n_expert and
// n_used up to 4096 and 512 at least. Grid: (n_tokens) groups.
#pragma once
#include "lib/step.h"

KERNELS_BEGIN

#ifdef __SLANG__
public
static const uint kGateSoftmaxAll = 0;
public
static const uint kGateSigmoid = 1;
public
static const uint kGateSoftmaxPicked = 2;
public
static const uint kMostGroups = 256;
#else
inline constexpr uint kGateSoftmaxAll = 0;
inline constexpr uint kGateSigmoid = 1;
inline constexpr uint kGateSoftmaxPicked = 2;
inline constexpr uint kMostGroups = 256;
#endif

PUB struct MoeRouteArgs {
  PUB DEV_PTR(uint) sel_expert;  // (n_tokens, n_used)
  PUB DEV_PTR(float) weight;     // (n_tokens, n_used)
  PUB DEV_PTR(float) logits;     // (n_tokens, n_expert)
  PUB DEV_PTR(float) bias;       // (n_expert) or null
  PUB DEV_PTR(uint) forced;      // (n_tokens, n_used) or null
  PUB DEV_PTR(StepState) step;
  PUB uint n_expert;
  PUB uint n_used;
  PUB uint gate;
  PUB uint renormalise;
  PUB uint n_group;       // 0, or a divisor of n_expert, at most kMostGroups
  PUB uint n_group_used;  // 1 .. n_group
  PUB uint n_group_best;
  PUB float scale;
};
ARGS_FIT(MoeRouteArgs)

KERNELS_END
