#include "backend/vulkan/device.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <functional>
#include <map>

#include "base/text.h"

namespace sluice::backend::vulkan {
namespace {

#ifndef VK_KHR_cooperative_matrix  // newer than the oldest headers that this is built with
struct CooperativeMatrixFeatures {
  VkStructureType sType;
  void* pNext;
  VkBool32 cooperativeMatrix, cooperativeMatrixRobustBufferAccess;
};
constexpr auto kCooperativeMatrixFeatures = static_cast<VkStructureType>(1000506000);
#else
using CooperativeMatrixFeatures = VkPhysicalDeviceCooperativeMatrixFeaturesKHR;
constexpr auto kCooperativeMatrixFeatures = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR;
#endif
constexpr const char* kCooperativeMatrix = "VK_KHR_cooperative_matrix";

// The structs that vkGetPhysicalDeviceFeatures2 fills and vkCreateDevice reads, chained.
struct FeatureChain {
  VkPhysicalDeviceFeatures2 core{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2};
  VkPhysicalDeviceVulkan11Features v11{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES};
  VkPhysicalDeviceVulkan12Features v12{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES};
  VkPhysicalDeviceShaderIntegerDotProductFeatures dot{
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES};
  CooperativeMatrixFeatures matrix{};
  VkPhysicalDeviceSubgroupSizeControlFeatures subgroups{
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES};
  std::vector<const char*> extensions;

  FeatureChain(bool with_dot, bool with_matrix, bool with_subgroups) {
    matrix.sType = kCooperativeMatrixFeatures;
    core.pNext = &v11;
    v11.pNext = &v12;
    void** end = &v12.pNext;
    if (with_dot) {
      extensions.push_back(VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME);
      *end = &dot;
      end = &dot.pNext;
    }
    if (with_matrix) {
      extensions.push_back(kCooperativeMatrix);
      *end = &matrix;
      end = &matrix.pNext;
    }
    if (with_subgroups) {
      extensions.push_back(VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME);
      *end = &subgroups;
    }
  }
  FeatureChain(const FeatureChain&) = delete;
  FeatureChain& operator=(const FeatureChain&) = delete;

