// moe_gemv_q4_0 as another program runs it: the SPIR-V of this build behind five descriptors, and nothing of the
// engine. tests/clients/wgsl_test.py has the same cases for its WGSL.
#ifdef SLUICE_HAVE_VULKAN
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "backend/blobs.h"
#include "backend/vulkan/memory.h"
#include "support/gpu.h"
#include "support/kernel_case.h"

namespace sluice::backend::vulkan {
namespace {

using test::Random;

#define ENTRY_FUNCTIONS(X)      \
  X(CreateDescriptorSetLayout)  \
  X(DestroyDescriptorSetLayout) \
  X(CreateDescriptorPool)       \
  X(DestroyDescriptorPool)      \
  X(AllocateDescriptorSets)     \
  X(UpdateDescriptorSets)       \
  X(CmdBindDescriptorSets)

constexpr uint32_t kBindings = 5;  // w, x, y, sel_expert, params

// The entry's pipeline on the best device.
class Entry {
 public:
  explicit Entry(const Instance& instance, PhysicalDevice physical)
      : device_(*Device::create(instance, std::move(physical))), memory_(device_), queue_(device_, memory_) {
#define X(name) name = reinterpret_cast<PFN_vk##name>(instance.api().GetDeviceProcAddr(device_->handle, "vk" #name));
    ENTRY_FUNCTIONS(X)
#undef X
    EXPECT_TRUE(queue_.create());
    create_pipeline();
  }
  Entry(const Entry&) = delete;
  Entry& operator=(const Entry&) = delete;
  ~Entry() {
    const DeviceApi& api = device_->api;
    DestroyDescriptorPool(device_->handle, descriptors_, nullptr);
    api.DestroyPipeline(device_->handle, pipeline_, nullptr);
    api.DestroyPipelineLayout(device_->handle, layout_, nullptr);
    DestroyDescriptorSetLayout(device_->handle, set_layout_, nullptr);
  }

  // Binds exactly these bytes, runs the grid and gives back what lies in binding 2.
  std::vector<float> run(const std::array<std::vector<std::byte>, kBindings>& buffers, uint32_t x, uint32_t y) {
    std::array<std::shared_ptr<Block>, kBindings> blocks;
    std::array<VkDescriptorBufferInfo, kBindings> infos{};
    std::array<VkWriteDescriptorSet, kBindings> writes{};
    for (uint32_t i = 0; i < kBindings; ++i) {
      blocks[i] = *memory_.allocate(buffers[i].size(), Kind::readback);
      std::memcpy(blocks[i]->mapped, buffers[i].data(), buffers[i].size());
      infos[i] = {blocks[i]->buffer, 0, buffers[i].size()};
      writes[i].sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET;
      writes[i].dstSet = set_;
      writes[i].dstBinding = i;
      writes[i].descriptorCount = 1;
      writes[i].descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
      writes[i].pBufferInfo = &infos[i];
    }
    UpdateDescriptorSets(device_->handle, kBindings, writes.data(), 0, nullptr);
    submit(x, y);
    std::vector<float> result(buffers[2].size() / sizeof(float));
    std::memcpy(result.data(), blocks[2]->mapped, buffers[2].size());
    return result;
  }

