// The Vulkan backend by itself: memory, transfers, plans, counters, limits and what it refuses. Kernels are compared in
// tests/kernels, models in tests/models.
#ifdef SLUICE_HAVE_VULKAN
#include "backend/vulkan/backend.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "backend/vulkan/device.h"
#include "kernels/all_contracts.h"
#include "support/gpu.h"

namespace sluice::backend {
namespace {

constexpr KernelKey kAdd{.id = KernelId::add};

Options vulkan_options(std::string limits = "") { return {.name = "vulkan", .limits = std::move(limits)}; }

class VulkanBackend : public testing::Test {
 protected:
  void SetUp() override { SLUICE_NEED_VULKAN(); }

  std::unique_ptr<Backend> open(std::string limits = "") {
    auto backend = backend::open(vulkan_options(std::move(limits)));
    EXPECT_TRUE(backend) << (backend ? "" : backend.error().message);
    return backend ? std::move(*backend) : nullptr;
  }
};

template <class T>
std::vector<T> read(Backend& backend, uint64_t address, size_t n) {
  std::vector<T> values(n);
  const auto done = backend.download(std::as_writable_bytes(std::span(values)), address);
  EXPECT_TRUE(done) << (done ? "" : done.error().message);
  return values;
}

// y = a + b over n values in one row; `y` starts as 0.
struct Sum {
  Buffer memory;
  uint64_t y = 0, a = 0, b = 0;
  kernels::AddArgs args{};
  uint32_t n = 0;

