// Grouped-query attention with q and k norms, as lfm2, lfm2moe and qwen3moe have it.
#pragma once
#include "models/model.h"
#include "ops/attention.h"

namespace sluice::models {

// Head counts and sizes common to all attention layers.
struct AttentionConfig {
  uint32_t n_head = 0, d_k = 0, d_v = 0;
  uint32_t n_rot = 0;
};

// Also sets the config's n_rot, and the head sizes of its attention layers.
Result<AttentionConfig> read_attention(Metadata& meta, Config& config);
ops::AttentionShape attention_shape(const AttentionConfig& a, const Config& config, const LayerSpec& layer);
Result<ops::AttentionWeights> load_attention(WeightLoader& loader, const AttentionConfig& a, const Config& config,
                                             const LayerSpec& layer, const std::string& prefix);

}  // namespace sluice::models
