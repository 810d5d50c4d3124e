// The layers that lfm2 and lfm2moe share: each looks back either by attention or by a short convolution.
#pragma once
#include <optional>

#include "models/attention_config.h"

namespace sluice::models {

struct Lfm2Mixer {
  ops::Vector norm;
  std::optional<ops::AttentionWeights> attention;
  std::optional<ops::ShortConvWeights> conv;
};

// Fills config.layers: a layer is attention where it has key-value heads and no convolution tensors. Returns the taps.
Result<uint32_t> read_lfm2_layers(Metadata& meta, Config& config);
Result<Lfm2Mixer> load_lfm2_mixer(WeightLoader& loader, const AttentionConfig& a, const Config& config, uint32_t n_taps,
                                  uint32_t layer);
// Leaves the layer's output pending.
void build_lfm2_mixer(ops::Graph& g, ops::Residual& residual, const Lfm2Mixer& mixer, const AttentionConfig& a,
                      const Config& config, const ops::RopeTable& rope, uint32_t layer);

}  // namespace sluice::models
