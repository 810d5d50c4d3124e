// Gemma 4: values are normed, scores not scaled; full layers may take their keys for values. In its mixture form
// experts work beside the dense network: softmax over all, the picked weights renormalised, then scaled by the expert.
#include "models/gemma.h"

namespace sluice::models {

Result<std::unique_ptr<Model>> create_gemma4(Metadata& meta, const Overrides& overrides) {
  GemmaForm form;
  form.attention = {.scale = 1, .v_norm = true, .k_may_be_v = true};
  form.period = 6;
  form.scales_layers = true;
  if (TRY(meta.number_or("expert_count", 0)) != 0) form.n_ff_expert = TRY(meta.count("expert_feed_forward_length"));
  return create_gemma(meta, overrides, form);
}

}  // namespace sluice::models
