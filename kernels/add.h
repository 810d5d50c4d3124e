// y = a + b. y may alias either. Grid: (ceil(n / 64), rows).
#pragma once
#include "lib/step.h"

KERNELS_BEGIN

PUB struct AddArgs {
  PUB DEV_PTR(float) y;  // (rows, n)
  PUB DEV_PTR(float) a;  // (rows, n)
  PUB DEV_PTR(float) b;  // (rows, n)
  PUB DEV_PTR(StepState) step;
  PUB Rows rows;
  PUB uint n;
};
ARGS_FIT(AddArgs)

KERNELS_END
