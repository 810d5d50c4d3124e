// out[r] = the id of the largest logit of row r; ties go to the lower id. A NaN never wins; a row that holds nothing
// else, such as gather_rows makes of a token that failed, gives 0xFFFFFFFF. Grid: (1, n_out) groups, one per row.
#pragma once
#include "lib/step.h"

KERNELS_BEGIN

PUB struct ArgmaxArgs {
  PUB DEV_PTR(uint) out;      // (n_out)
  PUB DEV_PTR(float) logits;  // (n_out, n_vocab)
  PUB DEV_PTR(StepState) step;
  PUB uint n_vocab;
};
ARGS_FIT(ArgmaxArgs)

KERNELS_END
