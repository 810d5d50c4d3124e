// How well a model predicts a text.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/engine.h"

namespace sluice {

struct PerplexityText {
  bool add_bos = true;         // BOS first, where the model adds one
  bool parse_special = false;  // texts of control tokens become them
  // Not empty: the text holds several documents with this line between them. Each is encoded alone, with its own BOS.
  std::string separator;
};

// The tokens of a text to measure.
std::vector<Token> perplexity_tokens(const Tokenizer& tokenizer, std::string_view text, const PerplexityText& options);

struct PerplexityOptions {
  uint32_t n_window = 512;
  // false: whole windows, the second half of each is scored; true: every token but the first of a window is, and the
  // last window may be shorter.
  bool score_all = false;
  Token window_bos = -1;  // >= 0: takes the place of each window's first token
  std::function<bool(uint64_t done_tokens, uint64_t total_tokens)> on_progress;  // false cancels
};

struct PerplexityResult {
  double perplexity = 0;
  double nll = 0;             // mean negative log-likelihood, natural logarithm
  double standard_error = 0;  // of the perplexity
  uint64_t n_tokens = 0;      // scored
  uint32_t n_windows = 0;
};

// Windows one after the other, each from an empty sequence.
Result<PerplexityResult> perplexity(Engine& engine, std::span<const Token> tokens, const PerplexityOptions& options);

}  // namespace sluice
