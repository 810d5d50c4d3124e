// Device memory by address, and the queue: transfers, submits, waits.
//
// Uploads and copies are not submitted by themselves. They collect, their bytes in a mapped ring, and go with the next
// submit in a command buffer ahead of it: a decode step, its inputs included, is one submit.
#pragma once
#include <array>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "backend/vulkan/device.h"

namespace sluice::backend::vulkan {

struct Block {
  VkBuffer buffer = VK_NULL_HANDLE;
  VkDeviceMemory memory = VK_NULL_HANDLE;
  uint64_t address = 0, n_bytes = 0;
  std::byte* mapped = nullptr;  // host memory, or device memory that the host sees
  uint64_t used = 0;            // of a block that holds many small allocations
  uint32_t heap = 0;
  bool on_device = false;
};

struct Place {
  const Block* block = nullptr;
  uint64_t offset = 0;
};

// What memory is for; chooses the heap.
enum class Kind : uint8_t { device, device_mapped, host, readback };

class Memory {
 public:
  explicit Memory(std::shared_ptr<Device> device) : device_(std::move(device)) {}

  Result<std::shared_ptr<Block>> allocate(uint64_t n_bytes, Kind kind);
  FreeMemory free_memory() const;
  // Where an address lies; a null block where it lies nowhere, or where n_bytes from there do not fit.
  Place find(uint64_t address, uint64_t n_bytes) const;

 private:
  void destroy(Block* block);
  // The memory type for a kind, of those that `allowed` has.
  uint32_t memory_type(Kind kind, uint32_t allowed) const;
  uint32_t heap_of(uint32_t type) const { return device_->physical.memory.memoryTypes[type].heapIndex; }

  std::shared_ptr<Device> device_;
  std::map<uint64_t, Block*> by_address_;
  uint64_t device_bytes_ = 0;
  std::array<uint64_t, VK_MAX_MEMORY_HEAPS> heap_bytes_{};
};

class Queue {
 public:
  Queue(std::shared_ptr<Device> device, Memory& memory) : device_(std::move(device)), memory_(memory) {}
  ~Queue();
  Result<void> create();

  Result<void> upload(Place to, std::span<const std::byte> bytes);
  Result<void> copy(Place to, Place from, uint64_t n_bytes);
  // Waits for everything before it.
  Result<void> download(std::span<std::byte> bytes, Place from);

  // Enqueues what is pending, then `commands`; gives the value that wait() takes. `cost_seconds` lengthens the time
  // after which the device counts as hung.
  Result<uint64_t> submit(std::span<const VkCommandBuffer> commands, double cost_seconds);
  Result<void> wait(uint64_t value);
  bool finished(uint64_t value);
  // Nothing is pending and nothing runs, or the device is lost: memory may go.
  void settle();

  uint64_t n_submits() const { return n_submits_; }
  VkCommandPool pool() const { return pool_; }

 private:
  struct Transfer {
    VkBuffer to = VK_NULL_HANDLE, from = VK_NULL_HANDLE;
    VkBufferCopy region{};
  };
  // A command buffer of transfers, used again once its submit is done.
  struct Prefix {
    VkCommandBuffer commands = VK_NULL_HANDLE;
    uint64_t value = 0;
  };
  struct RingMark {
    uint64_t value = 0, end = 0;
  };

  Result<uint64_t> reserve(uint64_t n_bytes);  // offset in the ring
  Result<VkCommandBuffer> record_pending();
  Result<void> flush();
  double patience() const;  // seconds until the device counts as hung
  bool idle() { return pending_.empty() && finished(submitted_); }
  Error lose(VkResult result, std::string_view what);

  std::shared_ptr<Device> device_;
  Memory& memory_;
  VkCommandPool pool_ = VK_NULL_HANDLE;
  VkSemaphore timeline_ = VK_NULL_HANDLE;
  uint64_t submitted_ = 0, finished_ = 0, n_submits_ = 0;
  double cost_in_flight_ = 0;

  std::shared_ptr<Block> ring_, readback_;
  uint64_t ring_bytes_ = 0, chunk_bytes_ = 0;  // of one transfer at most
  uint64_t ring_head_ = 0, ring_tail_ = 0;     // ever-growing; modulo the ring's size they are offsets
  std::deque<RingMark> ring_marks_;
  std::vector<Transfer> pending_;
  uint64_t pending_bytes_ = 0;  // of the ring
  std::deque<Prefix> prefixes_;
};

}  // namespace sluice::backend::vulkan
