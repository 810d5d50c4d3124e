// Gemma 3: dense; five of six layers have a window; q and k norms.
#include <cmath>

#include "models/gemma.h"

namespace sluice::models {

Result<std::unique_ptr<Model>> create_gemma3(Metadata& meta, const Overrides& overrides) {
  GemmaForm form;
  form.period = 6;
  // The 27B model alone scales its scores by the width of a head's share of the stream.
  if (TRY(meta.count("block_count")) == 62) {
    const auto share = static_cast<float>(TRY(meta.count("embedding_length"))) /
                       static_cast<float>(TRY(meta.count("attention.head_count")));
    form.attention.scale = 1 / std::sqrt(share);
  }
  return create_gemma(meta, overrides, form);
}

}  // namespace sluice::models
