// Nemotron-H with experts (Nemotron 3): every block is one of Mamba-2, attention without positions, or experts, behind
// a norm. Experts have no gate matrix; in some files they work on a latent narrower than the stream.
#include <fmt/format.h>

#include "models/attention_config.h"
#include "models/recurrent_config.h"
#include "ops/linear.h"
#include "ops/moe.h"

namespace sluice::models {
namespace {

enum class Mixer : uint8_t { mamba, attention, experts };

struct Sizes {
  std::vector<uint32_t> n_ff_expert;  // by layer
  uint32_t n_ff_shared = 0;
  uint32_t n_latent = 0;  // 0: experts work on the stream itself
};

class NemotronHMoe final : public Model {
 public:
  NemotronHMoe(Config config, AttentionConfig a, ops::MambaShape mamba, ops::MoeRule rule, Sizes sizes,
               std::vector<Mixer> mixers)
      : Model(std::move(config)),
        attention_(a),
        mamba_(mamba),
        rule_(rule),
        sizes_(std::move(sizes)),
        mixers_(std::move(mixers)) {}

  Result<void> load(WeightLoader& loader, backend::Backend*, uint32_t, WeightMemory&) override {
    layers_.clear();
    token_embd_ = TRY(loader.matrix("token_embd.weight", config_.n_vocab, config_.n_embd));
    for (uint32_t i = 0; i < config_.n_layer; ++i) layers_.push_back(TRY(load_layer(loader, i)));
    head_ = TRY(load_head(loader, config_, token_embd_, "output_norm.weight"));
    return {};
  }

  ops::Residual build(ops::Graph& g) const override {
    ops::Residual residual{ops::embed(g, token_embd_), {}};
    for (uint32_t i = 0; i < config_.n_layer; ++i) {
      const Layer& layer = layers_[i];
      switch (mixers_[i]) {
        case Mixer::mamba: {
          g.set_stage(backend::Stage::convolution);
          const ops::Tensor h = ops::rms_norm(g, residual, layer.norm, config_.eps, {&layer.mamba.in});
          residual.pending = ops::mamba(g, h, layer.mamba, mamba_, i);
          break;
        }
        case Mixer::attention: {
          g.set_stage(backend::Stage::attention);
          const ops::AttentionWeights& w = layer.attention;
          const ops::Tensor h = ops::rms_norm(g, residual, layer.norm, config_.eps, {&w.q, &w.k, &w.v});
          residual.pending = ops::attention(g, h, w, attention_shape(attention_, config_.layers[i]), {}, i);
          break;
        }
        case Mixer::experts:
          build_experts(g, residual, layer, i);
      }
      g.set_stage(backend::Stage::rest);
    }
    return residual;
  }

 private:
  struct Layer {
    ops::Vector norm;
    ops::MambaWeights mamba;
    ops::AttentionWeights attention;
    ops::MoeWeights moe;
    ops::Weight shared_up, shared_down;
  };

  Result<ops::MambaWeights> load_mamba(WeightLoader& loader, const std::string& prefix) const {
    ops::MambaWeights w;
    w.in = TRY(loader.matrix(prefix + "ssm_in.weight", mamba_.n_in(), config_.n_embd));
    w.conv = TRY(loader.vector(prefix + "ssm_conv1d.weight", {mamba_.n_taps, mamba_.n_conv()}));
    w.conv_bias = TRY(loader.vector(prefix + "ssm_conv1d.bias", {mamba_.n_conv()}));
    w.dt_bias = TRY(loader.vector(prefix + "ssm_dt.bias", {mamba_.n_head}));
    w.a = TRY(loader.vector(prefix + "ssm_a", {1, mamba_.n_head}));
    w.d = TRY(loader.vector(prefix + "ssm_d", {1, mamba_.n_head}));
    w.norm = TRY(loader.vector(prefix + "ssm_norm.weight", {mamba_.n_inner() / mamba_.n_group, mamba_.n_group}));
    w.out = TRY(loader.matrix(prefix + "ssm_out.weight", config_.n_embd, mamba_.n_inner()));
    return w;
  }

  Result<void> load_experts(WeightLoader& loader, Layer& layer, uint32_t i, const std::string& prefix) const {
    const uint32_t n_ff = sizes_.n_ff_expert[i], n_expert = config_.n_expert;
    const uint32_t n_embd = config_.n_embd, n_in = sizes_.n_latent != 0 ? sizes_.n_latent : n_embd;
    ops::MoeWeights& w = layer.moe;
    w.router = TRY(loader.exact_matrix(prefix + "ffn_gate_inp.weight", n_expert, n_embd));
    w.bias = TRY(loader.vector(prefix + "exp_probs_b.bias", {n_expert}));
    w.up = TRY(loader.stack(prefix + "ffn_up_exps.weight", n_expert, n_ff, n_in));
    w.down = TRY(loader.stack(prefix + "ffn_down_exps.weight", n_expert, n_in, n_ff));
    if (sizes_.n_latent != 0) {
      w.latent_down = TRY(loader.matrix(prefix + "ffn_latent_down.weight", n_in, n_embd));
      w.latent_up = TRY(loader.matrix(prefix + "ffn_latent_up.weight", n_embd, n_in));
    }
    layer.shared_up = TRY(loader.matrix(prefix + "ffn_up_shexp.weight", sizes_.n_ff_shared, n_embd));
    layer.shared_down = TRY(loader.matrix(prefix + "ffn_down_shexp.weight", n_embd, sizes_.n_ff_shared));
    return {};
  }

