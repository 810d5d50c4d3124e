// JSON files that users give: ids, texts, expert choices.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "sluice/engine.h"

namespace sluice::cli {

// An array of ids, each in [0, n_vocab).
Result<std::vector<Token>> read_ids(const std::string& path, uint32_t n_vocab);
// An array of strings.
Result<std::vector<std::string>> read_strings(const std::string& path);
// {"layers": {"LAYER": {"experts": [n_tokens][n_used], ...}}}, checked against the model and the number of tokens.
Result<Routing> read_routing(const std::string& path, const ModelInfo& model, size_t n_tokens);

}  // namespace sluice::cli
