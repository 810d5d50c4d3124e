// Models larger than a GPU's memory: experts in host memory, read in place, give the same bits.
#ifdef SLUICE_HAVE_VULKAN
#include <gtest/gtest.h>

#include "sluice/engine.h"
#include "support/gpu.h"
#include "support/oracle.h"

namespace sluice::test {
namespace {

struct FitModel {
  std::string name, path;
  std::vector<Token> tokens;
};

void PrintTo(const FitModel& model, std::ostream* out) { *out << model.name; }

std::vector<FitModel> fit_models() {
  std::vector<FitModel> models = {{"story", (source_dir() / "assets" / "story-q4_0.gguf").string(), ids(7, 8)}};
  for (const OracleModel& model : oracle_models()) {
    if (model.name == "lfm2moe-q4_0") models.push_back({"lfm2moe", model.file.string(), model.tokens()});
  }
  return models;
}

class GpuFit : public testing::TestWithParam<FitModel> {
 protected:
  void SetUp() override { SLUICE_NEED_VULKAN(); }

  static EngineOptions gpu_options(uint64_t memory_bytes = 0) {
    EngineOptions options;
    options.backend = "vulkan";
    options.n_ctx = 256;
    options.n_ubatch = 64;
    if (memory_bytes != 0) options.device_limits = "memory=" + std::to_string(memory_bytes);
    return options;
  }
  static Result<std::unique_ptr<Engine>> load(const EngineOptions& options) {
    return Engine::load(GetParam().path, options);
  }
  // Prefill, then decode token by token; what is read back is counted.
  static std::vector<float> logits(Engine& engine) {
    const std::span<const Token> tokens(GetParam().tokens);
    auto sequence = engine.new_sequence();
    EXPECT_TRUE(sequence);
    std::vector<float> all;
    for (size_t first = 0; first < tokens.size();) {
      const auto piece = tokens.subspan(first, first == 0 ? tokens.size() - 2 : 1);
      const uint64_t reads = engine.counters().host_reads;
      auto result = engine.step({{.sequence = &*sequence, .tokens = piece, .logits = Logits::all}});
      EXPECT_TRUE(result) << (result ? "" : result.error().message);
      if (!result) return {};
      EXPECT_EQ(engine.counters().host_reads - reads, 1u);  // the logits: experts are not read back
      all.insert(all.end(), result->logits.begin(), result->logits.end());
      first += piece.size();
    }
    return all;
  }
};

TEST_P(GpuFit, HalfTheExpertsInHostMemoryGiveTheSameBits) {
  auto resident = load(gpu_options());
  ASSERT_TRUE(resident) << resident.error().message;
  const EngineInfo& all = (*resident)->info();
  EXPECT_TRUE(all.host_layers.empty());
  EXPECT_EQ(all.host_weight_bytes, 0u);
  const uint64_t used = all.weight_bytes + all.cache_bytes + all.scratch_bytes;
  EXPECT_GE(all.free_bytes_before - all.free_bytes, used);
  const std::vector<float> expected = logits(**resident);
  ASSERT_FALSE(expected.empty());

  // By hand.
  const std::vector<uint32_t> layers = (*resident)->model().moe_layers;
  const size_t half = layers.size() / 2;
  ASSERT_GE(half, 1u);
  EngineOptions options = gpu_options();
  options.n_cpu_moe = static_cast<int32_t>(half);
  auto forced = load(options);
  ASSERT_TRUE(forced) << forced.error().message;
  const EngineInfo& info = (*forced)->info();
  EXPECT_EQ(info.host_layers, std::vector<uint32_t>(layers.begin(), layers.begin() + static_cast<ptrdiff_t>(half)));
  EXPECT_GT(info.host_weight_bytes, 0u);
  EXPECT_LT(info.host_weight_bytes, info.weight_bytes);
  EXPECT_EQ(logits(**forced), expected);

  // By a device that is too small, but for what is in host memory now. A sixteenth of it stays free.
  const uint64_t limit = (used - info.host_weight_bytes) / 15 * 16;
  auto fitted = load(gpu_options(limit));
  ASSERT_TRUE(fitted) << fitted.error().message;
  EXPECT_GE((*fitted)->info().host_layers.size(), 1u);
  EXPECT_LE((*fitted)->info().host_layers.size(), half + 1);
  EXPECT_EQ((*fitted)->info().free_bytes_before, limit);
  EXPECT_GT((*fitted)->info().free_bytes, 0u);
  EXPECT_NE((*fitted)->info().host_layers_reason, "");
  EXPECT_EQ(logits(**fitted), expected);

  // Small allocations split the stacks; the table of addresses leads across.
  options = gpu_options();
  options.n_cpu_moe = static_cast<int32_t>(layers.size());
  options.device_limits = "max_alloc=6000000";
  auto split = load(options);
  ASSERT_TRUE(split) << split.error().message;
  EXPECT_EQ((*split)->info().host_layers, layers);
  EXPECT_EQ(logits(**split), expected);

  options = gpu_options(limit);
  options.fit = false;
  auto refused = load(options);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::out_of_memory);
  EXPECT_NE(refused.error().message.find("--fit off"), std::string::npos) << refused.error().message;

  refused = load(gpu_options(all.weight_bytes / 50));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::out_of_memory);
  EXPECT_NE(refused.error().message.find("--backend cpu"), std::string::npos) << refused.error().message;
}

// Steps of any shape fit into the memory that was planned: nothing more is taken later. In a long context few tokens
// need more than eight, for the ranges that attention is split into.
TEST_P(GpuFit, ThePlanHoldsForEveryStep) {
  for (const uint32_t n_ubatch : {512u, 8u}) {
    EngineOptions options = gpu_options();
    options.max_sequences = 3;
    options.n_rewind = 2;
    options.n_ubatch = n_ubatch;
    options.n_ctx = n_ubatch == 8 ? 16384 : 0;
    auto engine = load(options);
    ASSERT_TRUE(engine) << engine.error().message;
    const uint64_t scratch = (*engine)->info().scratch_bytes;
    const std::span<const Token> tokens(GetParam().tokens);
    for (const size_t n : {size_t{1}, size_t{5}, tokens.size()}) {
      for (const bool greedy : {false, true}) {
        auto sequence = (*engine)->new_sequence();
        StepOptions step;
        step.greedy = greedy;
        ASSERT_TRUE((*engine)->step({{.sequence = &*sequence, .tokens = tokens.first(n)}}, step));
      }
    }
    EXPECT_EQ((*engine)->info().scratch_bytes, scratch) << "ubatch " << n_ubatch;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, GpuFit, testing::ValuesIn(fit_models()),
                         [](const auto& instance) { return instance.param.name; });

}  // namespace
}  // namespace sluice::test
#endif
