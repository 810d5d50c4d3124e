// y[r][i] = x[r][i] for i < n: columns of rows that may be longer, to columns of other rows. Words of any kind.
// y may not overlap x. An x_stride of 0 repeats one row. Grid: (ceil(n / 64), rows).
#pragma once
#include "lib/step.h"

KERNELS_BEGIN

PUB struct CopyColumnsArgs {
  PUB DEV_PTR(uint) y;  // (rows, y_stride), from the first column on
  PUB DEV_PTR(uint) x;  // (rows, x_stride), from the first column on
  PUB DEV_PTR(StepState) step;
  PUB Rows rows;
  PUB uint n;
  PUB uint y_stride;
  PUB uint x_stride;
};
ARGS_FIT(CopyColumnsArgs)

KERNELS_END
