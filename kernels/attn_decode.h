// Causal softmax attention over the paged cache, for steps of few tokens:
//   out[t][h] = sum_p softmax_p(scale * q[t][h] . K[p][h / group]) V[p][h / group],  p = 0 .. pos[t],  group = n_head /
//   n_kv_head
// The cache already holds this step's own keys and values. Sums run over tiles of kPageTokens positions in order
// (online softmax, Milakov and Gimelshein 2018), so that a result depends on nothing but the position. `out` may not
// alias `q`; rows of one token's sequence past pos[t] are not read. Key: type = K's, variant = id of V's type. Grid:
// (n_kv_head, n_tokens).
#pragma once
#include "lib/step.h"

KERNELS_BEGIN

PUB struct AttnDecodeArgs {
  PUB DEV_PTR(float) out;     // (n_tokens, n_head, d_v)
  PUB DEV_PTR(float) q;       // (n_tokens, n_head, d_k)
  PUB DEV_PTR(uint) k_cache;  // (n_pages, n_kv_head, kPageTokens, d_k)
  PUB DEV_PTR(uint) v_cache;  // (n_pages, n_kv_head, kPageTokens, d_v)
  PUB DEV_PTR(StepState) step;
  PUB uint n_head;
  PUB uint n_kv_head;
  PUB uint d_k;
  PUB uint d_v;
  PUB float scale;
};
ARGS_FIT(AttnDecodeArgs)

KERNELS_END
