// Qwen3.5-MoE and Qwen3.6-MoE. Their rotary sections are for images: of text all positions of a token are the same.
#include "models/qwen_hybrid.h"

namespace sluice::models {

Result<std::unique_ptr<Model>> create_qwen35moe(Metadata& meta, const Overrides& overrides) {
  return create_qwen_hybrid(meta, overrides, {.heads = kernels::kValueHeadsTiled});
}

}  // namespace sluice::models
