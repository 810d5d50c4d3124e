// Qwen2: attention with q, k and v biases and rotary halves, dense feed-forward networks.
#include "models/decoder.h"

namespace sluice::models {

Result<std::unique_ptr<Model>> create_qwen2(Metadata& meta, const Overrides& overrides) {
  DecoderForm form;
  form.attention = {.qk_norm = QkNorm::none, .qkv_bias = true};
  return create_decoder(meta, overrides, form);
}

}  // namespace sluice::models
