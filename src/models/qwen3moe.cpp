// Qwen3-MoE: attention with q and k norms and rotary halves, experts in every layer; softmax over all experts, the
// picked weights renormalised.
#include "models/decoder.h"

namespace sluice::models {

Result<std::unique_ptr<Model>> create_qwen3moe(Metadata& meta, const Overrides& overrides) {
  DecoderForm form;
  form.n_ff_expert = TRY(meta.count("expert_feed_forward_length"));
  return create_decoder(meta, overrides, form);
}

}  // namespace sluice::models
