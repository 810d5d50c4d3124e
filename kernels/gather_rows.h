// out[i] = x[out_token[i]]: the rows whose logits are wanted. A token with row_error set gets NaN: its logits say that
// it failed, and no extra read does. Grid: (ceil(n / 64), n_out). `out` may not alias `x`.
#pragma once
#include "lib/step.h"

KERNELS_BEGIN

PUB struct GatherRowsArgs {
  PUB DEV_PTR(float) out;  // (n_out, n)
  PUB DEV_PTR(float) x;    // (n_tokens, n)
  PUB DEV_PTR(StepState) step;
  PUB uint n;
};
ARGS_FIT(GatherRowsArgs)

KERNELS_END
