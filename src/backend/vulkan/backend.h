// The Vulkan backend: memory and launches. Kernels come as SPIR-V from the build (backend/blobs.h), arguments travel as
// push constants, pointers are buffer device addresses.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "backend/blobs.h"
#include "backend/registry.h"

namespace sluice::backend::vulkan {

Result<std::unique_ptr<Backend>> open(const Options& options);
// With other kernels than this build's: for tests. `kernels` outlives the backend.
Result<std::unique_ptr<Backend>> open_with(const Options& options, std::span<const Blob> kernels);

Result<std::vector<DeviceInfo>> list();

}  // namespace sluice::backend::vulkan
