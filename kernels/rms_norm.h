// h = x (+ add); y = h / sqrt(mean(h^2) + eps) * w, one row at a time. Zhang and Sennrich 2019.
// With `add`, h is also written to `sum` (the residual stream). y may alias x; sum may alias x or add.
// With `y_q8`, y is written there too, as lib/q8.h has it; then y itself may be null.
// Grid: (1, rows) groups, one per row.
#pragma once
#include "lib/step.h"

KERNELS_BEGIN

PUB struct RmsNormArgs {
  PUB DEV_PTR(float) y;    // (rows, n) or null
  PUB DEV_PTR(uint) y_q8;  // (rows) of q8 rows, or null; n is a multiple of 32 where it is not
  PUB DEV_PTR(float) x;    // (rows, n)
  PUB DEV_PTR(float) add;  // (rows, n) or null
  PUB DEV_PTR(float) sum;  // (rows, n), null where add is
  PUB DEV_PTR(float) w;    // (n)
  PUB DEV_PTR(StepState) step;
  PUB Rows rows;
  PUB uint n;
  PUB float eps;
};
ARGS_FIT(RmsNormArgs)

KERNELS_END
