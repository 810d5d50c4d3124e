// DeepSeek-V2 and V3: attention over latent vectors; after the leading dense layers experts, from the best groups of
// them where the file has groups, beside shared experts. V2 takes softmax, V3 sigmoid plus bias; what is done to the
// weights the file says.
#include <fmt/format.h>

#include "models/decoder.h"

namespace sluice::models {

Result<std::unique_ptr<Model>> create_deepseek2(Metadata& meta, const Overrides& overrides) {
  DecoderForm form;
  form.latent = true;
  form.rope_style = 1;
  form.n_ff_expert = TRY(meta.count("expert_feed_forward_length"));
  form.n_dense = TRY(meta.number_or("leading_dense_block_count", 0));
  form.renormalise = false;
  const std::string bias = fmt::format("blk.{}.exp_probs_b.bias", form.n_dense);
  form.selection_bias = meta.file().find_tensor(bias) != nullptr;
  form.n_ff_shared = TRY(read_shared_width(meta, form.n_ff_expert));
  return create_decoder(meta, overrides, form);
}

}  // namespace sluice::models
