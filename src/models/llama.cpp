// Llama, and Mixtral where the file has experts: rotary pairs side by side, their angles divided by rope_freqs where
// there are any; the picked experts are weighted by the softmax of their logits.
#include "models/decoder.h"

namespace sluice::models {

Result<std::unique_ptr<Model>> create_llama(Metadata& meta, const Overrides& overrides) {
  DecoderForm form;
  form.attention.qk_norm = QkNorm::none;
  form.rope_style = 1;
  if (TRY(meta.number_or("expert_count", 0)) != 0) {
    form.n_ff_expert = TRY(meta.count("feed_forward_length"));
    form.gate = kernels::kGateSoftmaxPicked;
  } else {
    TRY(meta.number_or("expert_used_count", 0));
  }
  return create_decoder(meta, overrides, form);
}

}  // namespace sluice::models
