// ERNIE 4.5 MoE: rotary pairs side by side; after the leading dense layers softmax over all experts, picked with a bias
// that the renormalised weights do not see, beside a shared expert.
#include "models/decoder.h"

namespace sluice::models {

Result<std::unique_ptr<Model>> create_ernie4_5_moe(Metadata& meta, const Overrides& overrides) {
  DecoderForm form;
  form.attention.qk_norm = QkNorm::none;
  form.rope_style = 1;
  form.n_ff_expert = TRY(meta.count("expert_feed_forward_length"));
  form.n_dense = TRY(meta.number_or("leading_dense_block_count", 0));
  form.selection_bias = true;
  TRY(meta.number_or("expert_shared_count", 0));  // the width is that of all of them
  form.n_ff_shared = TRY(meta.number_or("expert_shared_feed_forward_length", 0));
  return create_decoder(meta, overrides, form);
}

}  // namespace sluice::models
