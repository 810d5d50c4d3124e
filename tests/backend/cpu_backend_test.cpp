// The CPU backend: a forced instruction set is the one that runs, and what plans promise.
#include "backend/cpu/backend.h"

#include <gtest/gtest.h>

#include <cstring>

#include "backend/cpu/simd/tiers.h"
#include "base/cpu_info.h"

namespace sluice::backend {
namespace {

std::unique_ptr<Backend> open_cpu(const Options& options) {
  auto backend = open(options);
  EXPECT_TRUE(backend) << (backend ? "" : backend.error().message);
  return backend ? std::move(*backend) : nullptr;
}

constexpr KernelId kProducts[] = {KernelId::gemv, KernelId::gemm, KernelId::moe_gemv, KernelId::moe_gemm};

TEST(CpuBackend, Q03_AForcedTierRuns) {
  for (const cpu::Tier tier : cpu::tiers()) {
    if (tier == cpu::Tier::scalar) continue;
    const std::string name(cpu::tier_name(tier));
    auto backend = open_cpu({.name = "cpu", .cpu_isa = name, .n_threads = 2});
    ASSERT_TRUE(backend);
    EXPECT_EQ(backend->caps().isa, name);
    // It has products of panels alone; the tier below it does the rest.
    const std::string rest = tier == cpu::Tier::neon_i8mm ? "neon" : name;
    for (const KernelId id : kProducts) {
      for (const Type type : {Type::Q4_0, Type::Q8_0, Type::Q6_K}) {
        EXPECT_EQ(cpu::kernel_tier(*backend, {.id = id, .type = type, .layout = Layout::panel16}), name);
        EXPECT_EQ(cpu::kernel_tier(*backend, {.id = id, .type = type}), rest);
      }
      for (const Type type : {Type::F32, Type::F16, Type::BF16}) {
        EXPECT_EQ(cpu::kernel_tier(*backend, {.id = id, .type = type}), rest);
      }
    }
    for (const KernelId id : {KernelId::gate_up, KernelId::moe_gate_up}) {
      EXPECT_EQ(cpu::kernel_tier(*backend, {.id = id, .type = Type::Q4_0, .layout = Layout::panel16}), name);
    }
    for (const KernelId id : {KernelId::rms_norm, KernelId::swiglu, KernelId::quantize_q8}) {
      EXPECT_EQ(cpu::kernel_tier(*backend, {.id = id}), rest);
    }
  }
}

TEST(CpuBackend, ArmProcessorsWithI8mmUseIt) {
  if (!arm_has_dotprod_and_fp16() || !arm_has_i8mm()) GTEST_SKIP() << "this processor has no i8mm";
  auto backend = open_cpu({.name = "cpu", .n_threads = 1});
  ASSERT_TRUE(backend);
  EXPECT_EQ(backend->caps().isa, "neon_i8mm");
}

TEST(CpuBackend, ScalarAndReferenceUseNoTier) {
  for (const Options& options : {Options{.name = "cpu", .cpu_isa = "scalar", .n_threads = 1},
                                 Options{.name = "cpu", .n_threads = 1, .reference = true}}) {
    auto backend = open_cpu(options);
    ASSERT_TRUE(backend);
    for (const KernelId id : kProducts) {
      EXPECT_EQ(cpu::kernel_tier(*backend, {.id = id, .type = Type::Q4_0}), "reference");
      EXPECT_FALSE(backend->has({.id = id, .type = Type::Q4_0, .layout = Layout::panel16}));
    }
  }
}

TEST(CpuBackend, ATierThatTheCpuLacksIsRefused) {
  for (const char* isa : {"avx2", "avx512", "neon", "neon_i8mm"}) {
    const auto tiers = cpu::tiers();
    const bool has = std::find(tiers.begin(), tiers.end(), *cpu::parse_tier(isa)) != tiers.end();
    const auto backend = open({.name = "cpu", .cpu_isa = isa, .n_threads = 1});
    EXPECT_EQ(backend.has_value(), has) << isa;
    if (!has) {
      EXPECT_EQ(backend.error().code, Code::unsupported);
    }
  }
  EXPECT_FALSE(open({.name = "cpu", .n_threads = 100000}));
}

TEST(CpuBackend, EveryTierHasLimits) {
  for (const cpu::Tier tier : cpu::tiers()) {
    auto backend = open_cpu({.name = "cpu", .cpu_isa = std::string(cpu::tier_name(tier)), .n_threads = 2});
    ASSERT_TRUE(backend);
    const Limits limits = backend->measure_limits();
    EXPECT_GT(limits.read_bytes, 0);
    EXPECT_GT(limits.f32_operations, 0);
    EXPECT_EQ(limits.int8_operations > 0, tier != cpu::Tier::scalar);
  }
}

TEST(CpuBackend, PlansRunAgainAndReadsAreCounted) {
  auto backend = open_cpu({.name = "cpu", .n_threads = 3});
  ASSERT_TRUE(backend);
  kernels::StepState state{};
  state.n_tokens = 5;
  const std::vector<float> a(5 * 7, 1.5f), b(5 * 7, 2.0f);
  auto memory = backend->allocate(sizeof(state) + 3 * a.size() * sizeof(float), Use::activations);
  ASSERT_TRUE(memory);
  const uint64_t at_a = memory->address() + sizeof(state), at_b = at_a + a.size() * 4, at_y = at_b + b.size() * 4;
  ASSERT_TRUE(backend->upload(memory->address(), std::as_bytes(std::span(&state, 1))));
  ASSERT_TRUE(backend->upload(at_a, std::as_bytes(std::span(a))));
  ASSERT_TRUE(backend->upload(at_b, std::as_bytes(std::span(b))));
  kernels::AddArgs add{};
  add.y = {at_y};
  add.a = {at_a};
  add.b = {at_b};
  add.step = {memory->address()};
  add.rows = {kernels::kRowsOfTokens, 1};
  add.n = 7;
  // y = a + b, then y = y + b: the second sees the whole of the first.
  std::vector<Launch> launches = {Launch::of({.id = KernelId::add}, add, {1, 5, 1}, Stage::rest)};
  add.a = {at_y};
  launches.push_back(Launch::of({.id = KernelId::add}, add, {1, 5, 1}, Stage::rest));
  auto plan = backend->prepare(launches);
  ASSERT_TRUE(plan);
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(backend->wait(backend->run(**plan)));
  std::vector<float> y(a.size());
  ASSERT_TRUE(backend->download(std::as_writable_bytes(std::span(y)), at_y));
  for (const float value : y) EXPECT_EQ(value, 5.5f);
  EXPECT_EQ(backend->counters().submits, 100u);
  EXPECT_EQ(backend->counters().host_reads, 1u);
  EXPECT_EQ(backend->counters().host_read_bytes, y.size() * sizeof(float));
}

}  // namespace
}  // namespace sluice::backend
