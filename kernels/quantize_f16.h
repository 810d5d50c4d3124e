// out[r] = x[r] in 16 bits, as lib/f16_row.h has it.
// Grid: (1, rows). `out` may not alias `x`.
#pragma once
#include "lib/f16_row.h"
#include "lib/step.h"

KERNELS_BEGIN

PUB struct QuantizeF16Args {
  PUB DEV_PTR(uint) out;  // (rows) of f16_row_bytes(k)
  PUB DEV_PTR(float) x;   // (rows, k)
  PUB DEV_PTR(StepState) step;
  PUB Rows rows;
  PUB uint k;
};
ARGS_FIT(QuantizeF16Args)

KERNELS_END
