// out[r] = the token that rule r of the step draws from row r of the logits; 0xFFFFFFFF where the row holds a NaN or no
// finite value, or where its penalties leave nothing. First the penalties are taken off in place: a positive logit is
// divided by repeat_penalty, another one multiplied by it; then `amount` is subtracted. What becomes NaN becomes -inf.
//
// Candidates lie in an order: falling logit, then rising id; a logit of -inf is none. Each filter keeps a front of it:
//   top-k: the first top_k; top-p: of those as many as hold the share top_p of the mass; min-p: those whose logit is
//   at most min_gap below the top. Masses for top-p are at temperature 1.
// Then out[r] is the first candidate whose mass, with that of all before it, is more than the share `draw` of the mass
// that is left, at the rule's temperature.
//
// The mass of a candidate is floor(2^40 * exp((logit - top) / temperature)), 2^40 for the top itself; sums are exact,
// and a share of a mass is floor(mass * share / 2^32). n_vocab: 1 to kMostSampled. Grid: (1, n_out) groups, one per
// row.
#pragma once
#include "lib/step.h"

KERNELS_BEGIN

// In place of a share: top_p is 1 or more.
#ifdef __SLANG__
public
static const uint kTopPOff = 0xffffffff;
#else
inline constexpr uint kTopPOff = 0xffffffff;
inline constexpr uint kMostSampled =
    1u << 20;  // so that sums of masses fit 64 bits; hosts sample longer rows themselves
#endif

PUB struct SampleTokenArgs {
  PUB DEV_PTR(uint) out;      // (n_out)
  PUB DEV_PTR(float) logits;  // (n_out, n_vocab)
  PUB DEV_PTR(StepState) step;
  PUB uint n_vocab;
};
ARGS_FIT(SampleTokenArgs)

KERNELS_END
