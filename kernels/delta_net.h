// The gated delta rule (Yang, Kautz, Hatamizadeh 2024), token by token. For value head h and its key head g, with a
// state M (key, value):
//   M = exp(a[h] * softplus(alpha + dt_bias[h])) * M;  d = sigmoid(beta) * (v - k^T M);  M = M + k d^T
//   y = q^T M / sqrt(size)
// where q and k are divided by sqrt(sum of squares + eps) first. Value heads are `tiled` over key heads (g = h % n_key;
// beta and alpha are (n_tokens, n_value) each) or `grouped` (g = h / r with r = n_value / n_key; beta points to
// (n_tokens, n_key, 2, r): r betas, then r alphas, and alpha is null).
// M comes from the sequence's state slot, a ring of states: row p % n_rows is M after position p, so the last n_rows -
// 1 tokens can be taken back by going on from an earlier position. Before position 0 M is 0, whatever the slot holds.
// The order of the sums depends on the size alone, whatever the step. No two sequences of a step share a slot.
// Grid: (ceil(size / 64), n_value, n_seqs) or more; one worker walks all tokens of its columns of M.
#pragma once
#include "lib/step.h"

KERNELS_BEGIN

#ifdef __SLANG__
public
static const uint kValueHeadsTiled = 0;
public
static const uint kValueHeadsGrouped = 1;
#else
inline constexpr uint kValueHeadsTiled = 0;
inline constexpr uint kValueHeadsGrouped = 1;
#endif

PUB struct DeltaNetArgs {
  PUB DEV_PTR(float) y;        // (n_tokens, n_value, size)
  PUB DEV_PTR(float) qkv;      // (n_tokens, 2 * n_key + n_value, size): q, k, v
  PUB DEV_PTR(float) beta;     // see above
  PUB DEV_PTR(float) alpha;    // see above
  PUB DEV_PTR(float) a;        // (n_value)
  PUB DEV_PTR(float) dt_bias;  // (n_value)
  PUB DEV_PTR(float) state;    // this layer's part of slot 0: (n_rows, n_value, size, size)
  PUB DEV_PTR(StepState) step;
  PUB uint size;
  PUB uint n_key;
  PUB uint n_value;      // a multiple of n_key
  PUB uint heads;        // kValueHeads..
  PUB uint slot_stride;  // floats from a slot to the next
  PUB uint n_rows;       // of a slot: at least 1
  PUB float eps;
};
ARGS_FIT(DeltaNetArgs)

KERNELS_END
