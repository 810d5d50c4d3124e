#include "backend/vulkan/pipelines.h"

#include <fmt/format.h>

#include <cstring>

#include "sluice/type.h"

namespace sluice::backend::vulkan {
namespace {

constexpr uint8_t number(BlobVariant variant) { return static_cast<uint8_t>(variant); }

// As launches name it: attention's variant is the type of V. A blob's own variant is no launch's affair where they all
// give the same bits: the device takes the best that it runs.
KernelKey key_of(const Blob& blob) {
  const bool attends =
      blob.id == KernelId::attn_decode || blob.id == KernelId::attn_prefill || blob.id == KernelId::attn_split;
  KernelKey key{.id = blob.id, .type = blob.type};
  if (attends) key.variant = static_cast<uint8_t>(blob.type2);
  if (blob.variant >= number(BlobVariant::matrix16)) key.variant |= kMatrixVariant;
  return key;
}

// Threads of a subgroup, where the blob counts on that.
uint32_t subgroup_of(const Blob& blob) {
  if (blob.variant == number(BlobVariant::portable)) return 0;
  return blob.variant == number(BlobVariant::matrix8) ? 8 : 32;
}

std::string missing_of(const Blob& blob, const Features& features) {
  if (blob.variant == number(BlobVariant::matrix16) && !features.matrix16) return "matrices of 16 x 16";
  if (blob.variant == number(BlobVariant::matrix8) && !features.matrix8) return "matrices of 8 x 8";
  if (subgroup_of(blob) == 32 && !features.subgroups_of_32) return "subgroups of 32 threads";
  return {};
}

}  // namespace

Pipelines::~Pipelines() {
  if (device_->lost) return;
  for (const Kernel& kernel : kernels_) device_->api.DestroyPipeline(device_->handle, kernel.pipeline, nullptr);
  device_->api.DestroyPipelineLayout(device_->handle, layout_, nullptr);
}

Result<void> Pipelines::create(std::span<const Blob> kernels) {
  VkPushConstantRange range{};
  range.stageFlags = VK_SHADER_STAGE_COMPUTE_BIT;
  range.size = sizeof(Launch::args);
  VkPipelineLayoutCreateInfo info{.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO};
  info.pushConstantRangeCount = 1;
  info.pPushConstantRanges = &range;
  if (const VkResult result = device_->api.CreatePipelineLayout(device_->handle, &info, nullptr, &layout_);
      result != VK_SUCCESS)
    return vulkan_error(result, "a pipeline layout");
  for (const Blob& blob : kernels) {
    const Needs needs = TRY(read_needs(blob.code));
    Kernel kernel{key_of(blob), &blob, missing(needs, blob.group, device_->physical)};
    if (kernel.missing.empty()) kernel.missing = missing_of(blob, device_->physical.features);
    kernels_.push_back(kernel);
  }
  return {};
}

const Pipelines::Kernel* Pipelines::find(const KernelKey& key) const {
  const Kernel* best = nullptr;
  for (const Kernel& kernel : kernels_) {
    if (kernel.key != key || !kernel.missing.empty()) continue;
    if (best == nullptr || kernel.blob->variant > best->blob->variant) best = &kernel;
  }
  return best;
}

Result<VkPipeline> Pipelines::get(const KernelKey& key) {
  auto* kernel = const_cast<Kernel*>(find(key));
  if (kernel == nullptr) {
    std::string why = "it is not in this build";
    for (const Kernel& other : kernels_) {
      if (other.key == key) why = fmt::format("this GPU lacks {}", other.missing);
    }
    return Error(Code::unsupported,
                 fmt::format("the vulkan backend has no kernel {} for type {} ({}); use --backend cpu",
                             kernel_name(key.id), type_info(key.type).name, why));
  }
  if (kernel->pipeline != VK_NULL_HANDLE) return kernel->pipeline;
  std::vector<uint32_t> words(kernel->blob->code.size() / sizeof(uint32_t));
  std::memcpy(words.data(), kernel->blob->code.data(), words.size() * sizeof(uint32_t));
  VkShaderModuleCreateInfo module_info{.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO};
  module_info.codeSize = words.size() * sizeof(uint32_t);
  module_info.pCode = words.data();
  VkShaderModule module = VK_NULL_HANDLE;
  VkResult result = device_->api.CreateShaderModule(device_->handle, &module_info, nullptr, &module);
  if (result == VK_SUCCESS) {
    const std::string entry(kernel->blob->entry);
    VkComputePipelineCreateInfo info{.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO};
    info.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
    info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
    info.stage.module = module;
    info.stage.pName = entry.c_str();
    info.layout = layout_;
    VkPipelineShaderStageRequiredSubgroupSizeCreateInfo subgroup{
        .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO};
    subgroup.requiredSubgroupSize = subgroup_of(*kernel->blob);
    if (subgroup.requiredSubgroupSize != 0) {
      info.stage.flags = VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT;
      info.stage.pNext = &subgroup;
    }
    result = device_->api.CreateComputePipelines(device_->handle, VK_NULL_HANDLE, 1, &info, nullptr, &kernel->pipeline);
    device_->api.DestroyShaderModule(device_->handle, module, nullptr);
  }
  if (result != VK_SUCCESS) {
    kernel->pipeline = VK_NULL_HANDLE;
    return vulkan_error(result, fmt::format("kernel {} for type {}", kernel_name(key.id), type_info(key.type).name));
  }
  return kernel->pipeline;
}

}  // namespace sluice::backend::vulkan
