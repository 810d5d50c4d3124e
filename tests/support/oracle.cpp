#include "support/oracle.h"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <nlohmann/json.hpp>

#include "sluice/gguf.h"
#include "sluice/npy.h"

namespace sluice::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

json read_json(const fs::path& path) {
  std::ifstream in(path);
  return json::parse(in);
}

fs::path beside(const fs::path& file, const std::string& ending) {
  return file.parent_path() / (file.stem().string() + ending);
}

bool supported(const fs::path& path) {
  const auto file = gguf::File::open(path.string());
  return file && model_support(*file).supported;
}

}  // namespace

std::vector<Token> ids(uint32_t seed, size_t n) {
  std::vector<Token> tokens;
  for (size_t i = 0; i < n; ++i)
    tokens.push_back(static_cast<Token>((seed = seed * 1664525u + 1013904223u) >> 8) % 300);
  return tokens;
}

std::vector<OracleModel> oracle_models() {
  fs::path folder = source_dir().parent_path() / "shared" / "oracle" / "models";
  if (!fs::exists(folder / "manifest.json")) folder = source_dir() / "tests" / "fixtures" / "oracle";
  std::vector<OracleModel> models;
  const json manifest = read_json(folder / "manifest.json");
  for (const auto& item : manifest.items()) {
    const json& entry = item.value();
    OracleModel model;
    model.name = item.key();
    model.architecture = entry.at("arch");
    std::string ending = model.name.substr(model.name.rfind('-') + 1);
    for (char& c : ending) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    if (find_type(ending) != nullptr) model.type = ending;
    model.file = folder / (model.name + ".gguf");
    const auto number = [&entry](const char* key) {
      return entry.contains(key) && entry[key].is_number() ? entry[key].get<double>() : 0.0;
    };
    model.row_median = number("nmse_llamacpp_row_median");
    model.forced = number("nmse_llamacpp_forced");
    if (supported(model.file)) models.push_back(std::move(model));
  }
  return models;
}

std::vector<Token> OracleModel::tokens(const std::string& part) const {
  return read_json(beside(file, part + ".tokens.json")).get<std::vector<Token>>();
}

bool OracleModel::has_long() const { return fs::exists(beside(file, ".long.tokens.json")); }

std::vector<Token> OracleModel::greedy() const {
  return read_json(beside(file, ".greedy.json")).at("tokens").get<std::vector<Token>>();
}

std::vector<float> OracleModel::logits(size_t& n_rows, size_t& n_vocab, const std::string& part) const {
  std::ifstream in(beside(file, part + ".logits.npy"), std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), {});
  auto array = parse_npy(std::as_bytes(std::span(bytes)));
  if (!array || array->shape.size() != 2) return {};
  n_rows = array->shape[0];
  n_vocab = array->shape[1];
  return std::move(array->f32);
}

Routing OracleModel::routing() const {
  Routing routing;
  const fs::path path = beside(file, ".routing.json");
  if (!fs::exists(path)) return routing;
  const json layers = read_json(path).at("layers");
  for (const auto& [index, entry] : layers.items()) {
    Routing::Layer layer;
    layer.n_used = entry.at("n_used");
    routing.n_used = std::max(routing.n_used, layer.n_used);
    routing.n_expert = entry.at("n_expert");
    for (const json& row : entry.at("experts")) {
      for (const json& id : row) layer.experts.push_back(id.get<uint32_t>());
    }
    for (const json& row : entry.at("weights")) {
      for (const json& weight : row) layer.weights.push_back(weight.get<float>());
    }
    routing.layers[static_cast<uint32_t>(std::stoul(index))] = std::move(layer);
  }
  return routing;
}

double nmse(std::span<const float> a, std::span<const float> reference) {
  double error = 0, norm = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double d = static_cast<double>(a[i]) - reference[i];
    error += d * d;
    norm += static_cast<double>(reference[i]) * reference[i];
  }
  return a.size() == reference.size() && norm > 0 ? error / norm : 1e30;
}

double row_median_nmse(std::span<const float> a, std::span<const float> reference, size_t n_columns) {
  std::vector<double> rows;
  for (size_t i = 0; i + n_columns <= reference.size(); i += n_columns) {
    rows.push_back(nmse(a.subspan(i, n_columns), reference.subspan(i, n_columns)));
  }
  std::sort(rows.begin(), rows.end());
  return rows.empty()      ? 1e30
         : rows.size() % 2 ? rows[rows.size() / 2]
                           : (rows[rows.size() / 2 - 1] + rows[rows.size() / 2]) / 2;
}

}  // namespace sluice::test