  Launch launch() const { return Launch::of(kAdd, args, {(n + 63) / 64, 1, 1}, Stage::rest); }
};

Sum make_sum(Backend& backend, uint32_t n) {
  Sum sum;
  kernels::StepState state{};
  state.n_tokens = 1;
  auto memory = backend.allocate(sizeof(state) + 3 * n * sizeof(float), Use::activations);
  EXPECT_TRUE(memory);
  sum.memory = std::move(*memory);
  sum.n = n;
  const uint64_t base = sum.memory.address();
  sum.y = base + sizeof(state);
  sum.a = sum.y + n * sizeof(float);
  sum.b = sum.a + n * sizeof(float);
  const std::vector<float> zeros(n, 0.0f), a(n, 1.5f), b(n, 2.0f);
  EXPECT_TRUE(backend.upload(base, std::as_bytes(std::span(&state, 1))));
  EXPECT_TRUE(backend.upload(sum.y, std::as_bytes(std::span(zeros))));
  EXPECT_TRUE(backend.upload(sum.a, std::as_bytes(std::span(a))));
  EXPECT_TRUE(backend.upload(sum.b, std::as_bytes(std::span(b))));
  sum.args.y = {sum.y};
  sum.args.a = {sum.a};
  sum.args.b = {sum.b};
  sum.args.step = {base};
  sum.args.rows = {kernels::kRowsOfTokens, 1};
  sum.args.n = n;
  return sum;
}

// An NVIDIA driver gives 30 instances to a process, however many are gone again.
TEST_F(VulkanBackend, OpensAnyNumberOfTimes) {
  const vulkan::Instance* first = *vulkan::Instance::get();
  for (int i = 0; i < 40; ++i) ASSERT_TRUE(open()) << i;
  EXPECT_EQ(*vulkan::Instance::get(), first);
}

TEST_F(VulkanBackend, BytesComeBackAsTheyWent) {
  auto backend = open();
  ASSERT_TRUE(backend);
  // Odd sizes and offsets, and more than the staging ring holds.
  for (const size_t n : {size_t{1}, size_t{3}, size_t{4097}, size_t{70'000}, size_t{100'000'001}}) {
    for (const Use use : {Use::weights, Use::host_weights, Use::activations, Use::cache, Use::staging, Use::readback}) {
      if (n > 100'000 && use != Use::weights && use != Use::host_weights) continue;
      auto buffer = backend->allocate(n + 5, use);
      ASSERT_TRUE(buffer) << buffer.error().message;
      EXPECT_EQ(buffer->address() % 16, 0u);
      std::vector<uint8_t> bytes(n);
      uint32_t state = 1;
      for (uint8_t& b : bytes) b = static_cast<uint8_t>((state = state * 1664525u + 1013904223u) >> 24);
      ASSERT_TRUE(backend->upload(buffer->address() + 5, std::as_bytes(std::span(bytes))));
      ASSERT_TRUE(read<uint8_t>(*backend, buffer->address() + 5, n) == bytes) << n;
    }
  }
}

TEST_F(VulkanBackend, TransfersKeepTheirOrder) {
  for (const char* limits : {"", "no_mapped_device_memory"}) {
    auto backend = open(limits);
    ASSERT_TRUE(backend);
    auto a = backend->allocate(64, Use::staging), b = backend->allocate(64, Use::activations);
    ASSERT_TRUE(a && b);
    const std::vector<uint32_t> first(16, 1), second(16, 2), half(8, 3);
    ASSERT_TRUE(backend->upload(b->address(), std::as_bytes(std::span(first))));
    ASSERT_TRUE(backend->copy(a->address(), b->address(), 64));                       // 1 1
    ASSERT_TRUE(backend->upload(b->address(), std::as_bytes(std::span(second))));     // 2 2
    ASSERT_TRUE(backend->upload(a->address() + 32, std::as_bytes(std::span(half))));  // 1 3
    ASSERT_TRUE(backend->copy(b->address() + 32, a->address() + 32, 32));             // 2 3
    EXPECT_EQ(backend->counters().submits, 0u);
    const auto got_a = read<uint32_t>(*backend, a->address(), 16), got_b = read<uint32_t>(*backend, b->address(), 16);
    EXPECT_EQ(got_a[0], 1u);
    EXPECT_EQ(got_a[8], 3u);
    EXPECT_EQ(got_b[7], 2u);
    EXPECT_EQ(got_b[8], 3u);
    EXPECT_EQ(backend->counters().host_reads, 2u);
    EXPECT_EQ(backend->counters().host_read_bytes, 128u);
  }
}

TEST_F(VulkanBackend, MemoryMayGoWhileTransfersArePending) {
  auto backend = open();
  ASSERT_TRUE(backend);
  const std::vector<uint32_t> words(1024, 7);
  for (int i = 0; i < 20; ++i) {
    auto buffer = backend->allocate(4096, i % 2 == 0 ? Use::activations : Use::weights);
    ASSERT_TRUE(buffer);
    ASSERT_TRUE(backend->upload(buffer->address(), std::as_bytes(std::span(words))));
  }
  EXPECT_FALSE(backend->upload(12345, std::as_bytes(std::span(words))));
}

TEST_F(VulkanBackend, PlansRunAgainInOneSubmitWithTheirUploads) {
  for (const char* limits : {"", "no_mapped_device_memory"}) {
    auto backend = open(limits);
    ASSERT_TRUE(backend);
    ASSERT_TRUE(backend->has(kAdd));
    Sum sum = make_sum(*backend, 77);
    std::vector<Launch> launches = {sum.launch()};
    sum.args.a = {sum.y};  // y = y + b sees the whole of y = a + b
    launches.push_back(sum.launch());
    auto plan = backend->prepare(launches);
    ASSERT_TRUE(plan) << plan.error().message;
    ASSERT_TRUE(backend->wait(backend->run(**plan)));
    const Counters before = backend->counters();
    for (int i = 0; i < 50; ++i) {
      const std::vector<float> b(77, static_cast<float>(i));
      ASSERT_TRUE(backend->upload(sum.b, std::as_bytes(std::span(b))));
      ASSERT_TRUE(backend->wait(backend->run(**plan)));
    }
    EXPECT_EQ(backend->counters().submits - before.submits, 50u);
    EXPECT_EQ(backend->counters().host_reads, 0u);
    for (const float value : read<float>(*backend, sum.y, 77)) EXPECT_EQ(value, 1.5f + 49 + 49);
  }
}

TEST_F(VulkanBackend, ResultsInReadbackMemoryNeedNoSubmit) {
  auto backend = open();
  ASSERT_TRUE(backend);
  Sum sum = make_sum(*backend, 64);
  auto result = backend->allocate(64 * sizeof(float), Use::readback);
  ASSERT_TRUE(result);
  sum.args.y = {result->address()};
  auto plan = backend->prepare(std::vector<Launch>{sum.launch()});
  ASSERT_TRUE(plan);
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(backend->wait(backend->run(**plan)));
    for (const float value : read<float>(*backend, result->address(), 64)) EXPECT_EQ(value, 3.5f);
    EXPECT_EQ(backend->counters().submits, 1u + static_cast<uint64_t>(i));
  }
}

TEST_F(VulkanBackend, SeveralTicketsAreInFlight) {
  auto backend = open();
  ASSERT_TRUE(backend);
  Sum sum = make_sum(*backend, 640);
  const Launch whole = sum.launch();
  sum.args.a = {sum.y};
  const Launch more = sum.launch();
  auto first = backend->prepare(std::span(&whole, 1)), second = backend->prepare(std::span(&more, 1));
  ASSERT_TRUE(first && second);
  std::vector<Ticket> tickets;
  tickets.push_back(backend->run(**first));
  for (int i = 0; i < 20; ++i) tickets.push_back(backend->run(**second));
  for (const Ticket ticket : tickets) ASSERT_TRUE(backend->wait(ticket));
  EXPECT_EQ(read<float>(*backend, sum.y, 640)[639], 1.5f + 2.0f * 21);
}

TEST_F(VulkanBackend, TheGridMayComeFromTheDevice) {
  auto backend = open();
  ASSERT_TRUE(backend);
  Sum sum = make_sum(*backend, 256);
  auto grid = backend->allocate(3 * sizeof(uint32_t), Use::activations);
  ASSERT_TRUE(grid);
  Launch launch = sum.launch();
  launch.grid_dev = grid->address();
  auto plan = backend->prepare(std::span(&launch, 1));
  ASSERT_TRUE(plan) << plan.error().message;
  for (const uint32_t n_groups : {0u, 1u, 3u}) {
    const uint32_t size[3] = {n_groups, 1, 1};
    ASSERT_TRUE(backend->upload(grid->address(), std::as_bytes(std::span(size))));
    ASSERT_TRUE(backend->wait(backend->run(**plan)));
    const auto y = read<float>(*backend, sum.y, 256);
    const auto n_done = std::count(y.begin(), y.end(), 3.5f);
    EXPECT_LE(n_done, 256);
    EXPECT_EQ(n_done == 0, n_groups == 0);
  }
  launch.grid_dev = 4;
  EXPECT_FALSE(backend->prepare(std::span(&launch, 1)));
}

TEST_F(VulkanBackend, LongPlansAreCutAndKeepTheirOrder) {
  auto backend = open("submit_operations=100");
  ASSERT_TRUE(backend);
  Sum sum = make_sum(*backend, 65);
  std::vector<Launch> launches(10, sum.launch());
  sum.args.a = {sum.y};
  for (size_t i = 1; i < launches.size(); ++i) launches[i] = sum.launch();
  for (Launch& launch : launches) launch.cost.f32_operations = 40;
  auto plan = backend->prepare(launches);
  ASSERT_TRUE(plan);
  ASSERT_TRUE(backend->wait(backend->run(**plan)));
  EXPECT_EQ(backend->counters().submits, 5u);
  EXPECT_EQ(read<float>(*backend, sum.y, 65)[64], 1.5f + 20.0f);
}

TEST_F(VulkanBackend, StagesAreTimed) {
  auto backend = open();
  ASSERT_TRUE(backend);
  Sum sum = make_sum(*backend, 6400);
  std::vector<Launch> launches = {sum.launch(), sum.launch(), sum.launch()};
  launches[1].stage = Stage::experts;
  auto plan = backend->prepare(launches);
  ASSERT_TRUE(plan);
  EXPECT_TRUE(backend->stage_seconds().empty());
  backend->profile(true);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(backend->wait(backend->run(**plan)));
  const auto seconds = backend->stage_seconds();
  ASSERT_EQ(seconds.size(), kStages);
  EXPECT_GT(seconds[static_cast<size_t>(Stage::rest)], 0);
  EXPECT_GT(seconds[static_cast<size_t>(Stage::experts)], 0);
  EXPECT_EQ(seconds[static_cast<size_t>(Stage::gate)], 0);
  backend->profile(false);
  ASSERT_TRUE(backend->wait(backend->run(**plan)));
  EXPECT_TRUE(backend->stage_seconds().empty());
}

TEST_F(VulkanBackend, LimitsAreKept) {
  auto backend = open("max_alloc=40000000,memory=100000000,groups=4,no_dot_product");
  ASSERT_TRUE(backend);
  EXPECT_EQ(backend->caps().max_allocation_bytes, 40000000u);
  const auto free = backend->free_memory();
  ASSERT_TRUE(free);
  EXPECT_EQ(free->device, 100000000u);
  {
    auto on_host = backend->allocate(10'000'000, Use::host_weights),
         on_device = backend->allocate(5'000'000, Use::cache);
    ASSERT_TRUE(on_host && on_device);
    EXPECT_LE(backend->free_memory()->device, 95'000'000u);
    EXPECT_GT(backend->free_memory()->device, 94'999'000u);
    EXPECT_LE(backend->free_memory()->host, free->host);
  }
  EXPECT_EQ(backend->free_memory()->device, 100000000u);
  const auto large = backend->allocate(40000001, Use::cache);
  ASSERT_FALSE(large);
  EXPECT_EQ(large.error().code, Code::out_of_memory);
  std::vector<Buffer> buffers;
  bool refused = false;
  for (int i = 0; i < 200 && !refused; ++i) {
    auto buffer = backend->allocate(1000'000, Use::cache);
    refused = !buffer;
    if (buffer) buffers.push_back(std::move(*buffer));
  }
  EXPECT_TRUE(refused);
  EXPECT_GT(buffers.size(), 90u);
  buffers.clear();
  Sum sum = make_sum(*backend, 64 * 5);
  const Launch launch = sum.launch();
  auto plan = backend->prepare(std::span(&launch, 1));
  ASSERT_TRUE(plan);
  ASSERT_TRUE(backend->wait(backend->run(**plan)));
  EXPECT_EQ(read<float>(*backend, sum.y, 64 * 5), std::vector<float>(64 * 5, 3.5f));  // by 4 groups
  for (const char* wrong : {"max_alloc", "no_such", "groups=x", "=", "groups=-1"})
    EXPECT_FALSE(backend::open(vulkan_options(wrong))) << wrong;
}

TEST_F(VulkanBackend, WhatADeviceLacksIsRefused) {
  for (const char* limits : {"no_device_address", "no_timeline"}) {
    const auto refused = backend::open(vulkan_options(limits));
    ASSERT_FALSE(refused) << limits;
    EXPECT_EQ(refused.error().code, Code::unsupported);
    EXPECT_NE(refused.error().message.find("--backend cpu"), std::string::npos);
  }
  Options options = vulkan_options();
  options.device = 1000;
  EXPECT_FALSE(backend::open(options));
  options = vulkan_options();
  options.reference = true;
  EXPECT_FALSE(backend::open(options));
  EXPECT_FALSE(vulkan::open_with(vulkan_options(), {}));
  // A kernel that needs what is not there is not there either.
  const auto words = std::to_array<uint32_t>({0x07230203, 0x10000, 0, 1, 0, 2 << 16 | 17, 9});
  const Blob fp16{.id = KernelId::add, .code = std::as_bytes(std::span(words)), .entry = "main"};
  auto with = vulkan::open_with(vulkan_options("no_fp16"), std::span(&fp16, 1));
  ASSERT_TRUE(with) << with.error().message;
  EXPECT_FALSE((*with)->has(kAdd));
  const auto damaged = std::to_array<uint32_t>({0x07230203, 0x10000, 0, 1, 0, 200 << 16 | 17, 9});
  const Blob bad{.id = KernelId::add, .code = std::as_bytes(std::span(damaged)), .entry = "main"};
  EXPECT_FALSE(vulkan::open_with(vulkan_options(), std::span(&bad, 1)));
  const Launch unknown{.key = {.id = KernelId::add, .type = Type::Q4_0}};
  EXPECT_FALSE((*with)->prepare(std::span(&unknown, 1)));
}

// Launches ask for matrices where a backend has them: so what it has decides.
TEST_F(VulkanBackend, MatrixKernelsAreThereWhereTheDeviceHasThemAndMayUseThem) {
  constexpr KernelKey kOnMatrices{.id = KernelId::gemm, .type = Type::Q4_0, .variant = kMatrixVariant};
  constexpr KernelKey kPlain{.id = KernelId::gemm, .type = Type::Q4_0};
  const auto devices = vulkan::list();
  ASSERT_TRUE(devices);
  auto backend = open();
  ASSERT_TRUE(backend);
  bool has_matrices = false;
  for (const DeviceInfo& device : *devices) {
    for (const auto& [name, value] : device.limits) {
      if (device.name == backend->caps().device && name == "features")
        has_matrices = value.find(" matrix16") != value.npos || value.find(" matrix8") != value.npos;
    }
  }
  EXPECT_EQ(backend->has(kOnMatrices), has_matrices);
  EXPECT_TRUE(backend->has(kPlain));
  EXPECT_FALSE(backend->has({.id = KernelId::gemm, .type = Type::F32, .variant = kMatrixVariant}));
  for (const char* limits : {"no_cooperative_matrix", "no_matrix16,no_matrix8", "no_fp16"}) {
    auto poorer = open(limits);
    ASSERT_TRUE(poorer);
    EXPECT_FALSE(poorer->has(kOnMatrices)) << limits;
    EXPECT_TRUE(poorer->has(kPlain)) << limits;
  }
  auto deterministic = backend::open({.name = "vulkan", .deterministic = true});
  ASSERT_TRUE(deterministic);
  EXPECT_FALSE((*deterministic)->has(kOnMatrices));
  EXPECT_TRUE((*deterministic)->has(kPlain));
}

TEST_F(VulkanBackend, AStepThatTakesTooLongIsAnErrorAndTheProcessLives) {
  auto backend = open("timeout=0");
  ASSERT_TRUE(backend);
  Sum sum = make_sum(*backend, 1 << 21);
  const std::vector<Launch> launches(400, sum.launch());
  auto plan = backend->prepare(launches);
  ASSERT_TRUE(plan);
  const auto late = backend->wait(backend->run(**plan));
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, Code::device_lost);
  const auto after = backend->wait(backend->run(**plan));
  ASSERT_FALSE(after);
  EXPECT_EQ(after.error().code, Code::device_lost);
  EXPECT_FALSE(backend->upload(sum.y, std::as_bytes(std::span("x"))));
  EXPECT_TRUE(open());  // another device object works
}

TEST(VulkanDevices, AreListedAndAutoNeverPicksACpuAmongThem) {
  std::string reason;
  const auto devices = list_devices(reason);
  EXPECT_EQ(devices.empty(), !reason.empty());
  const bool gpu = std::any_of(devices.begin(), devices.end(),
                               [](const DeviceInfo& d) { return d.kind != "cpu" && d.refusal.empty(); });
  auto chosen = open({.name = "auto"});
  ASSERT_TRUE(chosen);
  EXPECT_EQ((*chosen)->caps().name, gpu && !blobs(BlobTarget::spirv).empty() ? "vulkan" : "cpu");
  auto scalar = open({.name = "auto", .cpu_isa = "scalar"});
  ASSERT_TRUE(scalar);
  EXPECT_EQ((*scalar)->caps().name, "cpu");
}

}  // namespace
}  // namespace sluice::backend
#endif
