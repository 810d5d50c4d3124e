// A text as one vector: the model's final states, pooled.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "sluice/engine.h"

namespace sluice {

// none: one vector per token. cls: the first token's; last: the last one's, which has seen the whole text.
enum class Pooling : uint8_t { none, mean, cls, last };

// "none", "mean", "cls" or "last"; otherwise `invalid_argument`.
Result<Pooling> parse_pooling(std::string_view name);
// As the file says (ARCHITECTURE.pooling_type); last where it does not. `unsupported` for a file that ranks texts.
Result<Pooling> default_pooling(const ModelInfo& model);

struct EmbedOptions {
  Pooling pooling = Pooling::last;
  bool normalise = true;                                                         // every vector to length 1
  std::function<bool(uint64_t done_tokens, uint64_t total_tokens)> on_progress;  // false cancels
};

// (1, n_embd), or (n_tokens, n_embd) without pooling, computed in `sequence`, which is emptied first. Errors as of
// Engine::step; `unsupported` where the model's numbers are not usable (NaN).
Result<std::vector<float>> embed(Engine& engine, Sequence& sequence, std::span<const Token> tokens,
                                 const EmbedOptions& options = {});

}  // namespace sluice
