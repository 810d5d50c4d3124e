// attn_decode for steps of many tokens: the same sums in the same order, computed in tiles of query tokens, so that a
// page of the cache is read once per tile. Key as attn_decode. Grid: (n_kv_head, ceil(n_tokens / 16)).
// Matrix variant (backend.h), F16 alone: d_k and d_v are multiples of 16, at most 128. Grid: (n_kv_head, ceil(n_tokens
// * group / 64)).
#pragma once
#include "attn_decode.h"

KERNELS_BEGIN

typedef AttnDecodeArgs AttnPrefillArgs;

KERNELS_END
