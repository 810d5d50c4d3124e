#include "cli/json_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "cli/options.h"

namespace sluice::cli {
namespace {

using nlohmann::json;

Error bad_file(const std::string& path, std::string what) {
  return {Code::corrupt_file, fmt::format("{}: {}; see --help for the form", printable_path(path), what)};
}

Result<json> read_json(const std::string& path) {
  const std::string text = TRY(read_text_file(path, kMaxJson));
  json value = json::parse(text, nullptr, false);
  if (value.is_discarded()) return bad_file(path, "it is not valid JSON");
  return value;
}

// Whole numbers in [0, limit).
Result<uint32_t> index_of(const std::string& path, const json& value, uint64_t limit, std::string_view what) {
  if (!value.is_number_integer()) return bad_file(path, fmt::format("{} is not a whole number", what));
  const bool in_range = value.is_number_unsigned() ? value.get<uint64_t>() < limit : false;
  if (!in_range)
    return bad_file(path, fmt::format("{} is {}, but the model has 0 to {}", what, value.dump(), limit - 1));
  return static_cast<uint32_t>(value.get<uint64_t>());
}

// They are not used, but what is there must be what it says.
Result<void> check_weights(const std::string& path, const json& rows, const std::string& name, size_t n_used,
                           size_t n_tokens) {
  bool good = rows.is_array() && rows.size() == n_tokens;
  for (size_t i = 0; good && i < n_tokens; ++i) {
    good = rows[i].is_array() && rows[i].size() == n_used;
    for (size_t k = 0; good && k < n_used; ++k)
      good = rows[i][k].is_number() && std::isfinite(rows[i][k].get<double>());
  }
  if (good) return {};
  return bad_file(
      path, fmt::format("\"weights\" of layer {} is no array of {} rows of {} finite numbers", name, n_tokens, n_used));
}

Result<Routing::Layer> read_layer(const std::string& path, const json& layer, const std::string& name, Routing& routing,
                                  size_t n_tokens) {
  if (!layer.is_object() || !layer.contains("experts") || !layer["experts"].is_array())
    return bad_file(path, fmt::format("layer {} has no array \"experts\"", name));
  const json& rows = layer["experts"];
  if (rows.size() != n_tokens)
    return bad_file(path,
                    fmt::format("layer {} has experts for {} tokens, but there are {}", name, rows.size(), n_tokens));
  Routing::Layer out;
  for (const json& row : rows) {
    if (!row.is_array() || row.empty())
      return bad_file(path, fmt::format("a row of layer {} is no array of experts", name));
    if (out.n_used == 0) out.n_used = static_cast<uint32_t>(std::min<size_t>(row.size(), UINT32_MAX));
    if (row.size() != out.n_used)
      return bad_file(path, fmt::format("layer {} has rows of {} and of {} experts", name, out.n_used, row.size()));
    for (const json& expert : row) out.experts.push_back(TRY(index_of(path, expert, routing.n_expert, "an expert")));
    std::vector<uint32_t> sorted(out.experts.end() - static_cast<ptrdiff_t>(row.size()), out.experts.end());
    std::sort(sorted.begin(), sorted.end());
    if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end())
      return bad_file(path, fmt::format("a row of layer {} names an expert twice", name));
  }
  if (layer.contains("weights")) TRY(check_weights(path, layer["weights"], name, out.n_used, n_tokens));
  routing.n_used = std::max(routing.n_used, out.n_used);
  return out;
}

}  // namespace

Result<std::vector<Token>> read_ids(const std::string& path, uint32_t n_vocab) {
  const json value = TRY(read_json(path));
  if (!value.is_array()) return bad_file(path, "it is no array of token ids");
  if (value.empty()) return bad_file(path, "the array is empty, but at least one token id is needed");
  std::vector<Token> ids;
  for (const json& id : value) ids.push_back(static_cast<Token>(TRY(index_of(path, id, n_vocab, "a token id"))));
  return ids;
}

Result<std::vector<std::string>> read_strings(const std::string& path) {
  const json value = TRY(read_json(path));
  if (!value.is_array()) return bad_file(path, "it is no array of strings");
  std::vector<std::string> texts;
  for (const json& text : value) {
    if (!text.is_string()) return bad_file(path, "it holds something that is no string");
    texts.push_back(text.get<std::string>());
  }
  return texts;
}

Result<Routing> read_routing(const std::string& path, const ModelInfo& model, size_t n_tokens) {
  const json value = TRY(read_json(path));
  if (!value.is_object() || !value.contains("layers") || !value["layers"].is_object())
    return bad_file(path, "it has no object \"layers\"");
  Routing routing{.n_expert = model.n_expert};
  for (const auto& [name, layer] : value["layers"].items()) {
    uint32_t idx = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), idx);
    const bool known = error == std::errc() && end == name.data() + name.size() &&
                       std::find(model.moe_layers.begin(), model.moe_layers.end(), idx) != model.moe_layers.end();
    if (!known) return bad_file(path, fmt::format("'{}' is no routed layer of this model", printable(name)));
    routing.layers[idx] = TRY(read_layer(path, layer, printable(name), routing, n_tokens));
  }
  return routing;
}

}  // namespace sluice::cli
