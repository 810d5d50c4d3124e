// Which GPU, what it can do, and the limits that the backend keeps to (made smaller by an option, for tests).
#pragma once
#include <array>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/registry.h"
#include "backend/vulkan/api.h"

namespace sluice::backend::vulkan {

// Probed one by one; a kernel whose SPIR-V asks for a missing one is not there (Backend::has). The names are those of
// the option: no_fp16. matrix16: 16 x 16 x 16, f16 with F32 sums, by subgroups of 32; matrix8: 8 x 8 x 8 by subgroups
// of 8.
#define SLUICE_VULKAN_FEATURES(X) \
  X(fp16)                         \
  X(int8)                         \
  X(int16)                        \
  X(int64)                        \
  X(storage8)                     \
  X(storage16)                    \
  X(push8)                        \
  X(push16)                       \
  X(subgroup_basic)               \
  X(subgroup_vote)                \
  X(subgroup_arithmetic)          \
  X(subgroup_ballot)              \
  X(subgroup_shuffle)             \
  X(subgroups_of_32)              \
  X(dot_product)                  \
  X(memory_model)                 \
  X(cooperative_matrix)           \
  X(matrix16)                     \
  X(matrix8)                      \
  X(scalar_layout)                \
  X(device_address)               \
  X(timeline)                     \
  X(timestamps)                   \
  X(memory_budget)                \
  X(mapped_device_memory)

struct Features {
#define X(name) bool name = false;
  SLUICE_VULKAN_FEATURES(X)
#undef X
};

struct Limits {
  uint64_t max_alloc = 0;        // bytes of one allocation
  uint32_t groups[3] = {};       // per axis of a dispatch
  uint32_t shared = 0;           // bytes of memory shared by a group
  uint32_t group_threads = 0;    // threads of a group, all axes together
  uint32_t group_size[3] = {};   // and per axis
  double submit_operations = 0;  // cost of one submit at most; 0: never cut
  double timeout_seconds = 0;    // for a submit of no cost
  double operations_per_second = 0;
};

struct PhysicalDevice {
  VkPhysicalDevice handle = VK_NULL_HANDLE;
  uint32_t idx = 0;  // as --device counts
  std::string name, driver;
  VkPhysicalDeviceType type = VK_PHYSICAL_DEVICE_TYPE_OTHER;
  uint32_t api_version = 0;
  uint32_t subgroup = 0;
  uint32_t queue_family = UINT32_MAX;
  float timestamp_period = 1;  // nanoseconds
  VkPhysicalDeviceMemoryProperties memory{};
  uint64_t memory_bytes = 0, available_bytes = 0;  // of the largest device-local heap
  Features features;
  Limits limits;

  bool is_cpu() const { return type == VK_PHYSICAL_DEVICE_TYPE_CPU; }
  // Why the backend cannot use it; empty where it can.
  std::string refusal() const;
};

Result<std::vector<PhysicalDevice>> physical_devices(const Instance& instance);
// The device that the options name, else the best one. `auto` never means a CPU that plays a GPU.
Result<PhysicalDevice> choose_device(const Instance& instance, const Options& options);
// "max_alloc=1073741824,groups=65535,shared=16384,no_fp16": smaller limits and fewer features, never more.
Result<void> apply_limits(std::string_view text, PhysicalDevice& device);

// The logical device, its only queue, and what all of the backend's objects need of it.
class Device {
 public:
  static Result<std::shared_ptr<Device>> create(const Instance& instance, PhysicalDevice physical);
  ~Device();
  Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // Bytes of each heap that may still be allocated, other programs counted; whole heaps where the driver does not tell.
  std::array<uint64_t, VK_MAX_MEMORY_HEAPS> free_in_heaps() const;

  DeviceApi api;
  VkDevice handle = VK_NULL_HANDLE;
  VkQueue queue = VK_NULL_HANDLE;
  PhysicalDevice physical;
  // Set once the device is lost or hangs: then nothing that it may still use is destroyed.
  bool lost = false;

 private:
  const Instance* instance_ = nullptr;
};

// What a SPIR-V module asks of a device.
struct Needs {
  std::vector<uint32_t> capabilities;
  uint64_t shared_bytes = 0;
};
Result<Needs> read_needs(std::span<const std::byte> code);
// The first thing that the device lacks; empty where it runs the module.
std::string missing(const Needs& needs, const uint32_t (&group)[3], const PhysicalDevice& device);

}  // namespace sluice::backend::vulkan
