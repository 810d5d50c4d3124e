// LFM2-MoE: lfm2's layers, with experts after the leading dense ones. Selection by sigmoid plus bias; weights from the
// sigmoid alone, renormalised (divisor at least 2^-14), times the routed scale where the file has one.
#include <fmt/format.h>

#include "base/log.h"
#include "models/lfm2_common.h"
#include "ops/linear.h"
#include "ops/moe.h"

namespace sluice::models {
namespace {

class Lfm2Moe final : public Model {
 public:
  struct Sizes {
    uint32_t n_taps = 0, n_dense = 0, n_ff = 0, n_ff_expert = 0;
  };
  Lfm2Moe(Config config, AttentionConfig a, ops::MoeRule rule, Sizes sizes)
      : Model(std::move(config)), attention_(a), rule_(rule), sizes_(sizes) {}

  Result<void> load(WeightLoader& loader, backend::Backend* backend, uint32_t n_ctx, WeightMemory& memory) override {
    layers_.clear();
    token_embd_ = TRY(loader.matrix("token_embd.weight", config_.n_vocab, config_.n_embd));
    for (uint32_t i = 0; i < config_.n_layer; ++i) {
      const std::string prefix = fmt::format("blk.{}.", i);
      Layer layer;
      layer.mixer = TRY(load_lfm2_mixer(loader, attention_, config_, sizes_.n_taps, i));
      layer.ffn_norm = TRY(loader.vector(prefix + "ffn_norm.weight", {config_.n_embd}));
      if (config_.layers[i].moe) {
        layer.moe = TRY(load_moe(loader, config_, sizes_.n_ff_expert, prefix));
        if (loader.has(prefix + "exp_probs_b.bias")) {
          layer.moe.bias = TRY(loader.vector(prefix + "exp_probs_b.bias", {config_.n_expert}));
        } else if (backend != nullptr) {
          log::warn("tensor '{}exp_probs_b.bias' is missing: experts are picked without a selection bias", prefix);
        }
      } else {
        layer.ffn = TRY(load_dense_ffn(loader, config_, sizes_.n_ff, prefix));
      }
      layers_.push_back(layer);
    }
    head_ = TRY(load_head(loader, config_, token_embd_, "token_embd_norm.weight"));
    rope_ = TRY(load_rope_table(loader, backend, memory, n_ctx, config_, 0));
    return {};
  }

  ops::Residual build(ops::Graph& g) const override {
    ops::Residual residual{ops::embed(g, token_embd_), {}};
    for (uint32_t i = 0; i < config_.n_layer; ++i) {
      const Layer& layer = layers_[i];
      build_lfm2_mixer(g, residual, layer.mixer, attention_, config_, rope_, i);
      if (config_.layers[i].moe) {
        const ops::MoeWeights& w = layer.moe;
        const ops::Tensor h = ops::rms_norm(g, residual, layer.ffn_norm, config_.eps, {&w.router, &w.gate, &w.up});
        ops::moe_ffn(g, residual, h, w, rule_, i);
      } else {
        const ops::Tensor h = ops::rms_norm(g, residual, layer.ffn_norm, config_.eps, {&layer.ffn.gate, &layer.ffn.up});
        residual.pending = ops::dense_ffn(g, h, layer.ffn.gate, layer.ffn.up, layer.ffn.down);
      }
    }
    return residual;
  }

 private:
  struct Layer {
    Lfm2Mixer mixer;
    ops::Vector ffn_norm;
    DenseFfn ffn;         // the leading layers
    ops::MoeWeights moe;  // the rest
  };
  AttentionConfig attention_;
  ops::MoeRule rule_;
  Sizes sizes_;
  ops::RopeTable rope_;
  std::vector<Layer> layers_;
};

}  // namespace

Result<std::unique_ptr<Model>> create_lfm2moe(Metadata& meta, const Overrides& overrides) {
  Config config = TRY(common_config(meta));
  Lfm2Moe::Sizes sizes;
  sizes.n_taps = TRY(read_lfm2_layers(meta, config));
  const AttentionConfig a = TRY(read_attention(meta, config));
  TRY(read_experts(meta, overrides, config));
  sizes.n_dense = TRY(meta.number_or("leading_dense_block_count", 0));
  sizes.n_ff = TRY(meta.count("feed_forward_length"));
  sizes.n_ff_expert = TRY(meta.count("expert_feed_forward_length"));
  for (uint32_t i = sizes.n_dense; i < config.n_layer; ++i) config.layers[i].moe = true;
  const ops::MoeRule rule = TRY(read_moe_rule(meta, config, kernels::kGateSigmoid));
  return std::unique_ptr<Model>(std::make_unique<Lfm2Moe>(std::move(config), a, rule, sizes));
}

}  // namespace sluice::models
