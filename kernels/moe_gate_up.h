// y[e] = silu(Wg x[t]) * (Wu x[t]) for every entry e of token t = e / n_used, Wg and Wu being those of expert
// sel_expert[e]: moe_gemv or moe_gemm of two stacks and swiglu in one, with the same bits as those three. With `order`
// the entries come bucketed by moe_group, and an expert's weights are read once for all its entries. An address of 0
// means "not here" and leaves zeros. y, y_q8, types and layouts as gate_up. Grid: (ceil(m / 4), n_entries).
#pragma once
#include "lib/q8.h"
#include "lib/step.h"

KERNELS_BEGIN

PUB struct MoeGateUpArgs {
  PUB DEV_PTR(float) y;             // (n_entries, m) or null
  PUB DEV_PTR(uint) y_q8;           // (n_entries) of q8 rows, or null
  PUB DEV_PTR(uint) x;              // (n_tokens, k) f32 or q8
  PUB DEV_PTR(uint64_t) gate_addr;  // (n_expert) addresses of (m, k)
  PUB DEV_PTR(uint64_t) up_addr;    // (n_expert) addresses of (m, k)
  PUB DEV_PTR(uint) sel_expert;     // (n_entries)
  PUB DEV_PTR(uint) offsets;        // (n_expert + 1), by moe_group, or null
  PUB DEV_PTR(uint) order;          // (n_entries), by moe_group, or null
  PUB DEV_PTR(StepState) step;
  PUB uint m;
  PUB uint k;
  PUB uint n_used;
  PUB uint n_expert;
};
ARGS_FIT(MoeGateUpArgs)

KERNELS_END
