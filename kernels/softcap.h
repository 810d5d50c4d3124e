// y = cap * tanh(y / cap), in place: logits that cannot pass cap. Gemma Team 2024.
// Grid: (ceil(n / 64), rows).
#pragma once
#include "lib/step.h"

KERNELS_BEGIN

PUB struct SoftcapArgs {
  PUB DEV_PTR(float) y;  // (rows, n)
  PUB DEV_PTR(StepState) step;
  PUB Rows rows;
  PUB uint n;
  PUB float cap;
};
ARGS_FIT(SoftcapArgs)

KERNELS_END
