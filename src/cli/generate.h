// Prompt in, text out: the loop behind run, chat and routes.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "sluice/engine.h"
#include "sluice/sampler.h"
#include "sluice/speculate.h"

namespace sluice::cli {

struct Generation {
  std::vector<Token> tokens;  // without the end token
  std::string text;
  std::string stop;  // "eos", "length", "context" or "interrupted"
  uint32_t n_prompt = 0;
  uint32_t n_prefilled = 0;  // of the prompt; fewer where Ctrl-C came before
  uint32_t n_decoded = 0;    // tokens (an end token too) that the steps after it gave, in decode_seconds
  SpeculationCounts speculation;
  double prefill_seconds = 0, decode_seconds = 0;
};

struct GenerateOptions {
  int64_t n_predict = -1;  // -1: no limit
  bool show_special = false;
  bool routing = false;
  bool speculate = false;                                      // as far as the engine can take drafts back
  std::function<Result<void>(std::string_view text)> on_text;  // whole characters, as they come
  std::function<void(const Routing&)> on_routing;              // after every step, where asked for
};

// Appends the prompt and the answer to `sequence`; the end token is not appended. Ctrl-C ends it with what there is.
Result<Generation> generate(Engine& engine, Sequence& sequence, std::span<const Token> prompt, Sampler& sampler,
                            const GenerateOptions& options);

// What speculation did, for -v: "speculation: 12 steps for 40 tokens, 35 drafted, 28 of them right".
std::string speculation_text(const Generation& generation);

// An Error naming both numbers where the prompt, and `n_more` tokens after it, cannot be taken.
Result<void> check_fits(const Engine& engine, const Sequence& sequence, size_t n_prompt, size_t n_more = 0);

// NaN came out of the model, whatever the reason.
Error unusable_numbers();
// The step's row, or an Error where it is not usable.
Result<std::span<const float>> usable_row(const StepResult& step, size_t row);

}  // namespace sluice::cli
