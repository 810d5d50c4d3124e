#include "models/lfm2_common.h"

#include <fmt/format.h>

namespace sluice::models {

Result<uint32_t> read_lfm2_layers(Metadata& meta, Config& config) {
  const uint32_t n_taps = TRY(meta.count("shortconv.l_cache"));
  if (n_taps < 2 || n_taps > 64) {
    return Error(Code::unsupported,
                 fmt::format("a convolution of {} taps is not supported (2 to 64 are); use another model", n_taps));
  }
  const std::vector<uint32_t> n_kv_head = TRY(meta.per_layer("attention.head_count_kv", config.n_layer));
  for (uint32_t i = 0; i < config.n_layer; ++i) {
    LayerSpec& layer = config.layers[i];
    layer.attention =
        n_kv_head[i] != 0 && meta.file().find_tensor(fmt::format("blk.{}.shortconv.conv.weight", i)) == nullptr;
    layer.n_kv_head = layer.attention ? n_kv_head[i] : 0;
    if (!layer.attention) layer.state = {{n_taps - 1, config.n_embd}};
  }
  TRY(check_state_size(config));
  return n_taps;
}

Result<Lfm2Mixer> load_lfm2_mixer(WeightLoader& loader, const AttentionConfig& a, const Config& config, uint32_t n_taps,
                                  uint32_t layer) {
  const std::string prefix = fmt::format("blk.{}.", layer);
  Lfm2Mixer mixer;
  mixer.norm = TRY(loader.vector(prefix + "attn_norm.weight", {config.n_embd}));
  if (config.layers[layer].attention) {
    mixer.attention = TRY(load_attention(loader, a, config, config.layers[layer], prefix));
  } else {
    ops::ShortConvWeights conv;
    conv.l = n_taps;
    conv.in = TRY(loader.matrix(prefix + "shortconv.in_proj.weight", 3 * config.n_embd, config.n_embd));
    conv.out = TRY(loader.matrix(prefix + "shortconv.out_proj.weight", config.n_embd, config.n_embd));
    conv.conv = TRY(loader.vector(prefix + "shortconv.conv.weight", {n_taps, config.n_embd}));
    mixer.conv = conv;
  }
  return mixer;
}

void build_lfm2_mixer(ops::Graph& g, ops::Residual& residual, const Lfm2Mixer& mixer, const AttentionConfig& a,
                      const Config& config, const ops::RopeTable& rope, uint32_t layer) {
  if (mixer.attention) {
    g.set_stage(backend::Stage::attention);
    const auto& w = *mixer.attention;
    const ops::Tensor h = ops::rms_norm(g, residual, mixer.norm, config.eps, {&w.q, &w.k, &w.v});
    residual.pending = ops::attention(g, h, w, attention_shape(a, config.layers[layer]), rope, layer);
  } else {
    g.set_stage(backend::Stage::convolution);
    const ops::Tensor h = ops::rms_norm(g, residual, mixer.norm, config.eps, {&mixer.conv->in});
    residual.pending = ops::short_conv(g, h, *mixer.conv, layer);
  }
  g.set_stage(backend::Stage::rest);
}

}  // namespace sluice::models