  // Each feature is enabled by exactly the fields that stand for it.
  void set(const Features& f) {
    core.features.shaderInt16 = f.int16;
    core.features.shaderInt64 = f.int64;
    v11.storageBuffer16BitAccess = f.storage16;
    v11.storagePushConstant16 = f.push16;
    v12.storageBuffer8BitAccess = f.storage8;
    v12.storagePushConstant8 = f.push8;
    v12.shaderFloat16 = f.fp16;
    v12.shaderInt8 = f.int8;
    v12.scalarBlockLayout = f.scalar_layout;
    v12.vulkanMemoryModel = v12.vulkanMemoryModelDeviceScope = f.memory_model;
    v12.bufferDeviceAddress = f.device_address;
    v12.timelineSemaphore = f.timeline;
    dot.shaderIntegerDotProduct = f.dot_product;
    matrix.cooperativeMatrix = f.cooperative_matrix;
    subgroups.subgroupSizeControl = subgroups.computeFullSubgroups = f.subgroups_of_32 || f.matrix8;
  }
  void get(Features& f) const {
    f.int16 = core.features.shaderInt16;
    f.int64 = core.features.shaderInt64;
    f.storage16 = v11.storageBuffer16BitAccess;
    f.push16 = v11.storagePushConstant16;
    f.storage8 = v12.storageBuffer8BitAccess;
    f.push8 = v12.storagePushConstant8;
    f.fp16 = v12.shaderFloat16;
    f.int8 = v12.shaderInt8;
    f.scalar_layout = v12.scalarBlockLayout;
    f.memory_model = v12.vulkanMemoryModel != 0 && v12.vulkanMemoryModelDeviceScope != 0;
    f.device_address = v12.bufferDeviceAddress;
    f.timeline = v12.timelineSemaphore;
    f.dot_product = dot.shaderIntegerDotProduct;
    f.cooperative_matrix = matrix.cooperativeMatrix;
    f.subgroups_of_32 = subgroups.subgroupSizeControl != 0 && subgroups.computeFullSubgroups != 0;
  }
};

std::vector<std::string> extensions_of(const InstanceApi& api, VkPhysicalDevice device) {
  uint32_t n = 0;
  api.EnumerateDeviceExtensionProperties(device, nullptr, &n, nullptr);
  std::vector<VkExtensionProperties> properties(n);
  api.EnumerateDeviceExtensionProperties(device, nullptr, &n, properties.data());
  std::vector<std::string> names;
  for (uint32_t i = 0; i < std::min<size_t>(n, properties.size()); ++i) names.emplace_back(properties[i].extensionName);
  return names;
}

// Whether it multiplies f16 matrices of size x size, with F32 sums, by subgroups.
bool multiplies(const InstanceApi& api, VkPhysicalDevice device, uint32_t size) {
  uint32_t n = 0;
  if (api.GetMatrixShapes == nullptr || api.GetMatrixShapes(device, &n, nullptr) != VK_SUCCESS) return false;
  std::vector<MatrixShape> shapes(n);
  if (api.GetMatrixShapes(device, &n, shapes.data()) < 0) return false;
  return std::any_of(shapes.begin(), shapes.end(), [size](const MatrixShape& s) {
    return s.m == size && s.n == size && s.k == size && s.a == kMatrixF16 && s.b == kMatrixF16 && s.c == kMatrixF32 &&
           s.result == kMatrixF32 && s.scope == kMatrixOfSubgroup;
  });
}

// A queue that computes and tells the time; one without graphics where there is a choice.
void choose_queue(const InstanceApi& api, PhysicalDevice& device) {
  uint32_t n = 0;
  api.GetPhysicalDeviceQueueFamilyProperties(device.handle, &n, nullptr);
  std::vector<VkQueueFamilyProperties> families(n);
  api.GetPhysicalDeviceQueueFamilyProperties(device.handle, &n, families.data());
  int best = 0;
  for (uint32_t i = 0; i < n; ++i) {
    if ((families[i].queueFlags & VK_QUEUE_COMPUTE_BIT) == 0 || families[i].queueCount == 0) continue;
    const int score = 1 + (families[i].timestampValidBits == 64 ? 2 : 0) +
                      ((families[i].queueFlags & VK_QUEUE_GRAPHICS_BIT) == 0 ? 1 : 0);
    if (score <= best) continue;
    best = score;
    device.queue_family = i;
    device.features.timestamps = families[i].timestampValidBits == 64;
  }
}

using Heaps = std::array<uint64_t, VK_MAX_MEMORY_HEAPS>;

// Properties of the memory, and what is free of each heap.
Heaps read_heaps(const InstanceApi& api, VkPhysicalDevice device, bool with_budget,
                 VkPhysicalDeviceMemoryProperties& properties) {
  VkPhysicalDeviceMemoryBudgetPropertiesEXT budget{.sType =
                                                       VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT};
  VkPhysicalDeviceMemoryProperties2 memory{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2};
  if (with_budget) memory.pNext = &budget;
  api.GetPhysicalDeviceMemoryProperties2(device, &memory);
  properties = memory.memoryProperties;
  Heaps free{};
  for (uint32_t i = 0; i < properties.memoryHeapCount; ++i) {
    free[i] = properties.memoryHeaps[i].size;
    if (budget.heapBudget[i] != 0) free[i] = budget.heapBudget[i] - std::min(budget.heapUsage[i], budget.heapBudget[i]);
  }
  return free;
}

void read_memory(const InstanceApi& api, PhysicalDevice& device) {
  const Heaps free = read_heaps(api, device.handle, device.features.memory_budget, device.memory);
  for (uint32_t i = 0; i < device.memory.memoryHeapCount; ++i) {
    const VkMemoryHeap& heap = device.memory.memoryHeaps[i];
    if ((heap.flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) == 0 || heap.size <= device.memory_bytes) continue;
    device.memory_bytes = heap.size;
    device.available_bytes = free[i];
  }
  constexpr VkMemoryPropertyFlags kMapped =
      VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT | VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  for (uint32_t i = 0; i < device.memory.memoryTypeCount; ++i) {
    if ((device.memory.memoryTypes[i].propertyFlags & kMapped) == kMapped) device.features.mapped_device_memory = true;
  }
}

void read_limits(const VkPhysicalDeviceProperties& core, const VkPhysicalDeviceMaintenance3Properties& allocation,
                 PhysicalDevice& device) {
  Limits& limits = device.limits;
  limits.max_alloc = allocation.maxMemoryAllocationSize;
  std::copy_n(core.limits.maxComputeWorkGroupCount, 3, limits.groups);
  limits.shared = core.limits.maxComputeSharedMemorySize;
  limits.group_threads = core.limits.maxComputeWorkGroupInvocations;
  std::copy_n(core.limits.maxComputeWorkGroupSize, 3, limits.group_size);
  // Rough on purpose: they say where a step is cut and when a device counts as hung, nothing finer.
  limits.operations_per_second = device.is_cpu()                                       ? 5e8
                                 : device.type == VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU ? 2e12
                                                                                       : 2e11;
  if (!device.is_cpu() && device.features.matrix16) limits.operations_per_second *= 10;  // long steps run on matrices
  limits.submit_operations = device.is_cpu() ? 0 : limits.operations_per_second / 4;     // a CPU has no watchdog
  limits.timeout_seconds = 60;
}

PhysicalDevice read_device(const InstanceApi& api, VkPhysicalDevice handle, uint32_t idx) {
  PhysicalDevice device;
  device.handle = handle;
  device.idx = idx;
  VkPhysicalDeviceDriverProperties driver{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES};
  VkPhysicalDeviceSubgroupProperties subgroup{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES};
  VkPhysicalDeviceMaintenance3Properties allocation{.sType =
                                                        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES};
  VkPhysicalDeviceProperties2 properties{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2};
  VkPhysicalDeviceSubgroupSizeControlProperties sizes{
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES};
  properties.pNext = &driver;
  driver.pNext = &subgroup;
  subgroup.pNext = &allocation;
  allocation.pNext = &sizes;
  api.GetPhysicalDeviceProperties2(handle, &properties);
  device.name = properties.properties.deviceName;
  device.type = properties.properties.deviceType;
  device.api_version = properties.properties.apiVersion;
  device.timestamp_period = properties.properties.limits.timestampPeriod;
  if (device.api_version < VK_API_VERSION_1_2) return device;  // the structs of 1.2 mean nothing to it
  device.driver = fmt::format("{} {}", driver.driverName, driver.driverInfo);
  device.subgroup = subgroup.subgroupSize;

  const std::vector<std::string> extensions = extensions_of(api, handle);
  const auto has = [&](const char* name) {
    return std::find(extensions.begin(), extensions.end(), name) != extensions.end();
  };
  FeatureChain chain(has(VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME), has(kCooperativeMatrix),
                     has(VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME));
  api.GetPhysicalDeviceFeatures2(handle, &chain.core);
  Features& f = device.features;
  chain.get(f);
  const bool in_compute = (subgroup.supportedStages & VK_SHADER_STAGE_COMPUTE_BIT) != 0;
  const auto subgroup_has = [&](VkSubgroupFeatureFlags bits) {
    return in_compute && (subgroup.supportedOperations & bits) == bits;
  };
  f.subgroup_basic = subgroup_has(VK_SUBGROUP_FEATURE_BASIC_BIT);
  f.subgroup_vote = subgroup_has(VK_SUBGROUP_FEATURE_VOTE_BIT);
  f.subgroup_arithmetic = subgroup_has(VK_SUBGROUP_FEATURE_ARITHMETIC_BIT);
  f.subgroup_ballot = subgroup_has(VK_SUBGROUP_FEATURE_BALLOT_BIT);
  f.subgroup_shuffle = subgroup_has(VK_SUBGROUP_FEATURE_SHUFFLE_BIT | VK_SUBGROUP_FEATURE_SHUFFLE_RELATIVE_BIT);
  const bool can_require = f.subgroups_of_32 && (sizes.requiredSubgroupSizeStages & VK_SHADER_STAGE_COMPUTE_BIT) != 0;
  const auto subgroups_of = [&](uint32_t n) {
    return can_require && sizes.minSubgroupSize <= n && n <= sizes.maxSubgroupSize;
  };
  f.subgroups_of_32 = subgroups_of(32);
  f.matrix16 = f.cooperative_matrix && subgroups_of(32) && multiplies(api, handle, 16);
  f.matrix8 = f.cooperative_matrix && subgroups_of(8) && multiplies(api, handle, 8);
  f.memory_budget = has(VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
  choose_queue(api, device);
  read_memory(api, device);
  read_limits(properties.properties, allocation, device);
  return device;
}

int rank(const PhysicalDevice& device) {
  switch (device.type) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU:
      return 4;
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU:
      return 3;
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU:
      return 2;
    case VK_PHYSICAL_DEVICE_TYPE_CPU:
      return 0;
    default:
      return 1;
  }
}

}  // namespace

std::string PhysicalDevice::refusal() const {
  if (api_version < VK_API_VERSION_1_2) return "its driver knows only Vulkan before 1.2";
  if (!features.device_address) return "it has no buffer device addresses";
  if (!features.timeline) return "it has no timeline semaphores";
  if (queue_family == UINT32_MAX) return "it has no compute queue";
  if (memory_bytes == 0) return "it has no memory of its own";
  return {};
}

Result<std::vector<PhysicalDevice>> physical_devices(const Instance& instance) {
  uint32_t n = 0;
  VkResult result = instance.api().EnumeratePhysicalDevices(instance.handle(), &n, nullptr);
  std::vector<VkPhysicalDevice> handles(n);
  if (result == VK_SUCCESS) result = instance.api().EnumeratePhysicalDevices(instance.handle(), &n, handles.data());
  if (result < 0) return vulkan_error(result, "listing the GPUs");
  handles.resize(std::min<size_t>(n, handles.size()));
  std::vector<PhysicalDevice> devices;
  for (VkPhysicalDevice handle : handles)
    devices.push_back(read_device(instance.api(), handle, static_cast<uint32_t>(devices.size())));
  return devices;
}

Result<PhysicalDevice> choose_device(const Instance& instance, const Options& options) {
  std::vector<PhysicalDevice> devices = TRY(physical_devices(instance));
  if (devices.empty())
    return Error(Code::unsupported, "Vulkan finds no GPU here; install its driver, or use --backend cpu");
  if (options.device >= 0) {
    if (static_cast<size_t>(options.device) >= devices.size()) {
      return Error(Code::not_found, fmt::format("there is no Vulkan device {}, only {}; 'sluice devices' lists them",
                                                options.device, devices.size()));
    }
    devices = {devices[static_cast<size_t>(options.device)]};
  }
  for (PhysicalDevice& device : devices) {
    TRY(apply_limits(options.limits, device));
    if (options.deterministic) device.features.cooperative_matrix = false;
  }
  const PhysicalDevice* best = nullptr;
  for (const PhysicalDevice& device : devices) {
    if (!device.refusal().empty()) continue;
    if (options.name == "auto" && options.device < 0 && device.is_cpu()) continue;
    const auto better = [&] {
      return rank(device) != rank(*best) ? rank(device) > rank(*best) : device.memory_bytes > best->memory_bytes;
    };
    if (best == nullptr || better()) best = &device;
  }
  if (best != nullptr) return *best;
  const PhysicalDevice& first = devices[0];
  return Error(
      Code::unsupported,
      fmt::format("Vulkan device {} ({}) cannot be used: {}; choose another with --device, or --backend cpu", first.idx,
                  printable(first.name),
                  first.refusal().empty() ? "it is a CPU, and --backend vulkan did not ask for it" : first.refusal()));
}

Result<void> apply_limits(std::string_view text, PhysicalDevice& device) {
  const std::map<std::string_view, std::function<void(double)>> numbers = {
      {"max_alloc", [&](double v) { device.limits.max_alloc = std::min(device.limits.max_alloc, uint64_t(v)); }},
      {"memory",
       [&](double v) {
         device.memory_bytes = std::min(device.memory_bytes, uint64_t(v));
         device.available_bytes = std::min(device.available_bytes, uint64_t(v));
       }},
      {"groups",
       [&](double v) {
         for (uint32_t& groups : device.limits.groups) groups = std::min(groups, uint32_t(v));
       }},
      {"shared", [&](double v) { device.limits.shared = std::min(device.limits.shared, uint32_t(v)); }},
      {"group_threads",
       [&](double v) { device.limits.group_threads = std::min(device.limits.group_threads, uint32_t(v)); }},
      {"submit_operations", [&](double v) { device.limits.submit_operations = v; }},
      {"timeout",
       [&](double v) {
         device.limits.timeout_seconds = v;
         device.limits.operations_per_second = 1e30;
       }},
  };
  const std::map<std::string_view, bool*> features = {
#define X(name) {#name, &device.features.name},
      SLUICE_VULKAN_FEATURES(X)
#undef X
  };
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), item.size() + 1));
    const size_t equals = item.find('=');
    if (item.starts_with("no_") && features.contains(item.substr(3))) {
      *features.at(item.substr(3)) = false;
    } else if (double value = 0; equals != item.npos && numbers.contains(item.substr(0, equals)) &&
                                 std::from_chars(item.data() + equals + 1, item.data() + item.size(), value).ptr ==
                                     item.data() + item.size() &&
                                 value >= 0 && value < 1e18) {
      numbers.at(item.substr(0, equals))(value);
    } else {
      return Error(Code::invalid_argument,
                   fmt::format("'{}' is no limit of a Vulkan device; see docs/add-a-backend.md", printable(item)));
    }
  }
  return {};
}

