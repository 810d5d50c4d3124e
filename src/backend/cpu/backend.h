// The CPU backend: host memory, a thread pool that walks a plan's launches, and a table of kernels per instruction-set
// tier.
#pragma once
#include <memory>

#include "backend/backend.h"
#include "backend/registry.h"

namespace sluice::backend::cpu {

Result<std::unique_ptr<Backend>> open(const Options& options);

// Which code a key runs on this backend: the name of a tier or "reference"; "" where has() is false. For tests that
// prove a forced tier ran. `backend` is one that open() made.
std::string_view kernel_tier(const Backend& backend, const KernelKey& key);

}  // namespace sluice::backend::cpu
