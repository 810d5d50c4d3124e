// What a step is said to cost: bench divides by it, so it must be what is read and computed.
#include <gtest/gtest.h>

#include <map>

#include "sluice/engine.h"
#include "support/oracle.h"

namespace sluice::test {
namespace {

std::unique_ptr<Engine> open(const std::string& name, Type cache = Type::F16) {
  EngineOptions options;
  options.n_ctx = 256;
  options.n_threads = 1;
  options.type_k = options.type_v = cache;
  auto engine = Engine::load((source_dir() / "tests" / "fixtures" / "oracle" / (name + ".gguf")).string(), options);
  EXPECT_TRUE(engine) << (engine ? "" : engine.error().message);
  return engine ? std::move(*engine) : nullptr;
}

struct Sum {
  double bytes = 0, operations = 0;
};

Sum sum_of(const Engine& engine, const StepShape& shape) {
  Sum sum;
  for (const StageCost& c : engine.cost(shape)) {
    sum.bytes += c.bytes;
    sum.operations += c.int8_operations + c.f32_operations;
  }
  return sum;
}

// Bytes of one position in the cache, from the file's header.
double position_bytes(const Engine& engine) {
  const auto file = gguf::File::open(engine.model().path, {.metadata_only = true});
  EXPECT_TRUE(file);
  return file ? double(model_support(*file).cache_bytes_per_token) : 0;
}

constexpr const char* kModels[] = {"lfm2moe-q4_0", "qwen3moe-all-q8_0"};
class Costs : public testing::TestWithParam<const char*> {};

TEST_P(Costs, ADecodedTokenReadsItsWeightsAndTheCache) {
  auto engine = open(GetParam());
  ASSERT_TRUE(engine);
  const double position = position_bytes(*engine), weights = double(engine->model().weight_bytes_per_token);
  const Sum first = sum_of(*engine, {}), later = sum_of(*engine, {.n_before = 100});
  // Besides: a row of embeddings, and recurrent state.
  EXPECT_GE(first.bytes, weights);
  EXPECT_LE(first.bytes, 1.05 * weights + 2 * position);
  EXPECT_DOUBLE_EQ(later.bytes - first.bytes, 100 * position);
  EXPECT_GT(later.operations, first.operations);
}

TEST_P(Costs, TokensShareWeightsAndSeeWhatCameBefore) {
  auto engine = open(GetParam());
  ASSERT_TRUE(engine);
  std::map<std::string, StageCost> one, many;
  for (const StageCost& c : engine->cost({})) one[c.stage] = c;
  for (const StageCost& c : engine->cost({.n_tokens = 64})) many[c.stage] = c;
  const double n_expert = engine->model().n_expert, n_used = engine->model().n_expert_used;
  // 64 tokens use every expert of so few.
  EXPECT_NEAR(many["experts"].bytes / one["experts"].bytes, n_expert / n_used, 0.01 * n_expert / n_used);
  EXPECT_DOUBLE_EQ(many["experts"].int8_operations, 64 * one["experts"].int8_operations);
  EXPECT_DOUBLE_EQ(many["head"].int8_operations, one["head"].int8_operations);
  EXPECT_LT(many["attention"].bytes, 64 * one["attention"].bytes);
  EXPECT_GT(many["attention"].f32_operations, 64 * one["attention"].f32_operations);
  // Apart, each sees itself alone, and every sequence has its own cache.
  const auto apart = engine->cost({.n_tokens = 64, .n_logits = 64, .n_sequences = 64});
  for (const StageCost& c : apart) {
    if (c.stage == "attention") {
      EXPECT_NEAR(c.f32_operations, 64 * one["attention"].f32_operations, 1e-9 * c.f32_operations);
    }
  }
}

TEST_P(Costs, OfNoLogitsHaveNoHead) {
  auto engine = open(GetParam());
  ASSERT_TRUE(engine);
  for (const StageCost& c : engine->cost({.n_tokens = 8, .n_logits = 0})) {
    if (c.stage == "head") {
      EXPECT_EQ(c.bytes + c.int8_operations + c.f32_operations, 0);
    } else if (c.stage == "experts") {
      EXPECT_GT(c.bytes, 0);
    }
  }
}

TEST(CostOfCache, FollowsItsType) {
  auto f16 = open("qwen3moe"), f32 = open("qwen3moe", Type::F32);
  ASSERT_TRUE(f16 && f32);
  const auto grows = [](const Engine& e) { return sum_of(e, {.n_before = 100}).bytes - sum_of(e, {}).bytes; };
  EXPECT_DOUBLE_EQ(grows(*f32), 2 * grows(*f16));
}

INSTANTIATE_TEST_SUITE_P(Models, Costs, testing::ValuesIn(kModels), [](const auto& instance) {
  return std::string(instance.param).substr(0, std::string(instance.param).find('-'));
});

}  // namespace
}  // namespace sluice::test
