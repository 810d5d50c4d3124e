// How rotary angles are stretched for contexts beyond the one that a model was first trained on.
#pragma once
#include "models/metadata.h"
#include "models/weights.h"

namespace sluice::models {

struct Config;

struct RopeScaling {
  enum class Kind : uint8_t { none, linear, yarn };
  Kind kind = Kind::none;
  float factor = 1;
  uint32_t n_ctx_original = 0;          // 0: the file does not say
  float beta_fast = 32, beta_slow = 1;  // turns over the original context between which yarn goes from one to the other
  float magnitude = 1;                  // of sines and cosines
};

Result<RopeScaling> read_rope_scaling(Metadata& meta);
// What yarn multiplies sines and cosines by where nothing else is said (Peng et al. 2023).
float yarn_magnitude(float factor);

// The table of a model whose heads rotate config.n_rot values. Asks for the tensors with divisors of the angles that a
// file may have: rope_freqs, or one of two for short and long contexts.
Result<ops::RopeTable> load_rope_table(WeightLoader& loader, backend::Backend* backend, WeightMemory& memory,
                                       uint32_t n_ctx, const Config& config, uint32_t style);

}  // namespace sluice::models
