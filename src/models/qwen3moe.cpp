// Qwen3-MoE: attention with q and k norms and rotary halves, experts in every layer; softmax over all experts, the
// picked weights renormalised.
#include <fmt/format.h>

#include "models/attention_config.h"
#include "ops/linear.h"
#include "ops/moe.h"

namespace sluice::models {
namespace {

class Qwen3Moe final : public Model {
 public:
  Qwen3Moe(Config config, AttentionConfig a, ops::MoeRule rule, uint32_t n_ff_expert)
      : Model(std::move(config)), attention_(a), rule_(rule), n_ff_expert_(n_ff_expert) {}

  Result<void> load(WeightLoader& loader, backend::Backend* backend, uint32_t n_ctx, WeightMemory& memory) override {
    layers_.clear();
    token_embd_ = TRY(loader.matrix("token_embd.weight", config_.n_vocab, config_.n_embd));
    for (uint32_t i = 0; i < config_.n_layer; ++i) {
      const std::string prefix = fmt::format("blk.{}.", i);
      Layer layer;
      layer.attn_norm = TRY(loader.vector(prefix + "attn_norm.weight", {config_.n_embd}));
      layer.attention = TRY(load_attention(loader, attention_, config_, config_.layers[i], prefix));
      layer.ffn_norm = TRY(loader.vector(prefix + "ffn_norm.weight", {config_.n_embd}));
      layer.moe = TRY(load_moe(loader, config_, n_ff_expert_, prefix));
      layers_.push_back(layer);
    }
    head_ = TRY(load_head(loader, config_, token_embd_, "output_norm.weight"));
    if (backend != nullptr)
      rope_ = TRY(make_rope_table(*backend, memory, n_ctx, attention_.n_rot, config_.rope_base, 0));
    return {};
  }

  ops::Residual build(ops::Graph& g) const override {
    ops::Residual residual{ops::embed(g, token_embd_), {}};
    for (uint32_t i = 0; i < config_.n_layer; ++i) {
      const Layer& layer = layers_[i];
      const ops::AttentionWeights& attn = layer.attention;
      g.set_stage(backend::Stage::attention);
      ops::Tensor h = ops::rms_norm(g, residual, layer.attn_norm, config_.eps, {&attn.q, &attn.k, &attn.v});
      residual.pending = ops::attention(g, h, attn, attention_shape(attention_, config_, config_.layers[i]), rope_, i);
      g.set_stage(backend::Stage::rest);
      h = ops::rms_norm(g, residual, layer.ffn_norm, config_.eps, {&layer.moe.router, &layer.moe.gate, &layer.moe.up});
      ops::moe_ffn(g, residual, h, layer.moe, rule_, i);
    }
    return residual;
  }

 private:
  struct Layer {
    ops::Vector attn_norm, ffn_norm;
    ops::AttentionWeights attention;
    ops::MoeWeights moe;
  };
  AttentionConfig attention_;
  ops::MoeRule rule_;
  uint32_t n_ff_expert_;
  ops::RopeTable rope_;
  std::vector<Layer> layers_;
};

}  // namespace

Result<std::unique_ptr<Model>> create_qwen3moe(Metadata& meta, const Overrides& overrides) {
  Config config = TRY(common_config(meta));
  const std::vector<uint32_t> n_kv_head = TRY(meta.per_layer("attention.head_count_kv", config.n_layer));
  for (uint32_t i = 0; i < config.n_layer; ++i) {
    config.layers[i].attention = true;
    config.layers[i].n_kv_head = n_kv_head[i];
    config.layers[i].moe = true;
  }
  const AttentionConfig a = TRY(read_attention(meta, config));
  TRY(read_experts(meta, overrides, config));
  const uint32_t n_ff_expert = TRY(meta.count("expert_feed_forward_length"));
  TRY(meta.number_or("feed_forward_length", 0));  // of dense layers, which these models do not have
  const ops::MoeRule rule = TRY(read_moe_rule(meta, config, kernels::kGateSoftmaxAll));
  return std::unique_ptr<Model>(std::make_unique<Qwen3Moe>(std::move(config), a, rule, n_ff_expert));
}

}  // namespace sluice::models
