#include "sluice/perplexity.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace sluice {
namespace {

// Logits of this many bytes are asked for at a time.
constexpr uint64_t kLogitsBytes = 64u << 20;
constexpr uint32_t kChunk = 512;

// -log of the probability that a softmax of `logits` gives to `target`.
double negative_log_likelihood(std::span<const float> logits, Token target) {
  double max = -INFINITY;
  for (const float x : logits) max = std::max(max, double(x));
  double sum = 0;
  for (const float x : logits) sum += std::exp(double(x) - max);
  return max + std::log(sum) - double(logits[static_cast<size_t>(target)]);
}

struct Sums {
  double nll = 0, squares = 0;
  uint64_t n = 0;

  void add(double value) {
    nll += value;
    squares += value * value;
    ++n;
  }
};

// Scores tokens [first_scored, window.size()) of one window.
Result<void> score_window(Engine& engine, Sequence& sequence, std::span<const Token> window, size_t first_scored,
                          const StepOptions& step, Sums& sums) {
  TRY(sequence.truncate(0));
  const uint64_t n_vocab = std::max<uint32_t>(engine.model().n_vocab, 1);
  const size_t chunk = std::clamp<uint64_t>(kLogitsBytes / (4 * n_vocab), 16, kChunk);
  const size_t n_computed = window.size() - 1;  // nothing follows the last token
  const size_t first_row = first_scored - 1;
  for (size_t at = 0; at < n_computed;) {
    const bool wanted = at >= first_row;
    const size_t n = std::min(chunk, (wanted ? n_computed : first_row) - at);
    const StepResult result = TRY(engine.step(
        {{.sequence = &sequence, .tokens = window.subspan(at, n), .logits = wanted ? Logits::all : Logits::none}},
        step));
    for (size_t i = 0; wanted && i < n; ++i) {
      const double nll = negative_log_likelihood(result.row(i), window[at + i + 1]);
      if (result.row_failed[i] != 0 || std::isnan(nll))
        return Error{Code::internal,
                     "the model gave no usable numbers (NaN) for this text; its file may be damaged, or a value is too "
                     "large for the arithmetic: try --reference"};
      sums.add(nll);
    }
    at += n;
  }
  return {};
}

}  // namespace

std::vector<Token> perplexity_tokens(const Tokenizer& tokenizer, std::string_view text, const PerplexityText& options) {
  const EncodeOptions encode{.add_bos = options.add_bos, .parse_special = options.parse_special};
  if (options.separator.empty()) return tokenizer.encode(text, encode);
  while (text.ends_with('\n')) text.remove_suffix(1);
  const std::string between = "\n" + options.separator + "\n";
  std::vector<Token> tokens;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(between, at), text.size());
    const auto document = tokenizer.encode(text.substr(at, end - at), encode);
    tokens.insert(tokens.end(), document.begin(), document.end());
    at = end + between.size();
  }
  return tokens;
}

Result<PerplexityResult> perplexity(Engine& engine, std::span<const Token> tokens, const PerplexityOptions& options) {
  const size_t n_window = options.n_window;
  if (n_window < 4 || n_window > engine.info().n_ctx)
    return Error{Code::unsupported,
                 fmt::format("a window of {} tokens does not fit a context of {}; choose from 4 to that with -c",
                             n_window, engine.info().n_ctx)};
  if (tokens.size() < (options.score_all ? 2 : n_window))
    return Error{Code::unsupported,
                 fmt::format("the text has {} tokens, too few for a window of {}; give a longer text or a smaller -c",
                             tokens.size(), n_window)};
  Sequence sequence = TRY(engine.new_sequence());
  Sums sums;
  PerplexityResult result;
  std::vector<Token> window;
  for (size_t start = 0; start < tokens.size(); start += n_window) {
    const size_t n = std::min(n_window, tokens.size() - start);
    if (n < (options.score_all ? 2 : n_window)) break;
    window.assign(tokens.begin() + static_cast<ptrdiff_t>(start), tokens.begin() + static_cast<ptrdiff_t>(start + n));
    if (options.window_bos >= 0) window[0] = options.window_bos;
    StepOptions step;
    uint64_t done_before = start;
    step.on_progress = [&](uint32_t done, uint32_t) {
      return !options.on_progress || options.on_progress(done_before + done, tokens.size());
    };
    // Half: tokens after the middle, whose logits all have at least half a window behind them.
    TRY(score_window(engine, sequence, window, options.score_all ? 1 : n_window / 2 + 1, step, sums));
    ++result.n_windows;
    if (options.on_progress && !options.on_progress(start + n, tokens.size()))
      return Error{Code::cancelled, "interrupted; start again"};
  }
  const double mean = sums.nll / double(sums.n);
  const double variance = std::max(0.0, sums.squares / double(sums.n) - mean * mean);
  result.nll = mean;
  result.perplexity = std::exp(mean);
  result.standard_error = sums.n > 1 ? std::sqrt(variance / double(sums.n - 1)) * result.perplexity : 0.0;
  result.n_tokens = sums.n;
  return result;
}

}  // namespace sluice
