// y = a + b; where b_is_row is not 0, b is one row that is added to each of a. y may alias a, and b where it has as
// many rows. Grid: (ceil(n / 64), rows).
#pragma once
#include "lib/step.h"

KERNELS_BEGIN

PUB struct AddArgs {
  PUB DEV_PTR(float) y;  // (rows, n)
  PUB DEV_PTR(float) a;  // (rows, n)
  PUB DEV_PTR(float) b;  // (rows, n), or (n)
  PUB DEV_PTR(StepState) step;
  PUB Rows rows;
  PUB uint n;
  PUB uint b_is_row;
};
ARGS_FIT(AddArgs)

KERNELS_END
