// Attention over cached latent vectors: ops::latent_attention.
#pragma once
#include "models/model.h"
#include "ops/attention.h"

namespace sluice::models {

struct LatentConfig {
  ops::LatentShape shape;
  uint32_t q_rank = 0;  // 0: queries come from the whole input
};

// Also sets what the layers cache, the config's n_rot, and the magnitude of its rope.
Result<LatentConfig> read_latent(Metadata& meta, Config& config);
// Keys' and values' projections of all heads come as two stacks, the keys' turned around, or as one matrix.
Result<ops::LatentWeights> load_latent(WeightLoader& loader, const LatentConfig& latent, const Config& config,
                                       const std::string& prefix);
// u32 (n): 0, 1, 2 ..., for ops::head_entries.
Result<uint64_t> make_head_ids(backend::Backend& backend, WeightMemory& memory, uint32_t n);

}  // namespace sluice::models
