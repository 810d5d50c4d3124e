// Where a model's memory goes on a device that has its own: decided before anything is loaded.
//
// What does not fit are experts, and of whole layers: a token reads only a few of a layer's experts, so they are the
// weights that lose least in host memory. Every layer is read for every token, so which layers go makes no difference;
// they are the first ones, as users know it of -ncmoe.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "models/weights.h"
#include "sluice/engine.h"

namespace sluice::engine {

class Core;

// In bytes of device memory.
struct MemoryNeeds {
  uint64_t weights = 0;                  // all but experts
  std::map<uint32_t, uint64_t> experts;  // by layer
  uint64_t fixed = 0;                    // state, scratch, and a cache whose size does not depend on the context
  uint64_t per_position = 0;             // cache and tables
};

struct MemoryPlan {
  std::vector<uint32_t> host_layers;  // whose experts lie in host memory
  std::string host_reason;
  uint32_t n_ctx = 0;
  std::string n_ctx_reason;  // not empty where n_ctx is less than wanted
};

// Of a model whose weights were checked, not loaded, with a context of n_ctx at most.
MemoryNeeds memory_needs(const Core& core, const models::WeightSizes& weights, const EngineOptions& options,
                         uint32_t n_ctx);

// `n_ctx`: the context that is wanted; less is chosen where the user gave none. `out_of_memory`, saying what is needed
// and what is free, where the options allow nothing that fits.
Result<MemoryPlan> plan_memory(const MemoryNeeds& needs, const backend::FreeMemory& free, uint32_t n_ctx,
                               const EngineOptions& options);

}  // namespace sluice::engine
