#include "backend/vulkan/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <chrono>
#include <cstring>

#include "base/text.h"

namespace sluice::backend::vulkan {
namespace {

constexpr uint64_t kRingBytes = uint64_t{32} << 20;
constexpr size_t kMostPending = 1024;
constexpr std::chrono::microseconds kPolls{3000};  // of a wait, before the thread sleeps
constexpr double kPatience = 20;                   // times the estimated cost, until a device counts as hung
constexpr size_t kWorthWaiting = size_t{1} << 16;

std::string size_text(uint64_t n_bytes) { return bytes_text(static_cast<double>(n_bytes)); }

void barrier(const DeviceApi& api, VkCommandBuffer commands, VkPipelineStageFlags from, VkAccessFlags from_access,
             VkPipelineStageFlags to, VkAccessFlags to_access) {
  VkMemoryBarrier memory{.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER};
  memory.srcAccessMask = from_access;
  memory.dstAccessMask = to_access;
  api.CmdPipelineBarrier(commands, from, to, 0, 1, &memory, 0, nullptr, 0, nullptr);
}

// Ranges touched since the last barrier.
class Hazards {
 public:
  // True where the transfer must wait for an earlier one.
  bool meets(VkBuffer to, VkBuffer from, const VkBufferCopy& region) {
    const Range write{to, region.dstOffset, region.dstOffset + region.size, true};
    const Range read{from, region.srcOffset, region.srcOffset + region.size, false};
    const bool meets = std::any_of(ranges_.begin(), ranges_.end(), [&](const Range& range) {
      return overlap(range, write) || (range.writes && overlap(range, read));
    });
    if (meets) ranges_.clear();
    ranges_.push_back(write);
    ranges_.push_back(read);
    return meets;
  }

