// y[r] = W x[r], for few rows r.
// Layout row_major: x is f32, W is (m, k) as in the file. Layout panel16: x is q8 rows (lib/q8.h), W as quant/panel.h
// packs it; m is rounded up to 16 there, y is not. Sums depend on k alone: gemm gives the same bits. y may not
// alias x. On a GPU rows of x begin at multiples of 16 bytes where W has blocks. Grid: (ceil(m / 8), rows).
#pragma once
#include "lib/q8.h"
#include "lib/step.h"

KERNELS_BEGIN

PUB struct GemvArgs {
  PUB DEV_PTR(float) y;  // (rows, m)
  PUB DEV_PTR(uint) x;   // (rows, k) f32 or q8
  PUB DEV_PTR(uint) w;   // (m, k)
  PUB DEV_PTR(StepState) step;
  PUB Rows rows;
  PUB uint m;
  PUB uint k;
};
ARGS_FIT(GemvArgs)

KERNELS_END
