// What a file says of itself, without loading its weights.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "backend/registry.h"
#include "base/text.h"
#include "engine/core.h"
#include "quant/quant.h"

namespace sluice {
namespace engine {

ModelInfo describe_model(const gguf::File& file, const models::Config& config) {
  ModelInfo info;
  info.path = file.path();
  info.architecture = config.architecture;
  info.name = printable(file.get_string("general.name").has_value() ? *file.get_string("general.name") : "");
  info.n_layer = config.n_layer;
  info.n_embd = config.n_embd;
  info.n_vocab = config.n_vocab;
  info.n_ctx_train = config.n_ctx_train;
  info.n_expert = config.n_expert;
  info.n_expert_used = config.n_expert_used;
  for (uint32_t i = 0; i < config.n_layer; ++i) {
    if (config.layers[i].moe) info.moe_layers.push_back(i);
  }
  if (const auto pooling = file.get_uint(config.architecture + ".pooling_type"))
    info.pooling_type = static_cast<int32_t>(std::min<uint64_t>(*pooling, INT32_MAX));
  info.file_bytes = file.file_bytes();
  const bool tied = file.find_tensor("output.weight") == nullptr;
  double bytes_per_token = 0, used = 0;
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    double share = 1;
    if (tensor.name.find("_exps.") != tensor.name.npos && config.n_expert != 0) {
      unsigned layer = 0;
      const bool known = std::sscanf(tensor.name.c_str(), "blk.%u.", &layer) == 1 && layer < config.n_layer;
      share = static_cast<double>(known ? config.layers[layer].n_expert_used : config.n_expert_used) / config.n_expert;
    }
    info.n_parameters += tensor.n_elements;
    used += share * static_cast<double>(tensor.n_elements);
    // Of a separate embedding matrix one row is read.
    if (tensor.name == "token_embd.weight" && !tied) share = 1.0 / config.n_vocab;
    bytes_per_token += share * static_cast<double>(tensor.n_bytes);
  }
  info.n_parameters_used = static_cast<uint64_t>(used);
  info.weight_bytes_per_token = static_cast<uint64_t>(bytes_per_token);
  return info;
}

}  // namespace engine

namespace {

// Activations, step inputs and logits of a run with the default options, from a graph that is recorded for its sizes
// alone.
uint64_t scratch_bytes(const models::Model& model) {
  auto backend = backend::open({.name = "cpu", .n_threads = 1});
  if (!backend) return 0;
  const models::Config& config = model.config();
  const uint32_t n_ubatch = engine::kDefaultUbatch, n_rows = engine::kLogitRows;
  ops::Memory memory;
  memory.layers.resize(config.n_layer);
  ops::Graph graph(**backend, memory, {n_ubatch, n_rows}, 0);
  ops::Residual residual = model.build(graph);
  model.build_head(graph, residual);
  return graph.arena_bytes() +
         (uint64_t{n_ubatch} * config.n_embd + uint64_t{n_rows} * config.most_row_floats()) * sizeof(float);
}

}  // namespace

ModelSupport model_support(const gguf::File& file) {
  ModelSupport support;
  for (const gguf::TensorInfo& tensor : file.tensors()) support.weight_bytes += tensor.n_bytes;
  auto model = models::create(file, {});
  if (!model) {
    support.reasons.push_back(model.error().message);
    return support;
  }
  const models::Config& config = (*model)->config();
  support.cache_bytes_per_token = engine::cache_bytes_per_token(config, Type::F16, Type::F16);
  support.state_bytes_per_sequence = config.state_floats() * sizeof(float);
  models::WeightLoader loader(file, nullptr, false);
  models::WeightMemory memory;
  if (auto loaded = (*model)->load(loader, nullptr, 0, memory); !loaded) {
    support.reasons.push_back(loaded.error().message);
    return support;
  }
  auto unused = loader.unused(config.n_layer);
  if (!unused) {
    support.reasons.push_back(unused.error().message);
    return support;
  }
  support.unused_tensors = std::move(*unused);
  // A file without a vocabulary runs on token ids.
  if (auto tokenizer = Tokenizer::create(file); !tokenizer && tokenizer.error().code != Code::not_found) {
    support.reasons.push_back(tokenizer.error().message);
    return support;
  }
  support.scratch_bytes = scratch_bytes(**model);
  support.supported = true;
  return support;
}

std::vector<std::string> supported_architectures() { return models::architectures(); }

}  // namespace sluice
