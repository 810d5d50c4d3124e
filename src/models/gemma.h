// The Gemma family from its third generation on: norms before and after attention and feed-forward network, some layers
// with a window of positions and rotary angles of their own, GELU. The fourth may have experts beside the network.
#pragma once
#include "models/attention_config.h"

namespace sluice::models {

struct GemmaForm {
  AttentionForm attention;
  uint32_t period = 1;         // every so many layers see all positions, where the file does not say which
  bool scales_layers = false;  // the stream is multiplied by a number after each layer
  uint32_t n_ff_expert = 0;    // 0: no experts
};

Result<std::unique_ptr<Model>> create_gemma(Metadata& meta, const Overrides& overrides, const GemmaForm& form);

}  // namespace sluice::models
