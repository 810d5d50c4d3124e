// y[r] = silu(Wg x[r]) * (Wu x[r]): gemv or gemm of two matrices and swiglu in one, with the same bits as those three.
// Both matrices have the key's type and layout. With `y_q8`, y goes there, as lib/q8.h has it, and `y` is null;
// m is then a multiple of 32. Grid: (ceil(m / 4), rows). y may not alias x.
#pragma once
#include "lib/q8.h"
#include "lib/step.h"

KERNELS_BEGIN

PUB struct GateUpArgs {
  PUB DEV_PTR(float) y;    // (rows, m) or null
  PUB DEV_PTR(uint) y_q8;  // (rows) of q8 rows, or null
  PUB DEV_PTR(uint) x;     // (rows, k) f32 or q8, as gemv has it
  PUB DEV_PTR(uint) gate;  // (m, k)
  PUB DEV_PTR(uint) up;    // (m, k)
  PUB DEV_PTR(StepState) step;
  PUB Rows rows;
  PUB uint m;
  PUB uint k;
};
ARGS_FIT(GateUpArgs)

KERNELS_END
