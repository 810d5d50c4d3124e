// gpt-oss: attention with biases, sinks and, in every other layer, a window, rotary halves; the picked experts are
// weighted by the softmax of their logits, and have biases and a clamped activation.
#include "models/decoder.h"

namespace sluice::models {

Result<std::unique_ptr<Model>> create_gpt_oss(Metadata& meta, const Overrides& overrides) {
  DecoderForm form;
  form.attention = {.qk_norm = QkNorm::none, .qkv_bias = true, .o_bias = true, .sinks = true};
  const uint32_t n_layer = TRY(meta.count("block_count"));
  form.windows = TRY(read_windows(meta, n_layer, 2));
  form.ffn_norm = "post_attention_norm.weight";
  form.n_ff_expert = TRY(meta.count("expert_feed_forward_length"));
  form.gate = kernels::kGateSoftmaxPicked;
  form.expert_biases = true;
  form.activation = kernels::kClampedSwiglu;
  return create_decoder(meta, overrides, form);
}

}  // namespace sluice::models
