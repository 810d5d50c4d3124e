#include "backend/vulkan/backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "backend/vulkan/memory.h"
#include "backend/vulkan/pipelines.h"
#include "base/text.h"
#include "sluice/type.h"

namespace sluice::backend::vulkan {
namespace {

// Weights of a sixteenth of such a block at most share one: some drivers allow only 4096 allocations.
constexpr uint64_t kSharedBlockBytes = uint64_t{16} << 20, kSmallest = 16, kSharedAlign = 256;

class VulkanBackend;

// Launches as recorded: one command buffer, or several where one would hold the device too long.
class VulkanPlan final : public Plan {
 public:
  explicit VulkanPlan(VulkanBackend& owner) : backend(owner) {}
  ~VulkanPlan() override;

  struct Segment {
    VkCommandBuffer commands = VK_NULL_HANDLE;
    double seconds = 0;  // estimated
  };

  VulkanBackend& backend;
  std::vector<Launch> launches;
  std::vector<VkPipeline> pipelines;  // one per launch
  std::vector<Segment> segments;
  uint64_t last_value = 0;  // of its latest run
  bool profiled = false;
  VkQueryPool queries = VK_NULL_HANDLE;
  std::vector<Stage> stages;  // between one time stamp and the next
};

class VulkanBackend final : public Backend {
 public:
  explicit VulkanBackend(std::shared_ptr<Device> device)
      : device_(device), memory_(device), queue_(device, memory_), pipelines_(device) {}

  Result<void> create(std::span<const Blob> kernels, bool deterministic) {
    const PhysicalDevice& physical = device_->physical;
    caps_.name = "vulkan";
    caps_.device = physical.name;
    caps_.memory_bytes = physical.memory_bytes;
    caps_.max_allocation_bytes = physical.limits.max_alloc;
    caps_.subgroup = physical.subgroup;
    caps_.isa = "spirv";
    caps_.wide = true;
    caps_.deterministic = deterministic;
    TRY(queue_.create());
    return pipelines_.create(kernels);
  }

  const Caps& caps() const override { return caps_; }

  std::optional<FreeMemory> free_memory() const override { return memory_.free_memory(); }

  Result<Buffer> allocate(size_t n_bytes, Use use) override {
    if (use == Use::weights && n_bytes <= shared_block_bytes() / kSmallest) return allocate_small(n_bytes);
    Kind kind = Kind::device;
    if (use == Use::host_weights) kind = Kind::host;
    if (use == Use::readback) kind = Kind::readback;
    if (use == Use::staging && device_->physical.features.mapped_device_memory) kind = Kind::device_mapped;
    auto block = TRY(new_block(n_bytes, kind));
    const uint64_t address = block->address;
    return Buffer(address, n_bytes, std::move(block));
  }

  Result<Buffer> adopt(std::span<const std::byte> bytes, Use use) override {
    (void)bytes;
    (void)use;
    return Error(Code::unsupported, "the vulkan backend cannot use host memory in place; upload it");
  }

  Result<void> upload(uint64_t destination, std::span<const std::byte> bytes) override {
    if (bytes.empty()) return {};
    return queue_.upload(TRY(place(destination, bytes.size())), bytes);
  }

  Result<void> download(std::span<std::byte> bytes, uint64_t source) override {
    ++counters_.host_reads;
    counters_.host_read_bytes += bytes.size();
    if (bytes.empty()) return {};
    return queue_.download(bytes, TRY(place(source, bytes.size())));
  }

  Result<void> copy(uint64_t destination, uint64_t source, size_t n_bytes) override {
    if (n_bytes == 0) return {};
    return queue_.copy(TRY(place(destination, n_bytes)), TRY(place(source, n_bytes)), n_bytes);
  }

  bool has(const KernelKey& key) const override { return pipelines_.has(key); }

  Result<std::unique_ptr<Plan>> prepare(std::span<const Launch> launches) override {
    auto plan = std::make_unique<VulkanPlan>(*this);
    plan->launches.assign(launches.begin(), launches.end());
    for (const Launch& launch : launches) {
      plan->pipelines.push_back(TRY(pipelines_.get(launch.key)));
      if (launch.grid_dev != 0) TRY(place(launch.grid_dev, sizeof(VkDispatchIndirectCommand)));
    }
    TRY(record(*plan));
    return std::unique_ptr<Plan>(std::move(plan));
  }

