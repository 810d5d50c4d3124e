#include "backend/vulkan/api.h"

#include <fmt/format.h>

#include <mutex>

namespace sluice::backend::vulkan {
namespace {

constexpr const char* kLibraryNames[] = {"libvulkan.so.1", "libvulkan.so", "libvulkan.1.dylib", nullptr};

Error no_vulkan(std::string_view why) {
  return Error(Code::unsupported,
               fmt::format("no Vulkan here ({}); install libvulkan and the GPU's driver, or use --backend cpu", why));
}

}  // namespace

Result<const Instance*> Instance::get() {
  static std::mutex mutex;
  static const Instance* instance = nullptr;
  const std::lock_guard lock(mutex);
  if (instance == nullptr) instance = TRY(create()).release();
  return instance;
}

Result<std::unique_ptr<Instance>> Instance::create() {
  auto instance = std::make_unique<Instance>();
  auto library = DynamicLibrary::open(kLibraryNames);
  if (!library) return no_vulkan("libvulkan is missing");
  instance->library_ = std::move(*library);
  const auto get = reinterpret_cast<PFN_vkGetInstanceProcAddr>(instance->library_.symbol("vkGetInstanceProcAddr"));
  if (get == nullptr) return no_vulkan("libvulkan has no vkGetInstanceProcAddr");
  const auto create = reinterpret_cast<PFN_vkCreateInstance>(get(VK_NULL_HANDLE, "vkCreateInstance"));
  // A 1.0 loader lacks it.
  const auto version =
      reinterpret_cast<PFN_vkEnumerateInstanceVersion>(get(VK_NULL_HANDLE, "vkEnumerateInstanceVersion"));
  uint32_t found = VK_API_VERSION_1_0;
  if (create == nullptr || version == nullptr || version(&found) != VK_SUCCESS || found < VK_API_VERSION_1_2)
    return no_vulkan("libvulkan is older than 1.2");

  VkApplicationInfo application{.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO};
  application.pApplicationName = application.pEngineName = "sluice";
  application.apiVersion = VK_API_VERSION_1_2;
  VkInstanceCreateInfo info{.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO};
  info.pApplicationInfo = &application;
  if (const VkResult result = create(&info, nullptr, &instance->handle_); result != VK_SUCCESS) {
    instance->handle_ = VK_NULL_HANDLE;
    return no_vulkan(result_name(result));
  }
  bool whole = true;
#define X(name)                                                                             \
  instance->api_.name = reinterpret_cast<PFN_vk##name>(get(instance->handle_, "vk" #name)); \
  whole = whole && instance->api_.name != nullptr;
  SLUICE_VULKAN_INSTANCE(X)
#undef X
  if (!whole) return no_vulkan("libvulkan lacks functions of version 1.2");
  instance->api_.GetMatrixShapes = reinterpret_cast<decltype(InstanceApi::GetMatrixShapes)>(
      get(instance->handle_, "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR"));
  return instance;
}

Instance::~Instance() {
  if (handle_ != VK_NULL_HANDLE && api_.DestroyInstance != nullptr) api_.DestroyInstance(handle_, nullptr);
}

bool load_device_api(const InstanceApi& instance, VkDevice device, DeviceApi& api) {
  bool whole = true;
#define X(name)                                                                              \
  api.name = reinterpret_cast<PFN_vk##name>(instance.GetDeviceProcAddr(device, "vk" #name)); \
  whole = whole && api.name != nullptr;
  SLUICE_VULKAN_DEVICE(X)
#undef X
  return whole;
}

std::string_view result_name(VkResult result) {
  switch (result) {
    case VK_ERROR_OUT_OF_HOST_MEMORY:
      return "out of host memory";
    case VK_ERROR_OUT_OF_DEVICE_MEMORY:
      return "out of device memory";
    case VK_ERROR_INITIALIZATION_FAILED:
      return "initialisation failed";
    case VK_ERROR_DEVICE_LOST:
      return "the device was lost";
    case VK_ERROR_MEMORY_MAP_FAILED:
      return "memory cannot be mapped";
    case VK_ERROR_LAYER_NOT_PRESENT:
      return "a layer is missing";
    case VK_ERROR_EXTENSION_NOT_PRESENT:
      return "an extension is missing";
    case VK_ERROR_FEATURE_NOT_PRESENT:
      return "a feature is missing";
    case VK_ERROR_INCOMPATIBLE_DRIVER:
      return "no driver for this machine";
    case VK_ERROR_TOO_MANY_OBJECTS:
      return "too many objects";
    case VK_TIMEOUT:
      return "it took too long";
    default:
      return "the driver refuses";
  }
}

Error vulkan_error(VkResult result, std::string_view what) {
  switch (result) {
    case VK_ERROR_OUT_OF_HOST_MEMORY:
    case VK_ERROR_OUT_OF_DEVICE_MEMORY:
    case VK_ERROR_TOO_MANY_OBJECTS:
    case VK_ERROR_MEMORY_MAP_FAILED:
      return Error(Code::out_of_memory,
                   fmt::format("the GPU has no memory left for {} ({}); use a smaller model or --ctx-size, or "
                               "--backend cpu",
                               what, result_name(result)));
    case VK_ERROR_DEVICE_LOST:
      return Error(Code::device_lost,
                   fmt::format("the GPU stopped working during {}; load the model again, or use --backend cpu", what));
    default:
      return Error(Code::internal, fmt::format("Vulkan call for {} failed ({}, code {}); update the GPU's driver, or "
                                               "use --backend cpu",
                                               what, result_name(result), static_cast<int>(result)));
  }
}

}  // namespace sluice::backend::vulkan
