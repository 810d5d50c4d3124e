// LFM2: layers of grouped-query attention (q and k norms, rotary halves) or of gated short convolution, each followed
// by a SwiGLU network. The final norm is named token_embd_norm; the output matrix is the embedding where the file has
// no other.
#include <fmt/format.h>

#include "models/lfm2_common.h"
#include "ops/linear.h"

namespace sluice::models {
namespace {

class Lfm2 final : public Model {
 public:
  Lfm2(Config config, AttentionConfig a, uint32_t n_taps, std::vector<uint32_t> n_ff)
      : Model(std::move(config)), attention_(a), n_taps_(n_taps), n_ff_(std::move(n_ff)) {}

  Result<void> load(WeightLoader& loader, backend::Backend* backend, uint32_t n_ctx, WeightMemory& memory) override {
    layers_.clear();
    token_embd_ = TRY(loader.matrix("token_embd.weight", config_.n_vocab, config_.n_embd));
    for (uint32_t i = 0; i < config_.n_layer; ++i) {
      const std::string prefix = fmt::format("blk.{}.", i);
      Layer layer;
      layer.mixer = TRY(load_lfm2_mixer(loader, attention_, config_, n_taps_, i));
      layer.ffn_norm = TRY(loader.vector(prefix + "ffn_norm.weight", {config_.n_embd}));
      layer.ffn = TRY(load_dense_ffn(loader, config_, n_ff_[i], prefix));
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
      const ops::Tensor h = ops::rms_norm(g, residual, layer.ffn_norm, config_.eps, {&layer.ffn.gate, &layer.ffn.up});
      residual.pending = ops::dense_ffn(g, h, layer.ffn.gate, layer.ffn.up, layer.ffn.down);
    }
    return residual;
  }

 private:
  struct Layer {
    Lfm2Mixer mixer;
    ops::Vector ffn_norm;
    DenseFfn ffn;
  };
  AttentionConfig attention_;
  uint32_t n_taps_;
  std::vector<uint32_t> n_ff_;
  ops::RopeTable rope_;
  std::vector<Layer> layers_;
};

}  // namespace

Result<std::unique_ptr<Model>> create_lfm2(Metadata& meta, const Overrides& overrides) {
  (void)overrides;
  Config config = TRY(common_config(meta));
  const uint32_t n_taps = TRY(read_lfm2_layers(meta, config));
  const AttentionConfig a = TRY(read_attention(meta, config));
  std::vector<uint32_t> n_ff = TRY(meta.per_layer("feed_forward_length", config.n_layer));
  return std::unique_ptr<Model>(std::make_unique<Lfm2>(std::move(config), a, n_taps, std::move(n_ff)));
}

}  // namespace sluice::models
