// out[t] = scale * row token[t] of the embedding matrix.
// Grid: (ceil(k / 64), n_tokens). Ids are valid: the engine refuses others before a step.
#pragma once
#include "lib/step.h"

KERNELS_BEGIN

PUB struct EmbedArgs {
  PUB DEV_PTR(float) out;  // (n_tokens, k)
  PUB DEV_PTR(uint) w;     // (n_vocab, k) of the key's type and layout
  PUB DEV_PTR(StepState) step;
  PUB uint k;
  PUB float scale;
};
ARGS_FIT(EmbedArgs)

KERNELS_END
