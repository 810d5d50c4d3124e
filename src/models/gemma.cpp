#include "models/gemma.h"

#include <fmt/format.h>

#include <cmath>

#include "models/rope_scaling.h"
#include "ops/linear.h"
#include "ops/moe.h"
#include "ops/norm.h"

namespace sluice::models {
namespace {

constexpr float kWindowRopeBase = 10000;
constexpr uint32_t kRotatesHalves = 0;  // kernels/rope.h

// Of the layers with a window and of the others.
struct Attentions {
  AttentionConfig all, window;
  float window_rope_base = 0;
  const AttentionConfig& of(const LayerSpec& layer) const { return layer.window != 0 ? window : all; }
};

class Gemma final : public Model {
 public:
  Gemma(Config config, const GemmaForm& form, const Attentions& attentions, ops::MoeRule rule,
        std::vector<uint32_t> n_ff, float softcap)
      : Model(std::move(config)),
        form_(form),
        attentions_(attentions),
        rule_(rule),
        n_ff_(std::move(n_ff)),
        softcap_(softcap),
        file_eps_(config_.eps) {}

  // The stream is kept divided by the numbers that multiply it so far: then nothing multiplies it, what layers add is
  // divided, and a norm of it has eps / number^2 for eps.
  Result<void> load(WeightLoader& loader, backend::Backend* backend, uint32_t n_ctx, WeightMemory& memory) override {
    layers_.clear();
    token_embd_ = TRY(loader.matrix("token_embd.weight", config_.n_vocab, config_.n_embd));
    float scale = 1;
    for (uint32_t i = 0; i < config_.n_layer; ++i) {
      layers_.push_back(TRY(load_layer(loader, i, scale)));
      if (!form_.scales_layers) continue;
      const std::string name = fmt::format("blk.{}.layer_output_scale.weight", i);
      scale *= TRY(loader.number(name));
      if (!std::isnormal(scale))
        return Error(Code::corrupt_file, fmt::format("tensor '{}' leaves nothing; download the file again", name));
    }
    config_.eps = file_eps_ / (scale * scale);
    head_ = TRY(load_head(loader, config_, token_embd_, "output_norm.weight"));
    rope_ = TRY(load_rope_table(loader, backend, memory, n_ctx, config_, kRotatesHalves));
    if (backend == nullptr) return {};
    window_rope_ = TRY(make_rope_table(*backend, memory, n_ctx, attentions_.window.n_rot, attentions_.window_rope_base,
                                       kRotatesHalves));
    return {};
  }

  ops::Residual build(ops::Graph& g) const override {
    const float scale = std::sqrt(static_cast<float>(config_.n_embd));
    ops::Residual residual{ops::embed(g, token_embd_, scale), {}};
    for (uint32_t i = 0; i < config_.n_layer; ++i) {
      const Layer& layer = layers_[i];
      const LayerSpec& spec = config_.layers[i];
      const ops::AttentionWeights& attn = layer.attention;
      g.set_stage(backend::Stage::attention);
      const ops::Tensor h = ops::rms_norm(g, residual, layer.attn_norm, layer.eps, {&attn.q, &attn.k, &attn.v});
      const ops::Tensor a = ops::attention(g, h, attn, attention_shape(attentions_.of(spec), spec),
                                           spec.window != 0 ? window_rope_ : rope_, i);
      residual.pending = ops::rms_norm(g, a, layer.post_attention_norm, file_eps_);
      g.set_stage(backend::Stage::rest);
      residual.pending = build_ffn(g, residual, layer, i);
    }
    return residual;
  }

  void build_head(ops::Graph& g, ops::Residual& residual) const override {
    Model::build_head(g, residual);
    if (softcap_ != 0) ops::softcap_logits(g, config_.n_vocab, softcap_);
  }

 private:
  struct Layer {
    float eps = 0;  // of norms of the stream
    ops::Vector attn_norm, post_attention_norm, ffn_norm, post_ffw_norm;
    ops::AttentionWeights attention;
    DenseFfn ffn;
    // With experts.
    ops::Vector ffn_norm_after, router_norm, experts_norm, experts_norm_after;
    ops::MoeWeights moe;
  };

  Result<Layer> load_layer(WeightLoader& loader, uint32_t i, float scale) const {
    const std::string prefix = fmt::format("blk.{}.", i);
    const auto norm = [&](const char* name, float by = 1) {
      return loader.vector(prefix + name + ".weight", {config_.n_embd}, by);
    };
    Layer layer;
    layer.eps = file_eps_ / (scale * scale);
    layer.attn_norm = TRY(norm("attn_norm"));
    layer.post_attention_norm = TRY(norm("post_attention_norm", 1 / scale));
    const LayerSpec& spec = config_.layers[i];
    layer.attention = TRY(load_attention(loader, attentions_.of(spec), config_, spec, prefix));
    layer.ffn_norm = TRY(norm("ffn_norm"));
    layer.ffn = TRY(load_dense_ffn(loader, config_, n_ff_[i], prefix));
    layer.post_ffw_norm = TRY(norm("post_ffw_norm", 1 / scale));
    if (form_.n_ff_expert == 0) return layer;
    layer.ffn_norm_after = TRY(norm("post_ffw_norm_1"));
    layer.experts_norm = TRY(norm("pre_ffw_norm_2"));
    layer.experts_norm_after = TRY(norm("post_ffw_norm_2"));
    layer.router_norm = TRY(loader.vector(prefix + "ffn_gate_inp.scale", {config_.n_embd},
                                          1 / std::sqrt(static_cast<float>(config_.n_embd))));
    layer.moe = TRY(load_experts(loader, prefix));
    return layer;
  }

