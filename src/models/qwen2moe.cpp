// Qwen2-MoE: attention with q, k and v biases, rotary halves; softmax over all experts, the picked weights as they are,
// beside a shared expert that a sigmoid weights.
#include "models/decoder.h"

namespace sluice::models {

Result<std::unique_ptr<Model>> create_qwen2moe(Metadata& meta, const Overrides& overrides) {
  DecoderForm form;
  form.attention = {.qk_norm = QkNorm::none, .qkv_bias = true};
  form.n_ff_expert = TRY(meta.count("expert_feed_forward_length"));
  form.n_ff_shared = TRY(meta.count("expert_shared_feed_forward_length"));
  form.shared_gate = true;
  form.renormalise = false;
  return create_decoder(meta, overrides, form);
}

}  // namespace sluice::models