  Ticket run(Plan& base) override {
    auto& plan = static_cast<VulkanPlan&>(base);
    const auto enqueue = [&]() -> Result<void> {
      // A command buffer that is being executed may be neither recorded nor submitted again.
      if (!queue_.finished(plan.last_value)) TRY(queue_.wait(plan.last_value));
      if (plan.profiled != profile_) TRY(record(plan));
      for (const VulkanPlan::Segment& segment : plan.segments)
        plan.last_value = TRY(queue_.submit(std::span(&segment.commands, 1), segment.seconds));
      if (plan.profiled) profiled_runs_.push_back(&plan);
      return {};
    };
    if (auto done = enqueue(); !done && !failed_) failed_ = std::move(done.error());
    return {plan.last_value};
  }

  Result<void> wait(Ticket ticket) override {
    if (failed_) {
      Error error = std::move(*failed_);
      failed_.reset();
      return error;
    }
    TRY(queue_.wait(ticket.id));
    return collect_times();
  }

  Counters counters() const override {
    Counters counters = counters_;
    counters.submits = queue_.n_submits();
    return counters;
  }

  void profile(bool on) override {
    profile_ = on && device_->physical.features.timestamps;
    seconds_.assign(profile_ ? kStages : 0, 0.0);
  }

  std::vector<double> stage_seconds() override {
    std::vector<double> result = seconds_;
    seconds_.assign(profile_ ? kStages : 0, 0.0);
    return result;
  }

  void release(VulkanPlan& plan) {
    std::erase(profiled_runs_, &plan);
    if (!queue_.finished(plan.last_value)) (void)queue_.wait(plan.last_value).has_value();
    free_recording(plan);
  }

 private:
  Result<Place> place(uint64_t address, uint64_t n_bytes) const {
    const Place found = memory_.find(address, n_bytes);
    if (found.block == nullptr)
      return Error(Code::internal, "an address outside of the GPU's buffers was used; report this as a bug");
    return found;
  }

  // A block whose end waits for what still uses it.
  Result<std::shared_ptr<Block>> new_block(uint64_t n_bytes, Kind kind) {
    auto block = TRY(memory_.allocate(n_bytes, kind));
    Block* raw = block.get();
    return std::shared_ptr<Block>(raw, [this, block](Block*) mutable {
      queue_.settle();
      block.reset();
    });
  }

  // So large that the unused end of the last one does not matter.
  uint64_t shared_block_bytes() const {
    const PhysicalDevice& physical = device_->physical;
    return std::min({kSharedBlockBytes, physical.limits.max_alloc / 2, physical.memory_bytes / 64});
  }

  Result<Buffer> allocate_small(uint64_t n_bytes) {
    const uint64_t size = (n_bytes + 31) / 16 * 16;  // as Memory rounds
    auto block = shared_.lock();
    uint64_t at = block ? (block->used + kSharedAlign - 1) / kSharedAlign * kSharedAlign : 0;
    if (!block || at + size > block->n_bytes) {
      block = TRY(new_block(shared_block_bytes(), Kind::device));
      shared_ = block;
      at = 0;
    }
    block->used = at + size;
    const uint64_t address = block->address + at;
    return Buffer(address, n_bytes, std::move(block));
  }

  // Kernels walk on by as many groups as there are: a grid cut to what the device allows gives the same result.
  Grid allowed(const Grid& grid) const {
    const uint32_t(&most)[3] = device_->physical.limits.groups;
    return {std::min(grid.x, most[0]), std::min(grid.y, most[1]), std::min(grid.z, most[2])};
  }

  void free_recording(VulkanPlan& plan) {
    if (device_->lost) return;
    for (const VulkanPlan::Segment& segment : plan.segments)
      device_->api.FreeCommandBuffers(device_->handle, queue_.pool(), 1, &segment.commands);
    plan.segments.clear();
    device_->api.DestroyQueryPool(device_->handle, plan.queries, nullptr);
    plan.queries = VK_NULL_HANDLE;
  }

  Result<void> begin_segment(VulkanPlan& plan);
  void barrier_before(VulkanPlan& plan, size_t launch_idx);
  void stamp(VulkanPlan& plan);
  Result<void> record(VulkanPlan& plan);
  Result<void> collect_times();

