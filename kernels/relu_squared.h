// y = max(x, 0)^2: the activation of experts that have no gate matrix. So et al. 2021.
// With `y_q8`, y is written there too, as lib/q8.h has it; then y itself may be null. y may alias x.
// Grid: (ceil(n / 64), rows).
#pragma once
#include "lib/q8.h"
#include "lib/step.h"

KERNELS_BEGIN

PUB struct ReluSquaredArgs {
  PUB DEV_PTR(float) y;    // (rows, n) or null
  PUB DEV_PTR(uint) y_q8;  // (rows) of q8 rows, or null; n is a multiple of 32 where it is not
  PUB DEV_PTR(float) x;    // (rows, n)
  PUB DEV_PTR(StepState) step;
  PUB Rows rows;
  PUB uint n;
};
ARGS_FIT(ReluSquaredArgs)

KERNELS_END
