#include "models/model.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "ops/linear.h"

namespace sluice::models {
namespace {

// What the kernels' scratch and 32-bit indices allow.
constexpr uint32_t kMostLayers = 4096;
constexpr uint32_t kMostEmbd = 1u << 18;
constexpr uint32_t kMostExperts = 4096, kMostExpertsUsed = 512;

// Values of expert_gating_func in GGUF.
constexpr uint32_t kFileSoftmax = 1, kFileSigmoid = 2, kFileSoftmaxPicked = 3;

// A group of the softmax kind counts by its best expert, one of the sigmoid kind by its two best.
Result<void> read_expert_groups(Metadata& meta, ops::MoeRule& rule) {
  const uint32_t n_group = TRY(meta.number_or("expert_group_count", 0));
  const uint32_t n_used = TRY(meta.number_or("expert_group_used_count", 0));
  if (n_group <= 1) return {};
  if (n_group > kernels::kMostGroups) {
    return Error(Code::unsupported, fmt::format("{} groups of experts are more than this program allows ({}); use "
                                                "another model",
                                                n_group, kernels::kMostGroups));
  }
  if (rule.n_expert % n_group != 0 || n_used == 0 || n_used > n_group) {
    return Error(Code::corrupt_file, fmt::format("metadata '{}.expert_group_count' asks for {} groups of {} experts, "
                                                 "{} of which are used; download the file again",
                                                 meta.architecture(), n_group, rule.n_expert, n_used));
  }
  if (rule.n_used > rule.n_expert / n_group * n_used) {
    return Error(Code::invalid_argument,
                 fmt::format("{} experts of a token do not fit {} groups of {}; give a smaller --experts-used",
                             rule.n_used, n_used, rule.n_expert / n_group));
  }
  rule.n_group = n_group;
  rule.n_group_used = n_used;
  rule.n_group_best = rule.gate == kernels::kGateSigmoid ? 2 : 1;
  return {};
}

}  // namespace

uint64_t LayerSpec::state_floats(uint32_t n_rewind) const {
  uint64_t n = 0;
  for (const StateRing& ring : state) n += (uint64_t{ring.n_rows} + n_rewind) * ring.width;
  return n;
}

uint64_t Config::state_floats(uint32_t n_rewind) const {
  uint64_t n = 0;
  for (const LayerSpec& layer : layers) n += layer.state_floats(n_rewind);
  return n;
}

Result<void> check_state_size(const Config& config) {
  if (config.state_floats() <= UINT32_MAX) return {};
  return Error(Code::unsupported, "the recurrent state is larger than this program allows; use another model");
}

void Model::build_head(ops::Graph& g, ops::Residual& residual) const {
  ops::settle(g, residual);
  g.set_stage(backend::Stage::head);
  const ops::Tensor rows = ops::gather_out(g, residual.x);
  const ops::Tensor h = ops::rms_norm(g, rows, head_.norm, config_.eps, {&head_.output});
  ops::linear_into(g, h, head_.output, g.memory().logits);
}

void Model::build_embeddings(ops::Graph& g, ops::Residual& residual) const {
  ops::settle(g, residual);
  g.set_stage(backend::Stage::head);
  ops::rms_norm_into(g, ops::gather_out(g, residual.x), head_.norm, config_.eps, g.memory().logits);
}

Result<uint32_t> vocabulary_rows(const gguf::File& file, uint32_t n_embd) {
  const gguf::TensorInfo* embd = file.find_tensor("token_embd.weight");
  if (embd == nullptr) {
    return Error(Code::corrupt_file,
                 "tensor 'token_embd.weight' is missing; this file holds no model, or only its vocabulary");
  }
  if (embd->dims.size() != 2 || embd->dims[0] != n_embd || embd->dims[1] > (1u << 24)) {
    return Error(Code::corrupt_file,
                 fmt::format("tensor 'token_embd.weight' does not have rows of {} values as the metadata says; "
                             "download the file again",
                             n_embd));
  }
  return static_cast<uint32_t>(embd->dims[1]);
}

Result<Config> common_config(Metadata& meta) {
  Config c;
  c.architecture = meta.architecture();
  c.n_layer = TRY(meta.count("block_count"));
  // Drafting heads are counted as the last blocks by some files. The text does not depend on them.
  for (uint32_t n_nextn = TRY(meta.number_or("nextn_predict_layers", 0)); n_nextn > 0 && c.n_layer > 1; --n_nextn) {
    const std::string prefix = fmt::format("blk.{}.nextn.", c.n_layer - 1);
    const auto tensors = meta.file().tensors();
    if (std::none_of(tensors.begin(), tensors.end(), [&](const auto& t) { return t.name.starts_with(prefix); })) break;
    --c.n_layer;
  }
  c.n_embd = TRY(meta.count("embedding_length"));
  if (c.n_layer > kMostLayers || c.n_embd > kMostEmbd) {
    return Error(Code::unsupported,
                 fmt::format("{} layers of width {} are more than this program allows ({} of {}); use another model",
                             c.n_layer, c.n_embd, kMostLayers, kMostEmbd));
  }
  c.n_ctx_train = TRY(meta.count_or("context_length", 4096));
  c.eps = TRY(meta.positive("attention.layer_norm_rms_epsilon"));
  c.rope_base = meta.has("rope.freq_base") ? TRY(meta.positive("rope.freq_base")) : 10000.0f;
  c.rope = TRY(read_rope_scaling(meta));
  c.n_vocab = TRY(vocabulary_rows(meta.file(), c.n_embd));
  c.layers.resize(c.n_layer);
  return c;
}

Result<void> read_experts(Metadata& meta, const Overrides& overrides, Config& config, bool by_layer) {
  config.n_expert = TRY(meta.count("expert_count"));
  const std::vector<uint32_t> n_used = TRY(meta.per_layer("expert_used_count", config.n_layer));
  config.n_expert_used = *std::max_element(n_used.begin(), n_used.end());
  for (uint32_t i = 0; i < config.n_layer; ++i) {
    LayerSpec& layer = config.layers[i];
    if (by_layer ? layer.moe && n_used[i] == 0 : n_used[i] != config.n_expert_used) {
      return Error(Code::unsupported,
                   fmt::format("layer {} would use {} experts per token, others {}; use another model", i, n_used[i],
                               config.n_expert_used));
    }
    layer.n_expert_used = overrides.n_expert_used != 0 ? overrides.n_expert_used : n_used[i];
  }
  if (config.n_expert > kMostExperts) {
    return Error(Code::unsupported, fmt::format("{} experts are more than this program allows ({}); use another model",
                                                config.n_expert, kMostExperts));
  }
  if (config.n_expert_used > config.n_expert) {
    return Error(Code::corrupt_file, fmt::format("metadata asks for {} experts of {}; download the file again",
                                                 config.n_expert_used, config.n_expert));
  }
  if (overrides.n_expert_used > config.n_expert) {
    return Error(Code::invalid_argument, fmt::format("--experts-used {} is more than the model's {}; give 1 to {}",
                                                     overrides.n_expert_used, config.n_expert, config.n_expert));
  }
  if (overrides.n_expert_used != 0) config.n_expert_used = overrides.n_expert_used;
  if (config.n_expert_used > kMostExpertsUsed) {
    return Error(Code::unsupported,
                 fmt::format("{} experts used per token are more than this program allows ({}); use another model",
                             config.n_expert_used, kMostExpertsUsed));
  }
  return {};
}

Result<ops::MoeRule> read_moe_rule(Metadata& meta, const Config& config, uint32_t default_gate,
                                   bool default_renormalise) {
  ops::MoeRule rule;
  rule.gate = default_gate;
  rule.n_expert = config.n_expert;
  rule.n_used = config.n_expert_used;
  const uint32_t in_file = TRY(meta.number_or("expert_gating_func", 0));
  switch (in_file) {
    case 0:
      // Files of softmax architectures rarely have the key; one of a sigmoid architecture should.
      log::write(default_gate == kernels::kGateSigmoid ? log::Level::warn : log::Level::info,
                 fmt::format("metadata '{}.expert_gating_func' is missing: {} gating, as this architecture has it",
                             meta.architecture(), default_gate == kernels::kGateSigmoid ? "sigmoid" : "softmax"));
      break;
    case kFileSoftmax:
      rule.gate = kernels::kGateSoftmaxAll;
      break;
    case kFileSigmoid:
      rule.gate = kernels::kGateSigmoid;
      break;
    case kFileSoftmaxPicked:
      rule.gate = kernels::kGateSoftmaxPicked;
      break;
    default:
      return Error(Code::unsupported,
                   fmt::format("metadata '{}.expert_gating_func' is {}, and 1 (softmax), 2 (sigmoid) and 3 (softmax "
                               "of the picked) are known; use another conversion of the model",
                               meta.architecture(), in_file));
  }
  rule.renormalise = TRY(meta.flag_or("expert_weights_norm", default_renormalise));
  rule.scale = TRY(meta.float_or("expert_weights_scale", 1));
  if (rule.scale == 0) rule.scale = 1;  // converters write 0 for "none"
  TRY(read_expert_groups(meta, rule));
  return rule;
}

Result<Head> load_head(WeightLoader& loader, const Config& config, const ops::Weight& token_embd,
                       const std::string& norm_name) {
  Head head;
  head.norm = TRY(loader.vector(norm_name, {config.n_embd}, 1 / config.logit_scale));
  head.output =
      loader.has("output.weight") ? TRY(loader.matrix("output.weight", config.n_vocab, config.n_embd)) : token_embd;
  return head;
}

Result<DenseFfn> load_dense_ffn(WeightLoader& loader, const Config& config, uint32_t n_ff, const std::string& prefix,
                                const std::string& ending) {
  DenseFfn ffn;
  ffn.gate = TRY(loader.matrix(prefix + "ffn_gate" + ending, n_ff, config.n_embd));
  ffn.up = TRY(loader.matrix(prefix + "ffn_up" + ending, n_ff, config.n_embd));
  ffn.down = TRY(loader.matrix(prefix + "ffn_down" + ending, config.n_embd, n_ff));
  return ffn;
}

Result<ops::MoeWeights> load_moe(WeightLoader& loader, const Config& config, uint32_t n_ff_expert,
                                 const std::string& prefix) {
  ops::MoeWeights w;
  w.router = TRY(loader.exact_matrix(prefix + "ffn_gate_inp.weight", config.n_expert, config.n_embd));
  w.gate = TRY(loader.stack(prefix + "ffn_gate_exps.weight", config.n_expert, n_ff_expert, config.n_embd));
  w.up = TRY(loader.stack(prefix + "ffn_up_exps.weight", config.n_expert, n_ff_expert, config.n_embd));
  w.down = TRY(loader.stack(prefix + "ffn_down_exps.weight", config.n_expert, config.n_embd, n_ff_expert));
  return w;
}

Result<void> load_expert_biases(WeightLoader& loader, const Config& config, uint32_t n_ff_expert,
                                const std::string& prefix, ops::MoeWeights& w) {
  w.bias = TRY(loader.vector(prefix + "ffn_gate_inp.bias", {config.n_expert}));
  w.gate_bias = TRY(loader.vector(prefix + "ffn_gate_exps.bias", {n_ff_expert, config.n_expert}));
  w.up_bias = TRY(loader.vector(prefix + "ffn_up_exps.bias", {n_ff_expert, config.n_expert}));
  w.down_bias = TRY(loader.vector(prefix + "ffn_down_exps.bias", {config.n_embd, config.n_expert}));
  return {};
}

}  // namespace sluice::models
