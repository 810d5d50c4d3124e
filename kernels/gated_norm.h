// RMSNorm of every head of a token by itself, with a gate:
//   gate_first 0: y = x / sqrt(mean(x^2) + eps) * w * silu(z)
//   gate_first 1: h = x * silu(z);  y = h / sqrt(mean(h^2) + eps) * w
// Without z: y = x / sqrt(mean(x^2) + eps) * w. Heads of x may lie apart, those of z and y lie next to each other.
// y may alias x where x's heads lie as y's do. Grid: (n_head, n_tokens) groups.
#pragma once
#include "lib/step.h"

KERNELS_BEGIN

PUB struct GatedNormArgs {
  PUB DEV_PTR(float) y;  // (n_tokens, n_head, n)
  PUB DEV_PTR(float) x;  // head h of token t begins at (t * n_head + h) * x_pitch
  PUB DEV_PTR(float) z;  // that of token t begins at t * z_stride: (n_head, n); or null
  PUB DEV_PTR(float) w;  // (n_w, n): head h takes row h % n_w
  PUB DEV_PTR(StepState) step;
  PUB uint n_head;
  PUB uint n;
  PUB uint n_w;
  PUB uint x_pitch;
  PUB uint z_stride;
  PUB uint gate_first;
  PUB float eps;
};
ARGS_FIT(GatedNormArgs)

KERNELS_END
