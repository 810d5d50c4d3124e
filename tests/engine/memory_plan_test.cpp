// What goes where, for devices of any size.
#include "engine/memory_plan.h"

#include <gtest/gtest.h>

namespace sluice::engine {
namespace {

constexpr uint64_t kMB = 1'000'000;

// 100 MB of weights and four layers of experts of 100 MB each; 20 kB for a position.
MemoryNeeds needs() {
  return {.weights = 100 * kMB,
          .experts = {{2, 100 * kMB}, {3, 100 * kMB}, {5, 100 * kMB}, {6, 100 * kMB}},
          .fixed = 50 * kMB,
          .per_position = 20'000};
}

// A device of which `usable` bytes are left after what is kept free.
backend::FreeMemory device(uint64_t usable, uint64_t host = 100'000 * kMB) { return {usable / 15 * 16 + 16, host}; }

constexpr uint32_t kTrained = 16'384;

TEST(MemoryPlan, WhatFitsStaysOnTheDevice) {
  const auto plan = plan_memory(needs(), device(900 * kMB), kTrained, {});
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_TRUE(plan->host_layers.empty());
  EXPECT_EQ(plan->host_reason, "");
  EXPECT_EQ(plan->n_ctx, kTrained);
  EXPECT_EQ(plan->n_ctx_reason, "");
}

TEST(MemoryPlan, AContextThatNobodyAskedForShrinksBeforeExpertsGo) {
  const auto plan = plan_memory(needs(), device(700 * kMB), kTrained, {});
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_TRUE(plan->host_layers.empty());
  EXPECT_GT(plan->n_ctx, 7000u);  // 150 MB
  EXPECT_LE(plan->n_ctx, 7500u);
  EXPECT_NE(plan->n_ctx_reason, "");
  EngineOptions options;
  options.n_ctx = kTrained;
  const auto whole = plan_memory(needs(), device(700 * kMB), kTrained, options);
  ASSERT_TRUE(whole) << whole.error().message;
  EXPECT_EQ(whole->n_ctx, kTrained);
  EXPECT_EQ(whole->host_layers, (std::vector<uint32_t>{2, 3}));
}

TEST(MemoryPlan, AsManyLayersGoAsNeededTheFirstOnesFirst) {
  // 4096 positions take 82 MB: 232 MB without experts.
  const std::vector<std::vector<uint32_t>> expected = {{2, 3, 5, 6}, {2, 3, 5}, {2, 3}, {2}, {}};
  for (size_t n = 0; n < expected.size(); ++n) {
    const auto plan = plan_memory(needs(), device((233 + 100 * n) * kMB), kTrained, {});
    ASSERT_TRUE(plan) << plan.error().message;
    EXPECT_EQ(plan->host_layers, expected[n]);
    EXPECT_EQ(plan->host_reason.empty(), expected[n].empty());
    EXPECT_GE(plan->n_ctx, 4096u);
    EXPECT_LT(plan->n_ctx, 4500u);
  }
}

TEST(MemoryPlan, AShortContextIsBetterThanNone) {
  const auto plan = plan_memory(needs(), device(170 * kMB), kTrained, {});
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->host_layers.size(), 4u);
  EXPECT_GT(plan->n_ctx, 0u);
  EXPECT_LE(plan->n_ctx, 1000u);
  EXPECT_NE(plan->n_ctx_reason, "");
}

TEST(MemoryPlan, LayersThatTheUserNames) {
  EngineOptions options;
  for (const auto& [n_cpu_moe, n_layers] : std::map<int32_t, size_t>{{0, 0}, {1, 1}, {3, 3}, {99, 4}}) {
    options.n_cpu_moe = n_cpu_moe;
    const auto plan = plan_memory(needs(), device(2000 * kMB), kTrained, options);
    ASSERT_TRUE(plan) << plan.error().message;
    EXPECT_EQ(plan->host_layers.size(), n_layers);
    EXPECT_EQ(plan->host_reason, "-ncmoe " + std::to_string(n_cpu_moe));
  }
  options.n_cpu_moe = 1;
  const auto few = plan_memory(needs(), device(300 * kMB), kTrained, options);
  ASSERT_FALSE(few);
  EXPECT_EQ(few.error().code, Code::out_of_memory);
  EXPECT_NE(few.error().message.find("give a larger -ncmoe"), std::string::npos) << few.error().message;
}

TEST(MemoryPlan, RefusalsSayWhatIsNeededAndWhatIsFree) {
  EngineOptions options;
  options.fit = false;
  options.n_ctx = 5120;
  const auto refused = plan_memory(needs(), device(400 * kMB), 5120, options);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::out_of_memory);
  const std::string message = refused.error().message;  // 500 MB, 50 MB and 102.4 MB
  for (const char* part : {"652.4 MB", "500.0 MB of weights", "152.4 MB of cache", "400.0 MB are free", "; leave out"})
    EXPECT_NE(message.find(part), std::string::npos) << part << ": " << message;
  options.fit = true;
  EXPECT_TRUE(plan_memory(needs(), device(400 * kMB), 5120, options));

  const auto none = plan_memory(needs(), device(140 * kMB), kTrained, {});
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().message.find("experts of 4 layers in host memory"), std::string::npos) << none.error().message;
  EXPECT_NE(none.error().message.find("; give a smaller --ctx-size"), std::string::npos) << none.error().message;

  const auto host = plan_memory(needs(), device(400 * kMB, 150 * kMB), kTrained, {});
  ASSERT_FALSE(host);
  EXPECT_EQ(host.error().code, Code::out_of_memory);
  EXPECT_NE(host.error().message.find("300.0 MB of host memory"), std::string::npos) << host.error().message;
}

TEST(MemoryPlan, OneHeapIsNotCountedTwice) {
  backend::FreeMemory free{.device = 500 * kMB, .host = 500 * kMB, .one_heap = true};
  EXPECT_FALSE(plan_memory(needs(), free, kTrained, {}));
  free.device = 2000 * kMB;
  free.host = 2000 * kMB;
  EngineOptions options;
  options.n_cpu_moe = 2;
  EXPECT_TRUE(plan_memory(needs(), free, kTrained, options));
}

TEST(MemoryPlan, AModelWithoutExpertsOrCache) {
  MemoryNeeds dense{.weights = 100 * kMB, .experts = {}, .fixed = kMB, .per_position = 0};
  const auto plan = plan_memory(dense, device(110 * kMB), kTrained, {});
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->n_ctx, kTrained);
  EXPECT_FALSE(plan_memory(dense, device(90 * kMB), kTrained, {}));
}

}  // namespace
}  // namespace sluice::engine
