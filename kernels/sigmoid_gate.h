// y = y * sigmoid(gate), in place, for every head of a token; the gate's heads may lie apart.
// Grid: (ceil(n / 64), n_head, n_tokens). `gate` may not alias `y`.
#pragma once
#include "lib/step.h"

KERNELS_BEGIN

PUB struct SigmoidGateArgs {
  PUB DEV_PTR(float) y;     // (n_tokens, n_head, n)
  PUB DEV_PTR(float) gate;  // that of head h of token t begins at (t * n_head + h) * pitch: (n)
  PUB DEV_PTR(StepState) step;
  PUB uint n_head;
  PUB uint n;
  PUB uint pitch;
};
ARGS_FIT(SigmoidGateArgs)

KERNELS_END
