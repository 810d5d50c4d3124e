#include "models/decoder.h"

#include <fmt/format.h>

#include "ops/linear.h"
#include "ops/moe.h"

namespace sluice::models {
namespace {

class Decoder final : public Model {
 public:
  Decoder(Config config, const DecoderForm& form, ops::MoeRule rule, std::vector<uint32_t> n_ff)
      : Model(std::move(config)), form_(form), rule_(rule), n_ff_(std::move(n_ff)) {}
  // One of the two.
  void set_attention(const AttentionConfig& a) { attention_ = a; }
  void set_latent(const LatentConfig& latent) { latent_ = latent; }

  Result<void> load(WeightLoader& loader, backend::Backend* backend, uint32_t n_ctx, WeightMemory& memory) override {
    layers_.clear();
    token_embd_ = TRY(loader.matrix("token_embd.weight", config_.n_vocab, config_.n_embd));
    for (uint32_t i = 0; i < config_.n_layer; ++i) layers_.push_back(TRY(load_layer(loader, i)));
    head_ = TRY(load_head(loader, config_, token_embd_, "output_norm.weight"));
    rope_ = TRY(load_rope_table(loader, backend, memory, n_ctx, config_, form_.rope_style));
    if (latent_ && backend != nullptr) head_ids_ = TRY(make_head_ids(*backend, memory, latent_->shape.n_head));
    return {};
  }

  // The stream is kept divided by the residual scale, which the norms take out again: see create_decoder.
  ops::Residual build(ops::Graph& g) const override {
    ops::Residual residual{ops::embed(g, token_embd_, form_.embedding_scale / form_.residual_scale), {}};
    ops::HeadEntries heads;
    g.set_stage(backend::Stage::attention);
    if (latent_) heads = ops::head_entries(g, head_ids_, latent_->shape.n_head, layers_[0].latent.k_up);
    for (uint32_t i = 0; i < config_.n_layer; ++i) {
      const Layer& layer = layers_[i];
      g.set_stage(backend::Stage::attention);
      if (latent_) {
        const ops::LatentWeights& attn = layer.latent;
        const ops::Tensor h = ops::rms_norm(g, residual, layer.attn_norm, config_.eps,
                                            {attn.q_down ? &*attn.q_down : &attn.q, &attn.kv, &attn.k_rot});
        residual.pending = ops::latent_attention(g, h, attn, latent_->shape, rope_, heads, i);
      } else {
        const ops::AttentionWeights& attn = layer.attention;
        const ops::Tensor h = ops::rms_norm(g, residual, layer.attn_norm, config_.eps, {&attn.q, &attn.k, &attn.v});
        residual.pending = ops::attention(g, h, attn, attention_shape(attention_, config_.layers[i]), rope_, i);
      }
      g.set_stage(backend::Stage::rest);
      build_ffn(g, residual, layer, i);
    }
    return residual;
  }

 private:
  struct Layer {
    ops::Vector attn_norm, ffn_norm;
    ops::AttentionWeights attention;  // or
    ops::LatentWeights latent;
    DenseFfn ffn;  // or the expert that every token takes
    ops::MoeWeights moe;
    ops::Weight shared_gate;
  };

  Result<Layer> load_layer(WeightLoader& loader, uint32_t i) const {
    const std::string prefix = fmt::format("blk.{}.", i);
    Layer layer;
    layer.attn_norm = TRY(loader.vector(prefix + "attn_norm.weight", {config_.n_embd}));
    if (latent_) {
      layer.latent = TRY(load_latent(loader, *latent_, config_, prefix));
    } else {
      layer.attention = TRY(load_attention(loader, attention_, config_, config_.layers[i], prefix));
    }
    layer.ffn_norm = TRY(loader.vector(prefix + form_.ffn_norm, {config_.n_embd}));
    if (!config_.layers[i].moe) {
      layer.ffn = TRY(load_dense_ffn(loader, config_, n_ff_[i], prefix));
      return layer;
    }
    layer.moe = TRY(load_moe(loader, config_, form_.n_ff_expert, prefix));
    if (form_.expert_biases) TRY(load_expert_biases(loader, config_, form_.n_ff_expert, prefix, layer.moe));
    if (form_.selection_bias) layer.moe.bias = TRY(loader.vector(prefix + "exp_probs_b.bias", {config_.n_expert}));
    if (form_.n_ff_shared != 0)
      layer.ffn = TRY(load_dense_ffn(loader, config_, form_.n_ff_shared, prefix, "_shexp.weight"));
    if (form_.shared_gate)
      layer.shared_gate = TRY(loader.exact_matrix(prefix + "ffn_gate_inp_shexp.weight", 1, config_.n_embd));
    return layer;
  }

