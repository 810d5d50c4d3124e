#include "models/qwen_hybrid.h"

#include <fmt/format.h>

#include <optional>

#include "models/attention_config.h"
#include "models/recurrent_config.h"
#include "ops/linear.h"
#include "ops/moe.h"

namespace sluice::models {
namespace {

class QwenHybrid final : public Model {
 public:
  struct Sizes {
    uint32_t n_ff_expert = 0, n_ff_shared = 0;
  };
  QwenHybrid(Config config, AttentionConfig a, ops::DeltaNetShape delta, ops::MoeRule rule, Sizes sizes)
      : Model(std::move(config)), attention_(a), delta_(delta), rule_(rule), sizes_(sizes) {}

  Result<void> load(WeightLoader& loader, backend::Backend* backend, uint32_t n_ctx, WeightMemory& memory) override {
    layers_.clear();
    token_embd_ = TRY(loader.matrix("token_embd.weight", config_.n_vocab, config_.n_embd));
    for (uint32_t i = 0; i < config_.n_layer; ++i) layers_.push_back(TRY(load_layer(loader, i)));
    head_ = TRY(load_head(loader, config_, token_embd_, "output_norm.weight"));
    if (backend != nullptr)
      rope_ = TRY(make_rope_table(*backend, memory, n_ctx, attention_.n_rot, config_.rope_base, 0));
    return {};
  }

  ops::Residual build(ops::Graph& g) const override {
    ops::Residual residual{ops::embed(g, token_embd_), {}};
    for (uint32_t i = 0; i < config_.n_layer; ++i) {
      build_mixer(g, residual, i);
      build_ffn(g, residual, i);
    }
    return residual;
  }

 private:
  struct Layer {
    ops::Vector attn_norm, ffn_norm;
    std::optional<ops::AttentionWeights> attention;
    ops::DeltaNetWeights delta;
    ops::MoeWeights moe;
    DenseFfn shared;
    ops::Weight shared_gate;
  };

  // Older files have one matrix: for every key head q, k, and v and z of its value heads.
  Result<void> load_joined(WeightLoader& loader, const std::string& name, ops::DeltaNetWeights& w) const {
    const uint32_t size = delta_.size, n_values = delta_.n_value / delta_.n_key * size, pitch = 2 * (size + n_values);
    std::vector<RowRun> q, k, v, z;
    for (uint32_t first = 0; first < delta_.n_key * pitch; first += pitch) {
      q.push_back({first, size});
      k.push_back({first + size, size});
      v.push_back({first + 2 * size, n_values});
      z.push_back({first + 2 * size + n_values, n_values});
    }
    q.insert(q.end(), k.begin(), k.end());
    q.insert(q.end(), v.begin(), v.end());
    w.qkv = TRY(loader.gathered_rows(name, delta_.n_key * pitch, config_.n_embd, q));
    w.z = TRY(loader.gathered_rows(name, delta_.n_key * pitch, config_.n_embd, z));
    return {};
  }

  Result<ops::DeltaNetWeights> load_delta(WeightLoader& loader, const std::string& prefix) const {
    const uint32_t n_embd = config_.n_embd, n_value = delta_.n_value, n_inner = n_value * delta_.size;
    ops::DeltaNetWeights w;
    if (delta_.heads == kernels::kValueHeadsGrouped && loader.has(prefix + "ssm_in.weight")) {
      TRY(load_joined(loader, prefix + "ssm_in.weight", w));
    } else {
      w.qkv = TRY(loader.matrix(prefix + "attn_qkv.weight", delta_.n_conv(), n_embd));
      w.z = TRY(loader.matrix(prefix + "attn_gate.weight", n_inner, n_embd));
    }
    if (delta_.heads == kernels::kValueHeadsTiled) {
      w.beta = TRY(loader.matrix(prefix + "ssm_beta.weight", n_value, n_embd));
      w.alpha = TRY(loader.matrix(prefix + "ssm_alpha.weight", n_value, n_embd));
    } else {
      w.beta = TRY(loader.matrix(prefix + "ssm_ba.weight", 2 * n_value, n_embd));
    }
    w.conv = TRY(loader.vector(prefix + "ssm_conv1d.weight", {delta_.n_taps, delta_.n_conv()}));
    w.a = TRY(loader.vector(prefix + "ssm_a", {n_value}));
    w.dt_bias = TRY(loader.vector(prefix + "ssm_dt.bias", {n_value}));
    w.norm = TRY(loader.vector(prefix + "ssm_norm.weight", {delta_.size}));
    w.out = TRY(loader.matrix(prefix + "ssm_out.weight", n_embd, n_inner));
    return w;
  }