  Result<Layer> load_layer(WeightLoader& loader, uint32_t i) const {
    const std::string prefix = fmt::format("blk.{}.", i);
    Layer layer;
    layer.norm = TRY(loader.vector(prefix + "attn_norm.weight", {config_.n_embd}));
    if (mixers_[i] == Mixer::mamba) layer.mamba = TRY(load_mamba(loader, prefix));
    if (mixers_[i] == Mixer::attention)
      layer.attention = TRY(load_attention(loader, attention_, config_, config_.layers[i], prefix));
    if (mixers_[i] == Mixer::experts) TRY(load_experts(loader, layer, i, prefix));
    return layer;
  }

  void build_experts(ops::Graph& g, ops::Residual& residual, const Layer& layer, uint32_t i) const {
    const ops::MoeWeights& w = layer.moe;
    const ops::Weight& reader = w.latent_down ? *w.latent_down : w.up;
    const ops::Tensor h = ops::rms_norm(g, residual, layer.norm, config_.eps, {&w.router, &reader, &layer.shared_up});
    ops::MoeRule rule = rule_;
    rule.n_used = config_.layers[i].n_expert_used;
    ops::moe_ffn(g, residual, h, w, rule, i);
    ops::settle(g, residual);
    residual.pending = ops::relu_squared_ffn(g, h, layer.shared_up, layer.shared_down);
  }

  AttentionConfig attention_;
  ops::MambaShape mamba_;
  ops::MoeRule rule_;
  Sizes sizes_;
  std::vector<Mixer> mixers_;
  std::vector<Layer> layers_;
};

// Sigmoid with a selection bias whatever the file says: most say nothing.
Result<ops::MoeRule> read_rule(Metadata& meta, const Config& config) {
  constexpr uint32_t kFileSigmoid = 2;
  if (TRY(meta.number_or("expert_gating_func", kFileSigmoid)) != kFileSigmoid) {
    return Error(Code::unsupported,
                 fmt::format("metadata '{}.expert_gating_func' is not 2 (sigmoid), which alone is supported; use "
                             "another conversion of the model",
                             meta.architecture()));
  }
  ops::MoeRule rule;
  rule.gate = kernels::kGateSigmoid;
  rule.n_expert = config.n_expert;
  rule.n_used = config.n_expert_used;
  rule.renormalise = TRY(meta.flag_or("expert_weights_norm", true));
  rule.scale = TRY(meta.float_or("expert_weights_scale", 1));
  if (rule.scale == 0) rule.scale = 1;  // converters write 0 for "none"
  return rule;
}

}  // namespace

Result<std::unique_ptr<Model>> create_nemotron_h_moe(Metadata& meta, const Overrides& overrides) {
  Config config = TRY(common_config(meta));
  const ops::MambaShape mamba = TRY(read_mamba(meta, config));
  const std::vector<uint32_t> n_kv_head = TRY(meta.per_layer("attention.head_count_kv", config.n_layer));
  const std::vector<uint32_t> n_ff = TRY(meta.per_layer("feed_forward_length", config.n_layer));
  std::vector<Mixer> mixers(config.n_layer, Mixer::mamba);
  for (uint32_t i = 0; i < config.n_layer; ++i) {
    LayerSpec& layer = config.layers[i];
    if (n_ff[i] != 0) {
      mixers[i] = Mixer::experts;
      layer.moe = true;
    } else if (n_kv_head[i] != 0) {
      mixers[i] = Mixer::attention;
      layer.attention = true;
      layer.n_kv_head = n_kv_head[i];
    } else {
      layer.state = state_rings(mamba);
    }
  }
  TRY(check_state_size(config));
  const AttentionConfig a = TRY(read_attention(meta, config, {.qk_norm = QkNorm::none, .rotary = false}));
  TRY(read_experts(meta, overrides, config, true));
  Sizes sizes;
  sizes.n_ff_expert = TRY(meta.per_layer("expert_feed_forward_length", config.n_layer));
  sizes.n_ff_shared = TRY(meta.count("expert_shared_feed_forward_length"));
  sizes.n_latent = TRY(meta.number_or("moe_latent_size", 0));
  TRY(meta.number_or("expert_shared_count", 1));  // their width is given as a whole
  const ops::MoeRule rule = TRY(read_rule(meta, config));
  return std::unique_ptr<Model>(
      std::make_unique<NemotronHMoe>(std::move(config), a, mamba, rule, std::move(sizes), std::move(mixers)));
}

}  // namespace sluice::models
