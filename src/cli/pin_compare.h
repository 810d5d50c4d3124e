// The comparisons of `sluice pin`: one engine against the reference, on the same tokens.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "sluice/engine.h"

namespace sluice::cli {

// Everything that an engine computes from the tokens.
struct PinRun {
  std::vector<float> logits;      // (n_tokens, n_vocab)
  Routing routing;                // with gates and scores
  std::vector<Token> greedy;      // the continuation
  double reads = 0, submits = 0;  // per token of it
};
// With `forced`, its experts are taken and there is no continuation.
Result<PinRun> pin_run(Engine& engine, std::span<const Token> tokens, uint32_t n_greedy, const Routing* forced);

struct PinLayer {
  uint32_t layer = 0;
  double gate_nmse = 0;      // with the reference's routing
  uint64_t n_near_ties = 0;  // tokens whose last choice hangs on less than the two engines' difference
  uint64_t n_flips = 0;      // experts that the reference did not pick
  // Of them: picked over another whose score was better by more than the two engines' scores differ.
  uint64_t n_unexplained = 0;
};

struct PinResult {
  double replayed_nmse = 0, free_nmse = 0;  // of the logits
  std::vector<PinLayer> layers;
  uint64_t n_choices = 0;  // (token, slot, layer)
  uint32_t n_greedy = 0, n_greedy_equal = 0;
  double reads = 0, submits = 0;

  PinLayer total() const;
  // What is wrong; empty: nothing.
  std::vector<std::string> faults(double max_nmse) const;
};
// `replayed`: with the reference's experts; `own`: with those that the engine picked.
PinResult pin_compare(const PinRun& reference, const PinRun& replayed, const PinRun& own);

}  // namespace sluice::cli