  std::shared_ptr<Device> device_;
  Memory memory_;
  Queue queue_;
  Pipelines pipelines_;
  Caps caps_;
  Counters counters_;
  std::weak_ptr<Block> shared_;
  std::optional<Error> failed_;  // of a run(), told by the next wait()
  bool profile_ = false;
  std::vector<double> seconds_;
  std::vector<VulkanPlan*> profiled_runs_;
};

VulkanPlan::~VulkanPlan() { backend.release(*this); }

void memory_barrier(const DeviceApi& api, VkCommandBuffer commands, VkPipelineStageFlags from,
                    VkAccessFlags from_access, VkPipelineStageFlags to, VkAccessFlags to_access) {
  VkMemoryBarrier memory{.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER};
  memory.srcAccessMask = from_access;
  memory.dstAccessMask = to_access;
  api.CmdPipelineBarrier(commands, from, to, 0, 1, &memory, 0, nullptr, 0, nullptr);
}

constexpr VkAccessFlags kShader = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT;

// Sees everything that earlier submits wrote, and their reads are over before it writes.
Result<void> VulkanBackend::begin_segment(VulkanPlan& plan) {
  const DeviceApi& api = device_->api;
  VkCommandBufferAllocateInfo info{.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO};
  info.commandPool = queue_.pool();
  info.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
  info.commandBufferCount = 1;
  VulkanPlan::Segment segment;
  VkResult result = api.AllocateCommandBuffers(device_->handle, &info, &segment.commands);
  if (result != VK_SUCCESS) return vulkan_error(result, "a command buffer");
  plan.segments.push_back(segment);
  VkCommandBufferBeginInfo begin{.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
  result = api.BeginCommandBuffer(segment.commands, &begin);
  if (result != VK_SUCCESS) return vulkan_error(result, "a command buffer");
  if (plan.segments.size() == 1 && plan.queries != VK_NULL_HANDLE)
    api.CmdResetQueryPool(segment.commands, plan.queries, 0, static_cast<uint32_t>(plan.launches.size()) + 1);
  memory_barrier(api, segment.commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT,
                 VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT,
                 VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_DRAW_INDIRECT_BIT,
                 kShader | VK_ACCESS_INDIRECT_COMMAND_READ_BIT);
  return {};
}

// Launches that overlap share one barrier, ahead of the first.
void VulkanBackend::barrier_before(VulkanPlan& plan, size_t launch_idx) {
  bool indirect = plan.launches[launch_idx].grid_dev != 0;
  for (size_t i = launch_idx + 1; i < plan.launches.size() && plan.launches[i].overlaps_previous; ++i)
    indirect = indirect || plan.launches[i].grid_dev != 0;
  memory_barrier(device_->api, plan.segments.back().commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                 VK_ACCESS_SHADER_WRITE_BIT,
                 VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | (indirect ? VK_PIPELINE_STAGE_DRAW_INDIRECT_BIT : 0),
                 kShader | (indirect ? VK_ACCESS_INDIRECT_COMMAND_READ_BIT : 0));
}

void VulkanBackend::stamp(VulkanPlan& plan) {
  if (plan.queries == VK_NULL_HANDLE) return;
  device_->api.CmdWriteTimestamp(plan.segments.back().commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, plan.queries,
                                 static_cast<uint32_t>(plan.stages.size()));
}

namespace {
double operations_of(const Launch& launch) { return launch.cost.int8_operations + launch.cost.f32_operations; }
}  // namespace

Result<void> VulkanBackend::record(VulkanPlan& plan) {
  free_recording(plan);
  const DeviceApi& api = device_->api;
  const Limits& limits = device_->physical.limits;
  plan.profiled = profile_;
  plan.stages.clear();
  if (profile_) {
    VkQueryPoolCreateInfo info{.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO};
    info.queryType = VK_QUERY_TYPE_TIMESTAMP;
    info.queryCount = static_cast<uint32_t>(plan.launches.size()) + 1;
    if (const VkResult result = api.CreateQueryPool(device_->handle, &info, nullptr, &plan.queries);
        result != VK_SUCCESS)
      return vulkan_error(result, "time stamps");
  }
  const auto end_segment = [&]() -> Result<void> {
    const VkCommandBuffer commands = plan.segments.back().commands;
    memory_barrier(api, commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_ACCESS_SHADER_WRITE_BIT,
                   VK_PIPELINE_STAGE_HOST_BIT, VK_ACCESS_HOST_READ_BIT);
    const VkResult result = api.EndCommandBuffer(commands);
    return result == VK_SUCCESS ? Result<void>() : vulkan_error(result, "a command buffer");
  };
  TRY(begin_segment(plan));
  stamp(plan);
  bool fresh = true;  // nothing since the segment's own barrier
  double operations = 0;
  for (size_t i = 0; i < plan.launches.size(); ++i) {
    const Launch& launch = plan.launches[i];
    if (!launch.overlaps_previous || i == 0) {
      if (limits.submit_operations > 0 && operations > 0 &&
          operations + operations_of(launch) > limits.submit_operations) {
        TRY(end_segment());
        TRY(begin_segment(plan));
        operations = 0;
        fresh = true;
      }
      if (!fresh) barrier_before(plan, i);
    }
    fresh = false;
    operations += operations_of(launch);
    VulkanPlan::Segment& segment = plan.segments.back();
    segment.seconds += operations_of(launch) / limits.operations_per_second;
    api.CmdBindPipeline(segment.commands, VK_PIPELINE_BIND_POINT_COMPUTE, plan.pipelines[i]);
    api.CmdPushConstants(segment.commands, pipelines_.layout(), VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof(launch.args),
                         launch.args);
    if (launch.grid_dev != 0) {
      const Place grid = TRY(place(launch.grid_dev, sizeof(VkDispatchIndirectCommand)));
      api.CmdDispatchIndirect(segment.commands, grid.block->buffer, grid.offset);
    } else {
      const Grid grid = allowed(launch.grid);
      api.CmdDispatch(segment.commands, grid.x, grid.y, grid.z);
    }
    const bool last = i + 1 == plan.launches.size();
    if (last || (plan.launches[i + 1].stage != launch.stage && !plan.launches[i + 1].overlaps_previous)) {
      plan.stages.push_back(launch.stage);
      stamp(plan);
    }
  }
  return end_segment();
}

Result<void> VulkanBackend::collect_times() {
  std::vector<VulkanPlan*> later;
  for (VulkanPlan* plan : profiled_runs_) {
    if (!queue_.finished(plan->last_value)) {
      later.push_back(plan);
      continue;
    }
    if (plan->queries == VK_NULL_HANDLE || seconds_.empty()) continue;
    std::vector<uint64_t> stamps(plan->stages.size() + 1);
    const VkResult result = device_->api.GetQueryPoolResults(
        device_->handle, plan->queries, 0, static_cast<uint32_t>(stamps.size()), stamps.size() * sizeof(uint64_t),
        stamps.data(), sizeof(uint64_t), VK_QUERY_RESULT_64_BIT);
    if (result != VK_SUCCESS) continue;  // only a measurement
    for (size_t i = 0; i < plan->stages.size(); ++i) {
      seconds_[static_cast<size_t>(plan->stages[i])] +=
          static_cast<double>(stamps[i + 1] - stamps[i]) * double{device_->physical.timestamp_period} * 1e-9;
    }
  }
  profiled_runs_ = std::move(later);
  return {};
}

std::string_view kind_name(VkPhysicalDeviceType type) {
  switch (type) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU:
      return "discrete";
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU:
      return "integrated";
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU:
      return "virtual";
    case VK_PHYSICAL_DEVICE_TYPE_CPU:
      return "cpu";
    default:
      return "other";
  }
}

}  // namespace

Result<std::unique_ptr<Backend>> open_with(const Options& options, std::span<const Blob> kernels) {
  if (options.reference)
    return Error(Code::unsupported, "the reference kernels run on the CPU alone; use --backend cpu with --reference");
  if (kernels.empty()) {
    return Error(Code::unsupported,
                 "this build has no GPU kernels; configure it with -DSLUICE_GPU=ON, or use --backend cpu");
  }
  const Instance* instance = TRY(Instance::get());
  PhysicalDevice physical = TRY(choose_device(*instance, options));
  auto backend = std::make_unique<VulkanBackend>(TRY(Device::create(*instance, std::move(physical))));
  TRY(backend->create(kernels, options.deterministic));
  return std::unique_ptr<Backend>(std::move(backend));
}

Result<std::unique_ptr<Backend>> open(const Options& options) { return open_with(options, blobs(BlobTarget::spirv)); }

Result<std::vector<DeviceInfo>> list() {
  const Instance* instance = TRY(Instance::get());
  std::vector<DeviceInfo> result;
  for (const PhysicalDevice& device : TRY(physical_devices(*instance))) {
    DeviceInfo info{.backend = "vulkan", .name = device.name, .kind = std::string(kind_name(device.type))};
    info.driver = device.driver;
    info.idx = device.idx;
    info.memory_bytes = device.memory_bytes;
    info.available_bytes = device.available_bytes;
    info.refusal = device.refusal();
    const Limits& limits = device.limits;
    info.limits = {{"api", fmt::format("{}.{}", VK_API_VERSION_MAJOR(device.api_version),
                                       VK_API_VERSION_MINOR(device.api_version))},
                   {"subgroup", std::to_string(device.subgroup)},
                   {"shared_bytes", std::to_string(limits.shared)},
                   {"max_allocation_bytes", std::to_string(limits.max_alloc)},
                   {"groups", fmt::format("{} x {} x {}", limits.groups[0], limits.groups[1], limits.groups[2])},
                   {"group_threads", std::to_string(limits.group_threads)}};
    std::string features;
#define X(name) \
  if (device.features.name) features += fmt::format("{}{}", features.empty() ? "" : " ", #name);
    SLUICE_VULKAN_FEATURES(X)
#undef X
    info.limits.emplace_back("features", features);
    result.push_back(std::move(info));
  }
  return result;
}

}  // namespace sluice::backend::vulkan
