// out[t] (+)= sum over slots s of weight[t][s] * z[t * n_used + s], slots in order; with a bias, z[e] +
// bias[sel_expert[e]] in the place of z[e], and with a scale weight[t][s] * scale[sel_expert[e]] in that of the weight.
// Grid: (ceil(m / 64), n_tokens) groups of 64. `out` may not alias `z`.
#pragma once
#include "lib/step.h"

KERNELS_BEGIN

PUB struct MoeCombineArgs {
  PUB DEV_PTR(float) out;        // (n_tokens, m)
  PUB DEV_PTR(float) z;          // (n_entries, m)
  PUB DEV_PTR(float) weight;     // (n_tokens, n_used)
  PUB DEV_PTR(float) bias;       // (n_expert, m) or null
  PUB DEV_PTR(float) scale;      // (n_expert) or null
  PUB DEV_PTR(uint) sel_expert;  // (n_entries), null where bias and scale are
  PUB DEV_PTR(StepState) step;
  PUB uint m;
  PUB uint n_used;
  PUB uint accumulate;  // 0: overwrite, 1: add to out (the residual stream, or a shared expert)
};
ARGS_FIT(MoeCombineArgs)

KERNELS_END
