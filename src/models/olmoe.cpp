// OLMoE: q and k norms over all heads at once, rotary halves; softmax over all experts, the picked weights as they are.
#include "models/decoder.h"

namespace sluice::models {

Result<std::unique_ptr<Model>> create_olmoe(Metadata& meta, const Overrides& overrides) {
  DecoderForm form;
  form.attention.qk_norm = QkNorm::all_heads;
  form.n_ff_expert = TRY(meta.count("feed_forward_length"));
  form.renormalise = false;
  return create_decoder(meta, overrides, form);
}

}  // namespace sluice::models
