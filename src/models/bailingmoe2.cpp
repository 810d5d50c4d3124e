// Ling 2 and Ring 2: attention with q and k norms, rotary halves of a part of each head; after the leading dense layers
// experts of the best groups, picked by sigmoid plus bias, weighted by the renormalised and scaled sigmoid, beside a
// shared expert.
#include <fmt/format.h>

#include "models/decoder.h"

namespace sluice::models {

Result<std::unique_ptr<Model>> create_bailingmoe2(Metadata& meta, const Overrides& overrides) {
  DecoderForm form;
  form.n_ff_expert = TRY(meta.count("expert_feed_forward_length"));
  form.n_dense = TRY(meta.number_or("leading_dense_block_count", 0));
  form.gate = kernels::kGateSigmoid;
  const std::string bias = fmt::format("blk.{}.exp_probs_b.bias", form.n_dense);
  form.selection_bias = meta.file().find_tensor(bias) != nullptr;
  const uint32_t n_ff_shared = TRY(meta.number_or("expert_shared_feed_forward_length", form.n_ff_expert));
  form.n_ff_shared = TRY(read_shared_width(meta, n_ff_shared));
  return create_decoder(meta, overrides, form);
}

}  // namespace sluice::models