 private:
  void create_pipeline() {
    const auto all = published_blobs();
    const auto blob = std::find_if(all.begin(), all.end(), [](const PublishedBlob& b) {
      return b.target == BlobTarget::spirv && b.name == "moe_gemv_q4_0";
    });
    ASSERT_NE(blob, all.end());
    VkDescriptorSetLayoutBinding bindings[kBindings] = {};
    for (uint32_t i = 0; i < kBindings; ++i)
      bindings[i] = {i, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1, VK_SHADER_STAGE_COMPUTE_BIT, nullptr};
    VkDescriptorSetLayoutCreateInfo set{.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO};
    set.bindingCount = kBindings;
    set.pBindings = bindings;
    ASSERT_EQ(CreateDescriptorSetLayout(device_->handle, &set, nullptr, &set_layout_), VK_SUCCESS);
    const VkDescriptorPoolSize size{VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, kBindings};
    VkDescriptorPoolCreateInfo pool{.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO};
    pool.maxSets = 1;
    pool.poolSizeCount = 1;
    pool.pPoolSizes = &size;
    ASSERT_EQ(CreateDescriptorPool(device_->handle, &pool, nullptr, &descriptors_), VK_SUCCESS);
    VkDescriptorSetAllocateInfo allocate{.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO};
    allocate.descriptorPool = descriptors_;
    allocate.descriptorSetCount = 1;
    allocate.pSetLayouts = &set_layout_;
    ASSERT_EQ(AllocateDescriptorSets(device_->handle, &allocate, &set_), VK_SUCCESS);
    VkPipelineLayoutCreateInfo layout{.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO};
    layout.setLayoutCount = 1;
    layout.pSetLayouts = &set_layout_;
    const DeviceApi& api = device_->api;
    ASSERT_EQ(api.CreatePipelineLayout(device_->handle, &layout, nullptr, &layout_), VK_SUCCESS);
    std::vector<uint32_t> words(blob->code.size() / sizeof(uint32_t));
    std::memcpy(words.data(), blob->code.data(), blob->code.size());
    VkShaderModuleCreateInfo module_info{.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO};
    module_info.codeSize = blob->code.size();
    module_info.pCode = words.data();
    VkShaderModule module = VK_NULL_HANDLE;
    ASSERT_EQ(api.CreateShaderModule(device_->handle, &module_info, nullptr, &module), VK_SUCCESS);
    VkComputePipelineCreateInfo info{.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO};
    info.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
    info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
    info.stage.module = module;
    info.stage.pName = "main";
    info.layout = layout_;
    EXPECT_EQ(api.CreateComputePipelines(device_->handle, VK_NULL_HANDLE, 1, &info, nullptr, &pipeline_), VK_SUCCESS);
    api.DestroyShaderModule(device_->handle, module, nullptr);
  }

  void submit(uint32_t x, uint32_t y) {
    const DeviceApi& api = device_->api;
    VkCommandBufferAllocateInfo allocate{.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO};
    allocate.commandPool = queue_.pool();
    allocate.commandBufferCount = 1;
    VkCommandBuffer commands = VK_NULL_HANDLE;
    ASSERT_EQ(api.AllocateCommandBuffers(device_->handle, &allocate, &commands), VK_SUCCESS);
    VkCommandBufferBeginInfo begin{.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
    ASSERT_EQ(api.BeginCommandBuffer(commands, &begin), VK_SUCCESS);
    api.CmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline_);
    CmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, layout_, 0, 1, &set_, 0, nullptr);
    api.CmdDispatch(commands, x, y, 1);
    VkMemoryBarrier barrier{.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER};
    barrier.srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT;
    barrier.dstAccessMask = VK_ACCESS_HOST_READ_BIT;
    api.CmdPipelineBarrier(commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &barrier,
                           0, nullptr, 0, nullptr);
    ASSERT_EQ(api.EndCommandBuffer(commands), VK_SUCCESS);
    const auto value = queue_.submit(std::span(&commands, 1), 1);
    ASSERT_TRUE(value);
    EXPECT_TRUE(queue_.wait(*value));
    api.FreeCommandBuffers(device_->handle, queue_.pool(), 1, &commands);
  }

