// Causal softmax attention over the paged cache, for steps of few tokens:
//   out[t][h] = sum_p softmax_p(scale * q[t][h] . K[p][h / group]) V[p][h / group],  p = first .. pos[t],  group =
//   n_head / n_kv_head;  first = 0, or with a window max(0, pos[t] - window + 1)
// With sinks the softmax has one more term, exp(sinks[h]), which no value goes with. The cache already holds this
// step's own keys and values. Sums run over tiles of kPageTokens positions in order (online softmax, Milakov and
// Gimelshein 2018), so that a result depends on nothing but the position; the sink comes last. `out` may not alias `q`;
// pages past pos[t] or before a token's first position are not read. Key: type = K's, variant = id of V's type. Grid:
// (n_kv_head, n_tokens).
#pragma once
#include "lib/step.h"

KERNELS_BEGIN

PUB struct AttnDecodeArgs {
  PUB DEV_PTR(float) out;     // (n_tokens, n_head, d_v)
  PUB DEV_PTR(float) q;       // (n_tokens, n_head, d_k)
  PUB DEV_PTR(uint) k_cache;  // (n_pages, n_kv_head, kPageTokens, d_k)
  PUB DEV_PTR(uint) v_cache;  // (n_pages, n_kv_head, kPageTokens, d_v)
  PUB DEV_PTR(float) sinks;   // (n_head) or null
  PUB DEV_PTR(StepState) step;
  PUB uint n_head;
  PUB uint n_kv_head;
  PUB uint d_k;
  PUB uint d_v;
  PUB uint window;  // positions that a token sees, itself among them; 0: all
  PUB float scale;  // > 0
};
ARGS_FIT(AttnDecodeArgs)

KERNELS_END
