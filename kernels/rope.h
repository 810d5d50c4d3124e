// Rotary positions (Su et al. 2021), in place: pairs (a, b) -> (a cos - b sin, a sin + b cos) for the first n_rot
// values of a head. style 0: pairs lie n_rot / 2 apart (halves); style 1: next to each other (interleaved). The table
// is made on the host: sines of large angles differ too much between devices. Grid: (ceil(n_rot / 2 / 32), n_head,
// n_tokens).
#pragma once
#include "lib/step.h"

KERNELS_BEGIN

PUB struct RopeArgs {
  PUB DEV_PTR(float) x;      // (n_tokens, n_head, d)
  PUB DEV_PTR(float) table;  // (n_ctx, n_rot / 2, 2): cos, sin of position and pair
  PUB DEV_PTR(StepState) step;
  PUB uint n_head;
  PUB uint d;
  PUB uint n_rot;  // <= d, even; values past it stay as they are
  PUB uint style;
};
ARGS_FIT(RopeArgs)

KERNELS_END