  std::shared_ptr<Device> device_;
  Memory memory_;
  Queue queue_;
  VkDescriptorSetLayout set_layout_ = VK_NULL_HANDLE;
  VkDescriptorPool descriptors_ = VK_NULL_HANDLE;
  VkDescriptorSet set_ = VK_NULL_HANDLE;
  VkPipelineLayout layout_ = VK_NULL_HANDLE;
  VkPipeline pipeline_ = VK_NULL_HANDLE;
#define X(name) PFN_vk##name name = nullptr;
  ENTRY_FUNCTIONS(X)
#undef X
};

struct Case {
  const char* name;
  uint32_t n_expert, m, k, n_used;
  std::vector<uint32_t> sel_expert;
  uint32_t x_by_entry = 0;
  uint32_t beyond = 0;  // groups launched beyond rows and entries
};

const Case kCases[] = {
    {"every expert, a stack of 810 bytes", 5, 3, 96, 1, {0, 1, 2, 3, 4}},
    {"a row of x per token", 4, 5, 64, 2, {3, 0, 1, 1, 2, 3}},
    {"a row of x per entry", 4, 5, 64, 2, {3, 0, 1, 1, 2, 3}, 1},
    {"any x_by_entry but 0", 4, 5, 64, 2, {3, 0, 1, 1}, 7},
    {"n_used 0 counts as 1", 3, 4, 32, 0, {2, 0, 1}},
    {"groups beyond rows and entries", 3, 4, 32, 2, {2, 0}, 0, 3},
    {"no entry", 3, 4, 32, 2, {}, 0, 2},
    {"many rows and blocks", 8, 33, 1024, 4, {7, 0, 3, 5}},
};

template <class T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

// What the engine's own kernel gives on the CPU, from the same bytes.
std::vector<float> reference(const Case& c, const std::vector<std::byte>& w, const std::vector<float>& x) {
  test::Job job(*test::subjects().front().device);
  const size_t expert_bytes = w.size() / c.n_expert, n_entries = c.sel_expert.size();
  const uint32_t n_used = std::max(c.n_used, 1u);
  std::vector<uint64_t> experts;
  for (uint32_t e = 0; e < c.n_expert; ++e)
    experts.push_back(job.bytes(std::span(w).subspan(e * expert_bytes, expert_bytes)).address);
  kernels::MoeGemvArgs args{};
  args.y = job.out<float>(n_entries * c.m);
  args.x = {job.in(x).address};
  args.expert_addr = job.in(experts);
  args.sel_expert = job.in(c.sel_expert);
  args.step = job.step(test::make_step(static_cast<uint32_t>(n_entries) / n_used));
  args.m = c.m;
  args.k = c.k;
  args.n_used = n_used;
  args.n_expert = c.n_expert;
  args.x_by_entry = c.x_by_entry;
  job.launch({.id = KernelId::moe_gemv, .type = Type::Q4_0}, args,
             {(c.m + 3) / 4, static_cast<uint32_t>(n_entries), 1});
  return job.read(args.y, n_entries * c.m);
}

TEST(VulkanPublishedEntry, GivesWhatTheReferenceGives) {
  SLUICE_NEED_VULKAN();
  const auto instance = Instance::get();
  ASSERT_TRUE(instance);
  auto physical = choose_device(**instance, {.name = "vulkan"});
  ASSERT_TRUE(physical);
  Entry entry(**instance, std::move(*physical));
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    Random random(7);
    const auto n_entries = static_cast<uint32_t>(c.sel_expert.size());
    const std::vector<std::byte> w = test::quantised(Type::Q4_0, random.normals(size_t{c.n_expert} * c.m * c.k));
    // As many rows as entries, also where only those of the tokens are to be read: the wrong choice gives other values.
    const std::vector<float> x = random.normals(std::max<size_t>(n_entries, 1) * c.k);
    std::vector<std::byte> bound = w;
    bound.resize((w.size() + 3) / 4 * 4);
    const std::vector<float> stale(size_t{n_entries} * c.m + 64, -12345.0f);
    const std::vector<uint32_t> sel = n_entries != 0 ? c.sel_expert : std::vector<uint32_t>{0};
    const auto expert_bytes = static_cast<uint32_t>(w.size() / c.n_expert);
    const std::vector<uint32_t> params = {c.m, c.k, c.n_used, n_entries, expert_bytes, c.x_by_entry, 0, 0};
    const std::vector<float> y = entry.run({bound, bytes_of(x), bytes_of(stale), bytes_of(sel), bytes_of(params)},
                                           c.m + c.beyond, n_entries + c.beyond);
    const size_t n = size_t{n_entries} * c.m;
    EXPECT_TRUE(std::all_of(y.begin() + static_cast<ptrdiff_t>(n), y.end(), [](float v) { return v == -12345.0f; }));
    if (n == 0) continue;
    EXPECT_LE(test::nmse(test::reals(std::span(y).first(n)), test::reals(reference(c, w, x))), 1e-12);
  }
}

}  // namespace
}  // namespace sluice::backend::vulkan
#endif