  Result<ops::MoeWeights> load_experts(WeightLoader& loader, const std::string& prefix) const {
    const std::string fused = prefix + "ffn_gate_up_exps.weight";
    const uint32_t n = config_.n_expert, n_ff = form_.n_ff_expert;
    ops::MoeWeights w;
    if (loader.has(fused)) {
      w.router = TRY(loader.exact_matrix(prefix + "ffn_gate_inp.weight", n, config_.n_embd));
      w.gate = TRY(loader.stack_of_rows(fused, n, 2 * n_ff, 0, n_ff, config_.n_embd));
      w.up = TRY(loader.stack_of_rows(fused, n, 2 * n_ff, n_ff, n_ff, config_.n_embd));
      w.down = TRY(loader.stack(prefix + "ffn_down_exps.weight", n, config_.n_embd, n_ff));
    } else {
      w = TRY(load_moe(loader, config_, n_ff, prefix));
    }
    w.down_scale = TRY(loader.vector(prefix + "ffn_down_exps.scale", {n}));
    return w;
  }

  // Experts work beside the dense network, behind norms of their own; the router reads the stream.
  ops::Tensor build_ffn(ops::Graph& g, ops::Residual& residual, const Layer& layer, uint32_t i) const {
    const DenseFfn& ffn = layer.ffn;
    const ops::Tensor h = ops::rms_norm(g, residual, layer.ffn_norm, layer.eps, {&ffn.gate, &ffn.up});
    const ops::Tensor dense = ops::dense_ffn(g, h, ffn.gate, ffn.up, ffn.down, kernels::kGeluTanh);
    if (form_.n_ff_expert == 0) return ops::rms_norm(g, dense, layer.post_ffw_norm, file_eps_);
    const ops::MoeWeights& moe = layer.moe;
    ops::Residual sum{ops::rms_norm(g, dense, layer.ffn_norm_after, file_eps_), {}};
    const ops::Tensor r = ops::rms_norm(g, residual.x, layer.router_norm, layer.eps, {&moe.router});
    const ops::Tensor x = ops::rms_norm(g, residual.x, layer.experts_norm, layer.eps, {&moe.gate, &moe.up});
    const ops::Tensor routed = ops::moe_output(g, r, x, moe, rule_, i);
    sum.pending = ops::rms_norm(g, routed, layer.experts_norm_after, file_eps_);
    return ops::rms_norm(g, sum, layer.post_ffw_norm, file_eps_);
  }

  GemmaForm form_;
  Attentions attentions_;
  ops::MoeRule rule_;
  std::vector<uint32_t> n_ff_;
  float softcap_;   // of the logits; 0: none
  float file_eps_;  // config_.eps is that of the last norm
  ops::RopeTable rope_, window_rope_;
  std::vector<Layer> layers_;
};

Result<Attentions> read_attentions(Metadata& meta, Config& config, const GemmaForm& form) {
  Attentions a;
  a.all = TRY(read_attention(meta, config, form.attention));
  a.window = a.all;
  a.window.d_k = TRY(meta.count_or("attention.key_length_swa", a.all.d_k));
  a.window.d_v = TRY(meta.count_or("attention.value_length_swa", a.all.d_v));
  a.window.n_rot = TRY(meta.count_or("rope.dimension_count_swa", std::min(a.all.n_rot, a.window.d_k)));
  a.window_rope_base = TRY(meta.float_or("rope.freq_base_swa", kWindowRopeBase));
  if (a.window.d_k > a.all.d_k || a.window.d_v > a.all.d_v || a.window.n_rot > a.window.d_k ||
      a.window.n_rot % 2 != 0 || !(a.window_rope_base > 0)) {
    return Error(Code::unsupported,
                 "layers with a window have larger heads than the others, or rotate what is not "
                 "there; use another model");
  }
  for (LayerSpec& layer : config.layers) {
    if (layer.window == 0) continue;
    layer.d_k = a.window.d_k;
    layer.d_v = a.window.d_v;
  }
  return a;
}

}  // namespace

Result<std::unique_ptr<Model>> create_gemma(Metadata& meta, const Overrides& overrides, const GemmaForm& form) {
  Config config = TRY(common_config(meta));
  const std::vector<uint32_t> n_kv_head = TRY(meta.per_layer("attention.head_count_kv", config.n_layer));
  const std::vector<uint32_t> windows = TRY(read_windows(meta, config.n_layer, form.period));
  for (uint32_t i = 0; i < config.n_layer; ++i) {
    config.layers[i].attention = true;
    config.layers[i].n_kv_head = n_kv_head[i];
    config.layers[i].window = windows[i];
    config.layers[i].moe = form.n_ff_expert != 0;
  }
  const Attentions attentions = TRY(read_attentions(meta, config, form));
  const std::vector<uint32_t> n_ff = TRY(meta.per_layer("feed_forward_length", config.n_layer));
  const float softcap = TRY(meta.float_or("final_logit_softcapping", 0));
  ops::MoeRule rule;
  if (form.n_ff_expert != 0) {
    TRY(read_experts(meta, overrides, config));
    rule = TRY(read_moe_rule(meta, config, kernels::kGateSoftmaxAll));
    rule.activation = kernels::kGeluTanh;
  }
  return std::unique_ptr<Model>(
      std::make_unique<Gemma>(std::move(config), form, attentions, rule, n_ff, std::max(softcap, 0.0f)));
}

}  // namespace sluice::models
