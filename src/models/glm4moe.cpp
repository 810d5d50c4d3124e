// GLM-4.5: attention with q, k and v biases, in larger models q and k norms, rotary halves of a part of each head;
// after the leading dense layers experts picked by sigmoid plus bias, weighted by the renormalised and scaled sigmoid,
// beside a shared expert.
#include "models/decoder.h"

namespace sluice::models {

Result<std::unique_ptr<Model>> create_glm4moe(Metadata& meta, const Overrides& overrides) {
  DecoderForm form;
  const bool norms = meta.file().find_tensor("blk.0.attn_q_norm.weight") != nullptr;
  form.attention = {.qk_norm = norms ? QkNorm::per_head : QkNorm::none, .qkv_bias = true};
  form.ffn_norm = "post_attention_norm.weight";
  form.n_ff_expert = TRY(meta.count("expert_feed_forward_length"));
  form.n_dense = TRY(meta.number_or("leading_dense_block_count", 0));
  form.gate = kernels::kGateSigmoid;
  form.selection_bias = true;
  form.n_ff_shared = TRY(read_shared_width(meta, form.n_ff_expert));
  return create_decoder(meta, overrides, form);
}

}  // namespace sluice::models