Result<std::shared_ptr<Device>> Device::create(const Instance& instance, PhysicalDevice physical) {
  auto device = std::make_shared<Device>();
  device->physical = std::move(physical);
  const Features& f = device->physical.features;
  FeatureChain chain(f.dot_product, f.cooperative_matrix, f.subgroups_of_32 || f.matrix8);
  chain.set(f);
  if (f.memory_budget) chain.extensions.push_back(VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
  const float priority = 1;
  VkDeviceQueueCreateInfo queue{.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO};
  queue.queueFamilyIndex = device->physical.queue_family;
  queue.queueCount = 1;
  queue.pQueuePriorities = &priority;
  VkDeviceCreateInfo info{.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO};
  info.pNext = &chain.core;
  info.queueCreateInfoCount = 1;
  info.pQueueCreateInfos = &queue;
  info.enabledExtensionCount = static_cast<uint32_t>(chain.extensions.size());
  info.ppEnabledExtensionNames = chain.extensions.data();
  const InstanceApi& api = instance.api();
  if (const VkResult result = api.CreateDevice(device->physical.handle, &info, nullptr, &device->handle);
      result != VK_SUCCESS) {
    device->handle = VK_NULL_HANDLE;
    return vulkan_error(result, "opening the GPU");
  }
  device->instance_ = &instance;
  if (!load_device_api(api, device->handle, device->api))
    return Error(Code::unsupported, "the GPU's driver lacks functions of Vulkan 1.2; update it, or use --backend cpu");
  device->api.GetDeviceQueue(device->handle, device->physical.queue_family, 0, &device->queue);
  return device;
}

std::array<uint64_t, VK_MAX_MEMORY_HEAPS> Device::free_in_heaps() const {
  VkPhysicalDeviceMemoryProperties properties{};
  return read_heaps(instance_->api(), physical.handle, physical.features.memory_budget, properties);
}

Device::~Device() {
  if (handle != VK_NULL_HANDLE && api.DestroyDevice != nullptr && !lost) api.DestroyDevice(handle, nullptr);
}

}  // namespace sluice::backend::vulkan
