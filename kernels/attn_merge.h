// out[t][h] from the parts that attn_split wrote: sum_r e_r part[r] / sum_r e_r sum[r], e_r = exp(most[r] - max most),
// over the ranges r that hold positions which the token sees (attn_decode.h), in order. With sinks exp(sinks[h] - max
// most) is added to the divisor last. d_v up to 1024. Grid: (n_head, n_tokens).
#pragma once
#include "attn_split.h"

KERNELS_BEGIN

PUB struct AttnMergeArgs {
  PUB DEV_PTR(float) out;    // (n_tokens, n_head, d_v)
  PUB DEV_PTR(float) part;   // (n_tokens, n_head, n_ranges, d_v + 2)
  PUB DEV_PTR(float) sinks;  // (n_head) or null
  PUB DEV_PTR(StepState) step;
  PUB uint n_head;
  PUB uint d_v;
  PUB uint n_ranges;
  PUB uint window;
};
ARGS_FIT(AttnMergeArgs)

KERNELS_END