 private:
  struct Range {
    VkBuffer buffer;
    uint64_t begin, end;
    bool writes;
  };
  static bool overlap(const Range& a, const Range& b) {
    return a.buffer == b.buffer && a.begin < b.end && b.begin < a.end;
  }
  std::vector<Range> ranges_;
};

}  // namespace

uint32_t Memory::memory_type(Kind kind, uint32_t allowed) const {
  constexpr VkMemoryPropertyFlags kLocal = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT,
                                  kVisible = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT,
                                  kCached = VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
  const VkPhysicalDeviceMemoryProperties& memory = device_->physical.memory;
  uint32_t best = UINT32_MAX;
  double best_score = -1;
  for (uint32_t i = 0; i < memory.memoryTypeCount; ++i) {
    const VkMemoryPropertyFlags flags = memory.memoryTypes[i].propertyFlags;
    const VkMemoryPropertyFlags needs = kind == Kind::device          ? kLocal
                                        : kind == Kind::device_mapped ? kLocal | kVisible
                                                                      : kVisible;
    if ((allowed >> i & 1) == 0 || (flags & needs) != needs) continue;
    // Of several heaps the largest; host memory for what the host reads or fills, cached where it reads.
    double score = static_cast<double>(memory.memoryHeaps[memory.memoryTypes[i].heapIndex].size) * 0x1p-64;
    if (kind == Kind::device && (flags & kVisible) == 0) score += 0x1p-64;
    if (kind == Kind::readback && (flags & kCached) != 0) score += 4;
    if ((kind == Kind::readback || kind == Kind::host) && (flags & kLocal) == 0) score += 2;
    if (score <= best_score) continue;
    best = i;
    best_score = score;
  }
  return best;
}

FreeMemory Memory::free_memory() const {
  const PhysicalDevice& physical = device_->physical;
  std::array<uint64_t, VK_MAX_MEMORY_HEAPS> heaps = device_->free_in_heaps();
  if (!physical.features.memory_budget) {  // then whole heaps: what other programs have is not known
    for (size_t i = 0; i < heaps.size(); ++i) heaps[i] -= std::min(heaps[i], heap_bytes_[i]);
  }
  FreeMemory free;
  const uint32_t device_type = memory_type(Kind::device, UINT32_MAX), host_type = memory_type(Kind::host, UINT32_MAX);
  if (device_type != UINT32_MAX)
    free.device = std::min(heaps[heap_of(device_type)], physical.memory_bytes - device_bytes_);
  if (host_type != UINT32_MAX) free.host = heaps[heap_of(host_type)];
  free.one_heap = device_type != UINT32_MAX && host_type != UINT32_MAX && heap_of(device_type) == heap_of(host_type);
  return free;
}

Result<std::shared_ptr<Block>> Memory::allocate(uint64_t n_bytes, Kind kind) {
  const PhysicalDevice& physical = device_->physical;
  const DeviceApi& api = device_->api;
  n_bytes = (n_bytes + 31) / 16 * 16;  // kernels read whole words: the last one may lie half inside
  if (n_bytes > physical.limits.max_alloc) {
    return Error(Code::out_of_memory,
                 fmt::format("a buffer of {} is more than this GPU gives at once ({}); use a smaller "
                             "--ctx-size or --ubatch-size, or --backend cpu",
                             size_text(n_bytes), size_text(physical.limits.max_alloc)));
  }
  const bool on_device = kind == Kind::device || kind == Kind::device_mapped;
  if (on_device && device_bytes_ + n_bytes > physical.memory_bytes) {
    return Error(Code::out_of_memory,
                 fmt::format("the GPU's {} do not hold {} more; use a smaller model or --ctx-size, or "
                             "--backend cpu",
                             size_text(physical.memory_bytes), size_text(n_bytes)));
  }
  std::shared_ptr<Block> block(new Block, [this](Block* b) { destroy(b); });
  VkBufferCreateInfo info{.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO};
  info.size = n_bytes;
  info.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT |
               VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT |
               VK_BUFFER_USAGE_INDIRECT_BUFFER_BIT;
  VkResult result = api.CreateBuffer(device_->handle, &info, nullptr, &block->buffer);
  if (result != VK_SUCCESS) return vulkan_error(result, "a buffer of " + size_text(n_bytes));
  VkMemoryRequirements needs{};
  api.GetBufferMemoryRequirements(device_->handle, block->buffer, &needs);
  VkMemoryAllocateFlagsInfo flags{.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO};
  flags.flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT;
  VkMemoryAllocateInfo memory{.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO};
  memory.pNext = &flags;
  memory.allocationSize = needs.size;
  memory.memoryTypeIndex = memory_type(kind, needs.memoryTypeBits);
  if (memory.memoryTypeIndex == UINT32_MAX)
    return Error(Code::unsupported, "the GPU has no memory of a kind that is needed; use --backend cpu");
  result = api.AllocateMemory(device_->handle, &memory, nullptr, &block->memory);
  if (result == VK_SUCCESS) result = api.BindBufferMemory(device_->handle, block->buffer, block->memory, 0);
  if (result == VK_SUCCESS && kind != Kind::device) {
    void* mapped = nullptr;
    result = api.MapMemory(device_->handle, block->memory, 0, VK_WHOLE_SIZE, 0, &mapped);
    block->mapped = static_cast<std::byte*>(mapped);
  }
  if (result != VK_SUCCESS) return vulkan_error(result, "a buffer of " + size_text(n_bytes));
  VkBufferDeviceAddressInfo address{.sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO};
  address.buffer = block->buffer;
  block->address = api.GetBufferDeviceAddress(device_->handle, &address);
  block->n_bytes = n_bytes;
  block->heap = heap_of(memory.memoryTypeIndex);
  block->on_device = on_device;
  heap_bytes_[block->heap] += n_bytes;
  if (on_device) device_bytes_ += n_bytes;
  by_address_[block->address] = block.get();
  return block;
}

void Memory::destroy(Block* block) {
  if (block->n_bytes != 0) {
    by_address_.erase(block->address);
    heap_bytes_[block->heap] -= block->n_bytes;
    if (block->on_device) device_bytes_ -= block->n_bytes;
  }
  if (!device_->lost) {
    device_->api.DestroyBuffer(device_->handle, block->buffer, nullptr);
    device_->api.FreeMemory(device_->handle, block->memory, nullptr);
  }
  delete block;
}

Place Memory::find(uint64_t address, uint64_t n_bytes) const {
  auto it = by_address_.upper_bound(address);
  if (it == by_address_.begin()) return {};
  const Block& block = *std::prev(it)->second;
  const uint64_t offset = address - block.address;
  if (offset > block.n_bytes || n_bytes > block.n_bytes - offset) return {};
  return {&block, offset};
}

Result<void> Queue::create() {
  VkCommandPoolCreateInfo pool{.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO};
  pool.flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT;
  pool.queueFamilyIndex = device_->physical.queue_family;
  VkResult result = device_->api.CreateCommandPool(device_->handle, &pool, nullptr, &pool_);
  VkSemaphoreTypeCreateInfo type{.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO};
  type.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE;
  VkSemaphoreCreateInfo semaphore{.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO};
  semaphore.pNext = &type;
  if (result == VK_SUCCESS) result = device_->api.CreateSemaphore(device_->handle, &semaphore, nullptr, &timeline_);
  if (result != VK_SUCCESS) return vulkan_error(result, "a queue");
  ring_bytes_ = std::max(std::min(kRingBytes, device_->physical.limits.max_alloc / 64 * 32), uint64_t{64});
  chunk_bytes_ = ring_bytes_ / 4;
  ring_ = TRY(memory_.allocate(ring_bytes_, Kind::host));
  readback_ = TRY(memory_.allocate(chunk_bytes_, Kind::readback));
  return {};
}

Queue::~Queue() {
  settle();
  if (device_->lost) return;
  device_->api.DestroySemaphore(device_->handle, timeline_, nullptr);
  device_->api.DestroyCommandPool(device_->handle, pool_, nullptr);
}

Error Queue::lose(VkResult result, std::string_view what) {
  device_->lost = true;
  pending_.clear();
  pending_bytes_ = 0;
  if (result != VK_TIMEOUT) return vulkan_error(result, what);
  return Error(Code::device_lost, fmt::format("the GPU has not finished {} in {:.0f} s and counts as hung; load the "
                                              "model again with a smaller --ubatch-size, or use --backend cpu",
                                              what, patience()));
}

double Queue::patience() const { return device_->physical.limits.timeout_seconds + kPatience * cost_in_flight_; }

bool Queue::finished(uint64_t value) {
  if (value <= finished_) return true;
  uint64_t now = 0;
  if (device_->lost || device_->api.GetSemaphoreCounterValue(device_->handle, timeline_, &now) != VK_SUCCESS)
    return false;
  finished_ = now;
  if (finished_ == submitted_) cost_in_flight_ = 0;
  return value <= finished_;
}

Result<void> Queue::wait(uint64_t value) {
  if (device_->lost) return lose(VK_ERROR_DEVICE_LOST, "a step");
  // A short step is over before a sleeping thread would be woken.
  const auto started = std::chrono::steady_clock::now();
  do {
    if (finished(value)) return {};
  } while (!device_->physical.is_cpu() && std::chrono::steady_clock::now() - started < kPolls);
  VkSemaphoreWaitInfo info{.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO};
  info.semaphoreCount = 1;
  info.pSemaphores = &timeline_;
  info.pValues = &value;
  // In slices: while this process is stopped, or the machine sleeps, only one of them passes.
  const double whole = patience(), slice = std::min(whole, 0.5);
  VkResult result = VK_TIMEOUT;
  for (double waited = 0; result == VK_TIMEOUT && waited <= whole; waited += std::max(slice, 1e-3))
    result = device_->api.WaitSemaphores(device_->handle, &info, static_cast<uint64_t>(slice * 1e9));
  if (result != VK_SUCCESS) return lose(result, "a step");
  finished_ = std::max(finished_, value);
  if (finished_ == submitted_) cost_in_flight_ = 0;
  return {};
}

void Queue::settle() {
  if (device_->lost || timeline_ == VK_NULL_HANDLE) return;
  if (!pending_.empty()) (void)flush().has_value();
  if (!finished(submitted_)) (void)wait(submitted_).has_value();
}

Result<uint64_t> Queue::reserve(uint64_t n_bytes) {
  if (ring_head_ % ring_bytes_ + n_bytes > ring_bytes_) ring_head_ += ring_bytes_ - ring_head_ % ring_bytes_;
  while (ring_head_ + n_bytes - ring_tail_ > ring_bytes_) {
    if (ring_marks_.empty() || !finished(ring_marks_.front().value)) {
      // What is pending takes its part of the ring along.
      if (!pending_.empty()) TRY(flush());
      if (ring_marks_.empty()) {
        ring_tail_ = ring_head_;
        continue;
      }
      TRY(wait(ring_marks_.front().value));
    }
    ring_tail_ = ring_marks_.front().end;
    ring_marks_.pop_front();
  }
  const uint64_t offset = ring_head_ % ring_bytes_;
  ring_head_ += (n_bytes + 15) / 16 * 16;
  return offset;
}

Result<void> Queue::upload(Place to, std::span<const std::byte> bytes) {
  if (device_->lost) return lose(VK_ERROR_DEVICE_LOST, "an upload");
  // Weights on their way into host memory: to wait once costs less than to send them over the bus and back.
  if (to.block->mapped != nullptr && !to.block->on_device && bytes.size() >= kWorthWaiting) settle();
  // Nothing can be reading: the host writes where it can. A submit makes host writes visible.
  if (to.block->mapped != nullptr && idle()) {
    std::memcpy(to.block->mapped + to.offset, bytes.data(), bytes.size());
    return {};
  }
  for (size_t done = 0; done < bytes.size();) {
    const size_t n = std::min<size_t>(bytes.size() - done, chunk_bytes_);
    const uint64_t at = TRY(reserve(n));
    std::memcpy(ring_->mapped + at, bytes.data() + done, n);
    pending_.push_back({to.block->buffer, ring_->buffer, {at, to.offset + done, n}});
    done += n;
    pending_bytes_ += n;
    if (pending_.size() >= kMostPending || pending_bytes_ >= chunk_bytes_) TRY(flush());
  }
  return {};
}

Result<void> Queue::copy(Place to, Place from, uint64_t n_bytes) {
  if (device_->lost) return lose(VK_ERROR_DEVICE_LOST, "a copy");
  pending_.push_back({to.block->buffer, from.block->buffer, {from.offset, to.offset, n_bytes}});
  if (pending_.size() >= kMostPending) TRY(flush());
  return {};
}

Result<void> Queue::download(std::span<std::byte> bytes, Place from) {
  if (from.block->mapped != nullptr) {
    if (!pending_.empty()) TRY(flush());
    TRY(wait(submitted_));
    std::memcpy(bytes.data(), from.block->mapped + from.offset, bytes.size());
    return {};
  }
  for (size_t done = 0; done < bytes.size();) {
    const size_t n = std::min<size_t>(bytes.size() - done, chunk_bytes_);
    TRY(copy({readback_.get(), 0}, {from.block, from.offset + done}, n));
    TRY(flush());
    TRY(wait(submitted_));
    std::memcpy(bytes.data() + done, readback_->mapped, n);
    done += n;
  }
  return {};
}

Result<VkCommandBuffer> Queue::record_pending() {
  const DeviceApi& api = device_->api;
  if (prefixes_.empty() || !finished(prefixes_.front().value)) {
    VkCommandBufferAllocateInfo info{.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO};
    info.commandPool = pool_;
    info.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
    info.commandBufferCount = 1;
    VkCommandBuffer fresh = VK_NULL_HANDLE;
    if (const VkResult result = api.AllocateCommandBuffers(device_->handle, &info, &fresh); result != VK_SUCCESS)
      return vulkan_error(result, "a command buffer");
    prefixes_.push_front({fresh, 0});
  }
  const VkCommandBuffer commands = prefixes_.front().commands;
  VkCommandBufferBeginInfo begin{.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
  begin.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
  VkResult result = api.BeginCommandBuffer(commands, &begin);
  if (result != VK_SUCCESS) return vulkan_error(result, "a command buffer");
  constexpr VkPipelineStageFlags kTransfer = VK_PIPELINE_STAGE_TRANSFER_BIT,
                                 kCompute = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT;
  constexpr VkAccessFlags kMoves = VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT;
  barrier(api, commands, kCompute | kTransfer, VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT, kTransfer,
          kMoves);
  Hazards hazards;
  for (const Transfer& transfer : pending_) {
    if (hazards.meets(transfer.to, transfer.from, transfer.region))
      barrier(api, commands, kTransfer, kMoves, kTransfer, kMoves);
    api.CmdCopyBuffer(commands, transfer.from, transfer.to, 1, &transfer.region);
  }
  barrier(api, commands, kTransfer, VK_ACCESS_TRANSFER_WRITE_BIT,
          kCompute | kTransfer | VK_PIPELINE_STAGE_DRAW_INDIRECT_BIT | VK_PIPELINE_STAGE_HOST_BIT,
          VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT | kMoves | VK_ACCESS_INDIRECT_COMMAND_READ_BIT |
              VK_ACCESS_HOST_READ_BIT);
  result = api.EndCommandBuffer(commands);
  if (result != VK_SUCCESS) return vulkan_error(result, "a command buffer");
  return commands;
}

Result<uint64_t> Queue::submit(std::span<const VkCommandBuffer> commands, double cost_seconds) {
  if (device_->lost) return lose(VK_ERROR_DEVICE_LOST, "a step");
  std::vector<VkCommandBuffer> all;
  if (!pending_.empty()) all.push_back(TRY(record_pending()));
  const bool with_prefix = !all.empty();
  all.insert(all.end(), commands.begin(), commands.end());
  const uint64_t value = submitted_ + 1;
  VkTimelineSemaphoreSubmitInfo timeline{.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO};
  timeline.signalSemaphoreValueCount = 1;
  timeline.pSignalSemaphoreValues = &value;
  VkSubmitInfo info{.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO};
  info.pNext = &timeline;
  info.commandBufferCount = static_cast<uint32_t>(all.size());
  info.pCommandBuffers = all.data();
  info.signalSemaphoreCount = 1;
  info.pSignalSemaphores = &timeline_;
  const VkResult result = device_->api.QueueSubmit(device_->queue, 1, &info, VK_NULL_HANDLE);
  if (result == VK_ERROR_DEVICE_LOST) return lose(result, "a step");
  if (result != VK_SUCCESS) return vulkan_error(result, "a step");
  submitted_ = value;
  ++n_submits_;
  cost_in_flight_ += cost_seconds;
  pending_.clear();
  pending_bytes_ = 0;
  if (with_prefix) {
    prefixes_.push_back({prefixes_.front().commands, value});
    prefixes_.pop_front();
  }
  if (ring_marks_.empty() ? ring_head_ > ring_tail_ : ring_head_ > ring_marks_.back().end)
    ring_marks_.push_back({value, ring_head_});
  return value;
}

Result<void> Queue::flush() {
  TRY(submit({}, 0));
  return {};
}

}  // namespace sluice::backend::vulkan
