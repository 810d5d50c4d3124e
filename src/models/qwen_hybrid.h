// What qwen35moe and qwen3next share: gated delta nets, with gated attention in every few layers, and experts beside a
// gated shared one in all of them.
#pragma once
#include "models/model.h"

namespace sluice::models {

struct QwenHybridForm {
  uint32_t heads = kernels::kValueHeadsTiled;  // kernels/delta_net.h
};

Result<std::unique_ptr<Model>> create_qwen_hybrid(Metadata& meta, const Overrides& overrides,
                                                  const QwenHybridForm& form);

}  // namespace sluice::models
