// attn_decode in parts, so that a long cache keeps a whole device busy: the sums over one range of kRangeTokens
// positions each. attn_merge adds them up. part[t][h][r] holds, over the positions p of range r that token t sees,
//   sum_p exp(s_p - most) V[p] (d_v of them),  most = max_p s_p,  sum_p exp(s_p - most);  s_p = scale * q[t][h] . K[p]
// Ranges of which it sees none are not written. Names, shapes, key and rules as attn_decode; d_k and d_v are multiples
// of 4, rows of q begin at multiples of 16 bytes. Grid: (n_kv_head, n_tokens, n_ranges).
#pragma once
#include "lib/step.h"

KERNELS_BEGIN

#ifdef __SLANG__
public
static const uint kRangeTokens = 2 * kPageTokens;
#else
inline constexpr uint kRangeTokens = 2 * kPageTokens;
#endif

PUB struct AttnSplitArgs {
  PUB DEV_PTR(float) part;    // (n_tokens, n_head, n_ranges, d_v + 2)
  PUB DEV_PTR(float) q;       // (n_tokens, n_head, d_k)
  PUB DEV_PTR(uint) k_cache;  // (n_pages, n_kv_head, kPageTokens, d_k)
  PUB DEV_PTR(uint) v_cache;  // (n_pages, n_kv_head, kPageTokens, d_v)
  PUB DEV_PTR(StepState) step;
  PUB uint n_head;
  PUB uint n_kv_head;
  PUB uint d_k;
  PUB uint d_v;
  PUB uint n_ranges;  // at least those of every token
  PUB uint window;    // as attn_decode
  PUB float scale;
};
ARGS_FIT(AttnSplitArgs)

KERNELS_END
