// Grouped-query attention: what architectures have in common, and how they differ.
#pragma once
#include "models/model.h"
#include "ops/attention.h"

namespace sluice::models {

enum class QkNorm : uint8_t { none, per_head, all_heads };

struct AttentionForm {
  QkNorm qk_norm = QkNorm::per_head;
  bool qkv_bias = false, o_bias = false;
  bool sinks = false;  // kernels/attn_decode.h
  float scale = 0;     // of the scores; 0: 1 / sqrt(d_k)
  bool gated = false;  // q's rows are every head's query, then its gate
  bool rotary = true;
  bool v_norm = false;      // each head's values are brought to length sqrt(d_v)
  bool k_may_be_v = false;  // without attn_v, what attn_k gives is the value, too
};

// Head counts and sizes common to all attention layers.
struct AttentionConfig {
  AttentionForm form;
  uint32_t n_head = 0, d_k = 0, d_v = 0;
  uint32_t n_rot = 0;
  float eps = 0;  // of the q and k norms
};

// Also sets the config's n_rot, and the head sizes of its attention layers.
Result<AttentionConfig> read_attention(Metadata& meta, Config& config, const AttentionForm& form = {});
// The windows of all layers: `attention.sliding_window` positions, in all but every period-th layer where the file does
// not say which; none (0) where it has no such key.
Result<std::vector<uint32_t>> read_windows(Metadata& meta, uint32_t n_layer, uint32_t period);
ops::AttentionShape attention_shape(const AttentionConfig& a, const LayerSpec& layer);
Result<ops::AttentionWeights> load_attention(WeightLoader& loader, const AttentionConfig& a, const Config& config,
                                             const LayerSpec& layer, const std::string& prefix);

}  // namespace sluice::models
