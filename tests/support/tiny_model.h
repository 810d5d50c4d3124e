// Tiny random models as GgufBuilders, to be broken or varied before they are written.
#pragma once
#include "support/gguf_builder.h"

namespace sluice::test {

struct TinyShape {
  uint32_t n_embd = 64, n_head = 4, n_kv_head = 2, n_ff = 96, n_ff_expert = 32, n_vocab = 48;
  uint32_t n_expert = 6, n_used = 2;
  Type expert_type = Type::F32;
};

// Two layers: a dense one with a convolution, a routed one with attention.
GgufBuilder tiny_lfm2moe(const TinyShape& shape = {});
// Two routed layers with attention, as Mixtral; its experts stacked, or a tensor for each.
GgufBuilder tiny_mixtral(bool stacked);
// Two routed layers with attention.
GgufBuilder tiny_qwen3moe(const TinyShape& shape = {});

}  // namespace sluice::test
