// The Vulkan functions that are used, found in libvulkan at run time: a program that never asks for Vulkan needs none.
#pragma once
#define VK_NO_PROTOTYPES
#include <vulkan/vulkan.h>

#include <memory>
#include <string_view>

#include "base/dynamic_library.h"

namespace sluice::backend::vulkan {

#define SLUICE_VULKAN_INSTANCE(X)           \
  X(DestroyInstance)                        \
  X(EnumeratePhysicalDevices)               \
  X(GetPhysicalDeviceProperties2)           \
  X(GetPhysicalDeviceFeatures2)             \
  X(GetPhysicalDeviceMemoryProperties2)     \
  X(GetPhysicalDeviceQueueFamilyProperties) \
  X(EnumerateDeviceExtensionProperties)     \
  X(CreateDevice)                           \
  X(GetDeviceProcAddr)

#define SLUICE_VULKAN_DEVICE(X)  \
  X(DestroyDevice)               \
  X(DeviceWaitIdle)              \
  X(GetDeviceQueue)              \
  X(AllocateMemory)              \
  X(FreeMemory)                  \
  X(MapMemory)                   \
  X(CreateBuffer)                \
  X(DestroyBuffer)               \
  X(GetBufferMemoryRequirements) \
  X(BindBufferMemory)            \
  X(GetBufferDeviceAddress)      \
  X(CreateShaderModule)          \
  X(DestroyShaderModule)         \
  X(CreatePipelineLayout)        \
  X(DestroyPipelineLayout)       \
  X(CreateComputePipelines)      \
  X(DestroyPipeline)             \
  X(CreateCommandPool)           \
  X(DestroyCommandPool)          \
  X(AllocateCommandBuffers)      \
  X(FreeCommandBuffers)          \
  X(BeginCommandBuffer)          \
  X(EndCommandBuffer)            \
  X(CmdBindPipeline)             \
  X(CmdPushConstants)            \
  X(CmdDispatch)                 \
  X(CmdDispatchIndirect)         \
  X(CmdPipelineBarrier)          \
  X(CmdCopyBuffer)               \
  X(CmdResetQueryPool)           \
  X(CmdWriteTimestamp)           \
  X(CreateQueryPool)             \
  X(DestroyQueryPool)            \
  X(GetQueryPoolResults)         \
  X(CreateSemaphore)             \
  X(DestroySemaphore)            \
  X(GetSemaphoreCounterValue)    \
  X(WaitSemaphores)              \
  X(QueueSubmit)

// What is asked of VK_KHR_cooperative_matrix; the oldest headers that this is built with do not know it.
struct MatrixShape {
  VkStructureType sType = static_cast<VkStructureType>(1000506001);
  void* pNext = nullptr;
  uint32_t m = 0, n = 0, k = 0;
  int32_t a = 0, b = 0, c = 0, result = 0;  // VkComponentTypeKHR
  VkBool32 saturating = 0;
  int32_t scope = 0;  // VkScopeKHR
};
constexpr int32_t kMatrixF16 = 0, kMatrixF32 = 1, kMatrixOfSubgroup = 3;

struct InstanceApi {
  VkResult(VKAPI_PTR* GetMatrixShapes)(VkPhysicalDevice, uint32_t*, MatrixShape*) = nullptr;  // may be missing
#define X(name) PFN_vk##name name = nullptr;
  SLUICE_VULKAN_INSTANCE(X)
#undef X
};

struct DeviceApi {
#define X(name) PFN_vk##name name = nullptr;
  SLUICE_VULKAN_DEVICE(X)
#undef X
};

// A loaded library and an instance of it.
class Instance {
 public:
  // One for the process, which stays until its end: drivers refuse after some tens of instances (NVIDIA 580: after 30),
  // however many of them are gone. `unsupported`, saying why, where this machine has no Vulkan.
  static Result<const Instance*> get();
  ~Instance();
  Instance() = default;
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  const InstanceApi& api() const { return api_; }
  VkInstance handle() const { return handle_; }

 private:
  static Result<std::unique_ptr<Instance>> create();

  DynamicLibrary library_;
  VkInstance handle_ = VK_NULL_HANDLE;
  InstanceApi api_;
};

// All functions of `device`; false where one is missing.
bool load_device_api(const InstanceApi& instance, VkDevice device, DeviceApi& api);

// "out of device memory" and the like.
std::string_view result_name(VkResult result);
// What a failed call means to the user: memory, a lost device, or a driver that refuses.
Error vulkan_error(VkResult result, std::string_view what);

}  // namespace sluice::backend::vulkan