  void build_ffn(ops::Graph& g, ops::Residual& residual, const Layer& layer, uint32_t i) const {
    const ops::MoeWeights& moe = layer.moe;
    const DenseFfn& ffn = layer.ffn;
    if (!config_.layers[i].moe) {
      const ops::Tensor h = ops::rms_norm(g, residual, layer.ffn_norm, config_.eps, {&ffn.gate, &ffn.up});
      residual.pending = ops::dense_ffn(g, h, ffn.gate, ffn.up, ffn.down);
      return;
    }
    const bool shared = form_.n_ff_shared != 0;
    const ops::Weight &gate = shared ? ffn.gate : moe.gate, &up = shared ? ffn.up : moe.up;
    const ops::Tensor h =
        ops::rms_norm(g, residual, layer.ffn_norm, config_.eps, {&moe.router, &moe.gate, &moe.up, &gate, &up});
    ops::moe_ffn(g, residual, h, moe, rule_, i);
    if (!shared) return;
    ops::Tensor y = ops::dense_ffn(g, h, ffn.gate, ffn.up, ffn.down);
    if (form_.shared_gate) {
      ops::add_gated(g, residual, h, layer.shared_gate, y);
    } else {
      residual.pending = std::move(y);
    }
  }

  AttentionConfig attention_;
  std::optional<LatentConfig> latent_;
  uint64_t head_ids_ = 0;
  DecoderForm form_;
  ops::MoeRule rule_;
  std::vector<uint32_t> n_ff_;  // of the dense layers
  ops::RopeTable rope_;
  std::vector<Layer> layers_;
};

}  // namespace

Result<uint32_t> read_shared_width(Metadata& meta, uint32_t n_ff) {
  const uint64_t width = uint64_t{n_ff} * TRY(meta.number_or("expert_shared_count", 0));
  if (width > UINT32_MAX) return Error(Code::corrupt_file, "a shared expert is too wide; download the file again");
  return static_cast<uint32_t>(width);
}

Result<std::unique_ptr<Model>> create_decoder(Metadata& meta, const Overrides& overrides, const DecoderForm& form) {
  Config config = TRY(common_config(meta));
  const std::vector<uint32_t> n_kv_head = TRY(meta.per_layer("attention.head_count_kv", config.n_layer));
  const bool routed = form.n_ff_expert != 0;
  for (uint32_t i = 0; i < config.n_layer; ++i) {
    config.layers[i].attention = true;
    config.layers[i].n_kv_head = n_kv_head[i];
    if (!form.windows.empty()) config.layers[i].window = form.windows.at(i);
    config.layers[i].moe = routed && i >= form.n_dense;
  }
  AttentionConfig attention;
  LatentConfig latent;
  if (form.latent) {
    latent = TRY(read_latent(meta, config));
  } else {
    attention = TRY(read_attention(meta, config, form.attention));
  }
  std::vector<uint32_t> n_ff;
  if (!routed || form.n_dense != 0) {
    n_ff = TRY(meta.per_layer("feed_forward_length", config.n_layer));
  } else {
    TRY(meta.number_or("feed_forward_length", 0));  // of dense layers, which these models do not have
  }
  ops::MoeRule rule;
  if (routed) {
    TRY(read_experts(meta, overrides, config));
    rule = TRY(read_moe_rule(meta, config, form.gate, form.renormalise));
    rule.activation = form.activation;
  }
  // norm(s x, eps) = norm(x, eps / s^2): what layers add needs no scaling where the embedding has it inverted.
  config.eps /= form.residual_scale * form.residual_scale;
  config.logit_scale = form.logit_scale;
  auto model = std::make_unique<Decoder>(std::move(config), form, rule, std::move(n_ff));
  form.latent ? model->set_latent(latent) : model->set_attention(attention);
  return std::unique_ptr<Model>(std::move(model));
}

}  // namespace sluice::models
