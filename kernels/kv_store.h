// cache[page of pos[t]][head][pos[t] % kPageTokens] = x[t][head], in the key's type.
// Grid: (n_kv_head, n_tokens). One launch for K, one for V.
#pragma once
#include "lib/step.h"

KERNELS_BEGIN

PUB struct KvStoreArgs {
  PUB DEV_PTR(uint) cache;  // (n_pages, n_kv_head, kPageTokens, d) of the key's type
  PUB DEV_PTR(float) x;     // (n_tokens, n_kv_head, d)
  PUB DEV_PTR(StepState) step;
  PUB uint n_kv_head;
  PUB uint d;  // a multiple of the type's block
};
ARGS_FIT(KvStoreArgs)

KERNELS_END
