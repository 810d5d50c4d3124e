// StepState: everything that changes from step to step. Arguments in a Plan never change; kernels read this instead.
//
// A step carries the tokens of several sequences, those of one sequence next to each other and in order.
#pragma once
#include "args.h"

// In Slang these types come from the module step, which kernels share; it alone reads the rest of this file.
#if defined(__SLANG__) && !defined(STEP_MODULE)
import step;
#else

KERNELS_BEGIN

// Positions of a sequence are stored in pages of this many tokens; attention sums in tiles of one page.
#ifdef __SLANG__
public
static const uint kPageTokens = 64;
#else
inline constexpr uint kPageTokens = 64;
#endif

// One sequence's share of a step.
PUB struct SeqSlice {
  PUB uint first_token;  // index of its first token in the step
  PUB uint n_tokens;
  PUB uint first_pos;   // position of that token in the sequence
  PUB uint state_slot;  // recurrent state: read at the start, replaced at the end
  PUB uint first_page;  // index into page_table of the page that holds position 0
  PUB uint reserved;
};

// How a wanted row becomes a token: kernels/sample_token.h. Shares are of 2^32.
PUB struct SamplingRule {
  PUB float temperature;     // <= 0: the most probable token
  PUB float repeat_penalty;  // of the ids below
  PUB uint first_penalty;    // index into penalty
  PUB uint n_penalties;
  PUB uint top_k;     // 0: all
  PUB uint top_p;     // a share; kTopPOff: all
  PUB float min_gap;  // how far below the top logit a candidate may lie; infinity: any way
  PUB uint draw;      // a share: the uniform number that decides
};

PUB struct Penalty {
  PUB uint id;       // no id comes twice in a row; one without a logit is skipped
  PUB float amount;  // off its logit, after the repeat penalty
};

PUB struct StepState {
  PUB DEV_PTR(uint) token;       // (n_tokens) vocabulary ids
  PUB DEV_PTR(uint) pos;         // (n_tokens) position in its sequence
  PUB DEV_PTR(uint) seq;         // (n_tokens) index into seqs
  PUB DEV_PTR(SeqSlice) seqs;    // (n_seqs)
  PUB DEV_PTR(uint) page_table;  // page ids: position p of a sequence lies in page_table[first_page + p / kPageTokens]
  PUB DEV_PTR(uint) out_token;   // (n_out) tokens whose logits are wanted
  PUB DEV_PTR(uint) row_error;   // (n_tokens) 0 at the start; a kernel that cannot compute a token's row sets it to 1
  PUB DEV_PTR(SamplingRule) rule;  // (n_out), for a step that samples
  PUB DEV_PTR(Penalty) penalty;    // those of all rules, one behind the other
  PUB uint n_tokens;
  PUB uint n_seqs;
  PUB uint n_out;
  PUB uint reserved;
  PUB DEV_PTR(uint) grids;  // codebooks of weight types: iq_grids.h
};

// The first position that the token at `pos` sees through a window of so many positions, itself among them; 0: of all.
#ifdef __SLANG__
public
uint first_seen(uint pos, uint window) { return window == 0 || pos < window ? 0 : pos - window + 1; }
#else
constexpr uint first_seen(uint pos, uint window) { return window == 0 || pos < window ? 0 : pos - window + 1; }
#endif

// Which rows a kernel walks: n_tokens or n_out of them, times `per` (heads, expert slots).
#ifdef __SLANG__
public
static const uint kRowsOfTokens = 0;
public
static const uint kRowsOfOut = 1;
#else
inline constexpr uint kRowsOfTokens = 0;
inline constexpr uint kRowsOfOut = 1;
#endif

PUB struct Rows {
  PUB uint of;   // kRowsOfTokens or kRowsOfOut
  PUB uint per;  // rows for each of them
};

KERNELS_END
#endif
