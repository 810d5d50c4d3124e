// y[e] = W[sel_expert[e]] x[row(e)] for every entry e; row(e) = e where x_by_entry is not 0, else e / n_used.
// The expert's weights lie at expert_addr[sel_expert[e]]; an address of 0 means "not here" and leaves zeros.
// Layouts and sums as gemv. Grid: (ceil(m / 8), n_entries). y may not alias x. The same expert may be picked twice by a
// token.
#pragma once
#include "lib/q8.h"
#include "lib/step.h"

KERNELS_BEGIN

PUB struct MoeGemvArgs {
  PUB DEV_PTR(float) y;               // (n_entries, m)
  PUB DEV_PTR(uint) x;                // (n_tokens or n_entries, k) f32 or q8
  PUB DEV_PTR(uint64_t) expert_addr;  // (n_expert) addresses of (m, k) of the key's type and layout
  PUB DEV_PTR(uint) sel_expert;       // (n_entries)
  PUB DEV_PTR(StepState) step;
  PUB uint m;
  PUB uint k;
  PUB uint n_used;
  PUB uint n_expert;
  PUB uint x_by_entry;
};
ARGS_FIT(MoeGemvArgs)

KERNELS_END