  Result<Layer> load_layer(WeightLoader& loader, uint32_t i) const {
    const std::string prefix = fmt::format("blk.{}.", i);
    Layer layer;
    layer.attn_norm = TRY(loader.vector(prefix + "attn_norm.weight", {config_.n_embd}));
    if (config_.layers[i].attention) {
      layer.attention = TRY(load_attention(loader, attention_, config_, config_.layers[i], prefix));
    } else {
      layer.delta = TRY(load_delta(loader, prefix));
    }
    layer.ffn_norm = TRY(loader.vector(prefix + "post_attention_norm.weight", {config_.n_embd}));
    layer.moe = TRY(load_moe(loader, config_, sizes_.n_ff_expert, prefix));
    layer.shared = TRY(load_dense_ffn(loader, config_, sizes_.n_ff_shared, prefix, "_shexp.weight"));
    layer.shared_gate = TRY(loader.exact_matrix(prefix + "ffn_gate_inp_shexp.weight", 1, config_.n_embd));
    return layer;
  }

  void build_mixer(ops::Graph& g, ops::Residual& residual, uint32_t i) const {
    const Layer& layer = layers_[i];
    g.set_stage(layer.attention ? backend::Stage::attention : backend::Stage::convolution);
    if (layer.attention) {
      const ops::AttentionWeights& w = *layer.attention;
      const ops::Tensor h = ops::rms_norm(g, residual, layer.attn_norm, config_.eps, {&w.q, &w.k, &w.v});
      residual.pending = ops::attention(g, h, w, attention_shape(attention_, config_.layers[i]), rope_, i);
    } else {
      const ops::DeltaNetWeights& w = layer.delta;
      // Of grouped heads alpha is part of beta.
      const ops::Weight& alpha = delta_.heads == kernels::kValueHeadsTiled ? w.alpha : w.beta;
      const ops::Tensor h = ops::rms_norm(g, residual, layer.attn_norm, config_.eps, {&w.qkv, &w.z, &w.beta, &alpha});
      residual.pending = ops::delta_net(g, h, w, delta_, i);
    }
    g.set_stage(backend::Stage::rest);
  }

  void build_ffn(ops::Graph& g, ops::Residual& residual, uint32_t i) const {
    const Layer& layer = layers_[i];
    const ops::MoeWeights& moe = layer.moe;
    const DenseFfn& shared = layer.shared;
    const ops::Tensor h = ops::rms_norm(g, residual, layer.ffn_norm, config_.eps,
                                        {&moe.router, &moe.gate, &moe.up, &shared.gate, &shared.up});
    ops::moe_ffn(g, residual, h, moe, rule_, i);
    ops::add_gated(g, residual, h, layer.shared_gate, ops::dense_ffn(g, h, shared.gate, shared.up, shared.down));
  }

  AttentionConfig attention_;
  ops::DeltaNetShape delta_;
  ops::MoeRule rule_;
  Sizes sizes_;
  ops::RopeTable rope_;
  std::vector<Layer> layers_;
};

// By a list of them, or every so many layers are attention.
Result<std::vector<bool>> recurrent_layers(Metadata& meta, uint32_t n_layer) {
  const uint32_t interval = TRY(meta.count_or("full_attention_interval", 4));
  if (const auto flags = TRY(meta.per_layer_flags("attention.recurrent_layers", n_layer))) return *flags;
  std::vector<bool> recurrent;
  for (uint32_t i = 0; i < n_layer; ++i) recurrent.push_back((i + 1) % interval != 0);
  return recurrent;
}

}  // namespace

Result<std::unique_ptr<Model>> create_qwen_hybrid(Metadata& meta, const Overrides& overrides,
                                                  const QwenHybridForm& form) {
  Config config = TRY(common_config(meta));
  ops::DeltaNetShape delta = TRY(read_delta_net(meta, config));
  delta.heads = form.heads;
  const std::vector<bool> recurrent = TRY(recurrent_layers(meta, config.n_layer));
  const std::vector<uint32_t> n_kv_head = TRY(meta.per_layer("attention.head_count_kv", config.n_layer));
  for (uint32_t i = 0; i < config.n_layer; ++i) {
    LayerSpec& layer = config.layers[i];
    layer.attention = !recurrent[i];
    layer.moe = true;
    if (layer.attention) {
      layer.n_kv_head = n_kv_head[i];
    } else {
      layer.state = state_rings(delta);
    }
  }
  TRY(check_state_size(config));
  const AttentionConfig a = TRY(read_attention(meta, config, {.gated = true}));
  TRY(read_experts(meta, overrides, config));
  QwenHybrid::Sizes sizes;
  sizes.n_ff_expert = TRY(meta.count("expert_feed_forward_length"));
  sizes.n_ff_shared = TRY(meta.count("expert_shared_feed_forward_length"));
  const ops::MoeRule rule = TRY(read_moe_rule(meta, config, kernels::kGateSoftmaxAll));
  return std::unique_ptr<Model>(std::make_unique<QwenHybrid>(std::move(config), a, delta, rule, sizes));
}

}  // namespace sluice::models
