// A causal convolution of every channel by itself, with state, in one of two forms:
//   gated (LFM2's): x holds b, c, x;  u[t] = b[t] * x[t];  y[t] = c[t] * s[t]
//   silu:           u[t] = x[t];  y[t] = silu(s[t] + bias)
// where s[t] = sum_{j < l} w[j] * u[t - (l - 1) + j].
// u before the step comes from the sequence's state slot, which afterwards holds the last n_rows values of u: a ring
// whose row p % n_rows is u at position p. With more rows than l - 1 the last n_rows - (l - 1) tokens can be taken back
// by going on from an earlier position. u before position 0 is 0, whatever the slot holds. `y` may not alias `x`; no
// two sequences of a step share a slot. Grid: (ceil(n / 64), n_seqs) or more; one worker walks all tokens of its
// channels, so that no slot is read after it is replaced.
#pragma once
#include "lib/step.h"

KERNELS_BEGIN

#ifdef __SLANG__
public
static const uint kConvGated = 0;
public
static const uint kConvSilu = 1;
#else
inline constexpr uint kConvGated = 0;
inline constexpr uint kConvSilu = 1;
#endif

PUB struct Conv1dArgs {
  PUB DEV_PTR(float) y;      // (n_tokens, n)
  PUB DEV_PTR(float) x;      // rows of `stride` floats, n_tokens of them: (3, n) of each, or n
  PUB DEV_PTR(float) w;      // (n, l)
  PUB DEV_PTR(float) bias;   // (n) or null
  PUB DEV_PTR(float) state;  // this layer's part of slot 0: (n_rows, n)
  PUB DEV_PTR(StepState) step;
  PUB uint n;
  PUB uint l;
  PUB uint slot_stride;  // floats from a slot to the next
  PUB uint n_rows;       // of a slot: at least l - 1
  PUB uint stride;
  PUB uint form;
};
ARGS_FIT(Conv1dArgs)

KERNELS_END
