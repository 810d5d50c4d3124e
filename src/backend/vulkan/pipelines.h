// The kernels that the device runs, and their pipelines, made when they are first needed.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "backend/blobs.h"
#include "backend/vulkan/device.h"

namespace sluice::backend::vulkan {

class Pipelines {
 public:
  explicit Pipelines(std::shared_ptr<Device> device) : device_(std::move(device)) {}
  ~Pipelines();
  Result<void> create(std::span<const Blob> kernels);

  bool has(const KernelKey& key) const { return find(key) != nullptr; }
  Result<VkPipeline> get(const KernelKey& key);
  VkPipelineLayout layout() const { return layout_; }

 private:
  struct Kernel {
    KernelKey key;
    const Blob* blob;
    std::string missing;  // what the device lacks
    VkPipeline pipeline = VK_NULL_HANDLE;
  };
  const Kernel* find(const KernelKey& key) const;

  std::shared_ptr<Device> device_;
  VkPipelineLayout layout_ = VK_NULL_HANDLE;
  std::vector<Kernel> kernels_;
};

}  // namespace sluice::backend::vulkan
