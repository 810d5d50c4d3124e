// Qwen3: attention with q and k norms and rotary halves, dense feed-forward networks.
#include "models/decoder.h"

namespace sluice::models {

Result<std::unique_ptr<Model>> create_qwen3(Metadata& meta, const Overrides& overrides) {
  return create_decoder(meta, overrides, {});
}

}  // namespace sluice::models
