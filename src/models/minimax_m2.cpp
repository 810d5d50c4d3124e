// MiniMax-M2: q and k norms over all heads at once, rotary halves of a part of each head; experts picked by sigmoid
// plus bias, weighted by the renormalised sigmoid.
#include "models/decoder.h"

namespace sluice::models {

Result<std::unique_ptr<Model>> create_minimax_m2(Metadata& meta, const Overrides& overrides) {
  DecoderForm form;
  form.attention.qk_norm = QkNorm::all_heads;
  form.n_ff_expert = TRY(meta.count("expert_feed_forward_length"));
  form.gate = kernels::kGateSigmoid;
  form.selection_bias = true;
  return create_decoder(meta, overrides, form);
}

}  // namespace sluice::models
