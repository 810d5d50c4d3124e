// out[r] = x[r] in 8 bits, as lib/q8.h has it.
// Grid: (ceil(k / 32), rows). `out` may not alias `x`.
#pragma once
#include "lib/q8.h"
#include "lib/step.h"

KERNELS_BEGIN

PUB struct QuantizeQ8Args {
  PUB DEV_PTR(uint) out;  // (rows) of q8_row_bytes(k)
  PUB DEV_PTR(float) x;   // (rows, k)
  PUB DEV_PTR(StepState) step;
  PUB Rows rows;
  PUB uint k;
};
ARGS_FIT(QuantizeQ8Args)

KERNELS_END
