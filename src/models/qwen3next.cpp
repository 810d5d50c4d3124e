// Qwen3-Next: as Qwen3.5-MoE, but the value heads of a key head lie next to each other, and so do their betas and
// alphas in one matrix.
#include "models/qwen_hybrid.h"

namespace sluice::models {

Result<std::unique_ptr<Model>> create_qwen3next(Metadata& meta, const Overrides& overrides) {
  TRY(meta.number_or("feed_forward_length", 0));  // of dense layers, which it does not have
  return create_qwen_hybrid(meta, overrides, {.heads = kernels::kValueHeadsGrouped});
}

}  // namespace sluice::models
