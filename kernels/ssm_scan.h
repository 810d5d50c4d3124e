// Mamba-2's recurrence (Dao and Gu 2024), token by token. For head h, group g = h / (n_head / n_group), with a state M
// (n_state, size):
//   dt = softplus(dt + dt_bias[h]);  M = exp(dt * a[h]) * M + dt * B[g] x[h]^T;  y[h] = M^T C[g] + d[h] * x[h]
// M comes from the sequence's state slot, a ring of states: row p % n_rows is M after position p, so the last n_rows -
// 1 tokens can be taken back by going on from an earlier position. Before position 0 M is 0, whatever the slot holds.
// The order of the sum depends on n_state alone, whatever the step. No two sequences of a step share a slot.
// Grid: (ceil(size / 64), n_head, n_seqs) or more; one worker walks all tokens of its columns of M.
#pragma once
#include "lib/step.h"

KERNELS_BEGIN

PUB struct SsmScanArgs {
  PUB DEV_PTR(float) y;        // (n_tokens, n_head, size)
  PUB DEV_PTR(float) xbc;      // (n_tokens, n_head * size + 2 * n_group * n_state): x, B, C
  PUB DEV_PTR(float) dt;       // n_tokens rows of dt_stride floats: (n_head) of each
  PUB DEV_PTR(float) dt_bias;  // (n_head)
  PUB DEV_PTR(float) a;        // (n_head)
  PUB DEV_PTR(float) d;        // (n_head)
  PUB DEV_PTR(float) state;    // this layer's part of slot 0: (n_rows, n_head, n_state, size)
  PUB DEV_PTR(StepState) step;
  PUB uint size;
  PUB uint n_state;
  PUB uint n_head;  // a multiple of n_group
  PUB uint n_group;
  PUB uint dt_stride;
  PUB uint slot_stride;  // floats from a slot to the next
  PUB uint n_rows;       // of a slot: at least 1
};
ARGS_FIT(SsmScanArgs)

KERNELS_END
