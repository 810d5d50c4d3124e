// Whole models on the GPU backends: the oracle's logits, routing and greedy tokens, the story model, and what comes
// back to the host.
#ifdef SLUICE_HAVE_VULKAN
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "sluice/engine.h"
#include "sluice/sampler.h"
#include "support/gpu.h"
#include "support/oracle.h"
#include "support/types.h"

namespace sluice::test {
namespace {

EngineOptions gpu_options(std::string limits = "") {
  EngineOptions options;
  options.backend = "vulkan";
  options.device_limits = std::move(limits);
  options.deterministic = true;  // F32 sums, whatever the device could do faster
  options.n_ctx = 128;
  options.type_k = options.type_v = Type::F32;
  return options;
}

std::unique_ptr<Engine> open(const std::string& path, const EngineOptions& options) {
  auto engine = Engine::load(path, options);
  EXPECT_TRUE(engine) << (engine ? "" : engine.error().message);
  return engine ? std::move(*engine) : nullptr;
}

std::vector<float> all_logits(Engine& engine, std::span<const Token> tokens, size_t chunk, Routing* routing = nullptr) {
  auto sequence = engine.new_sequence();
  EXPECT_TRUE(sequence);
  std::vector<float> logits;
  StepOptions options;
  options.routing = routing != nullptr;
  for (size_t first = 0; first < tokens.size(); first += chunk) {
    const auto piece = tokens.subspan(first, std::min(chunk, tokens.size() - first));
    auto result = engine.step({{.sequence = &*sequence, .tokens = piece, .logits = Logits::all}}, options);
    EXPECT_TRUE(result) << (result ? "" : result.error().message);
    if (!result) return {};
    logits.insert(logits.end(), result->logits.begin(), result->logits.end());
    if (routing != nullptr) *routing = std::move(result->routing);
  }
  return logits;
}

class Counts {
 public:
  explicit Counts(const Engine& engine) : engine_(engine), before_(engine.counters()) {}
  uint64_t reads() const { return engine_.counters().host_reads - before_.host_reads; }
  uint64_t read_bytes() const { return engine_.counters().host_read_bytes - before_.host_read_bytes; }
  uint64_t submits() const { return engine_.counters().submits - before_.submits; }

 private:
  const Engine& engine_;
  EngineCounters before_;
};

// The prompt's continuation, sampled on the device; every step is checked for what it reads.
std::vector<Token> greedy_tokens(Engine& engine, std::span<const Token> prompt, size_t n) {
  auto sequence = engine.new_sequence();
  std::vector<Token> generated;
  generated.reserve(n);  // `next` points into it
  std::span<const Token> next = prompt;
  StepOptions options;
  options.greedy = true;
  for (size_t i = 0; i < n; ++i) {
    const Counts counts(engine);
    auto result = engine.step({{.sequence = &*sequence, .tokens = next}}, options);
    EXPECT_TRUE(result) << (result ? "" : result.error().message);
    if (!result) break;
    EXPECT_EQ(counts.reads(), 1u);  // also of the prompt: its first sampled token, and nothing else
    EXPECT_EQ(counts.read_bytes(), sizeof(Token));
    if (i != 0) {
      EXPECT_EQ(counts.submits(), 1u);
    }
    generated.push_back(result->tokens.at(0));
    next = std::span(&generated.back(), 1);
  }
  return generated;
}

class GpuOracle : public testing::TestWithParam<OracleModel> {
 protected:
  void SetUp() override {
    SLUICE_NEED_VULKAN();
    tokens_ = GetParam().tokens();
    size_t n_rows = 0;
    expected_ = GetParam().logits(n_rows, n_vocab_);
  }
  std::unique_ptr<Engine> open(const EngineOptions& options) { return test::open(GetParam().file.string(), options); }
  void check_outputs();
  std::vector<Token> tokens_;
  std::vector<float> expected_;
  size_t n_vocab_ = 0;
};

void GpuOracle::check_outputs() {
  EngineOptions options = gpu_options();
  if (GetParam().has_long()) options.n_ctx = 192;
  auto engine = open(options);
  ASSERT_TRUE(engine);
  EXPECT_EQ(engine->info().backend, "vulkan");
  Routing routing;
  const auto logits = all_logits(*engine, tokens_, tokens_.size(), &routing);
  const double error = nmse(logits, expected_);
  RecordProperty("nmse", std::to_string(error));
  EXPECT_LE(error, 1e-9);
  for (const auto& [layer, choice] : GetParam().routing().layers)
    EXPECT_EQ(routing.layers[layer].experts, choice.experts) << "layer " << layer;
  EXPECT_EQ(all_logits(*engine, tokens_, tokens_.size()), logits);  // bit-equal from run to run
  EXPECT_EQ(greedy_tokens(*engine, tokens_, 32), GetParam().greedy());
  if (GetParam().has_long()) {
    size_t n_rows = 0, n_vocab = 0;
    const auto expected = GetParam().logits(n_rows, n_vocab, ".long");
    EXPECT_LE(nmse(all_logits(*engine, GetParam().tokens(".long"), 100), expected), 1e-9);
  }
  // As it comes: short steps compute in F32, attention in ranges of the cache.
  EngineOptions usual = gpu_options();
  usual.deterministic = false;
  auto other = open(usual);
  ASSERT_TRUE(other);
  EXPECT_LE(nmse(all_logits(*other, tokens_, 3), expected_), 1e-9);
}

TEST_P(GpuOracle, LogitsRoutingAndGreedyTokens) { check_outputs(); }

// What else is asked of a model does not depend on how its weights are read, nor on numbers in its launches.
class GpuFurtherModels : public GpuOracle {};

TEST_P(GpuFurtherModels, LogitsRoutingAndGreedyTokens) { check_outputs(); }

// Past the first range of positions, where attention may be split.
TEST(GpuDeterministic, DecodeHasTheBitsOfPrefill) {
  SLUICE_NEED_VULKAN();
  EngineOptions options = gpu_options();
  options.n_ctx = 256;
  auto engine = open((source_dir() / "tests" / "fixtures" / "oracle" / "lfm2moe-q4_0.gguf").string(), options);
  ASSERT_TRUE(engine);
  std::vector<Token> tokens;
  for (uint32_t i = 0; i < 180; ++i) tokens.push_back(static_cast<Token>((i * 37 + 5) % engine->model().n_vocab));
  const auto last_of = [&](size_t n_alone) {
    auto sequence = engine->new_sequence();
    std::vector<float> logits;
    for (size_t first = 0; first < tokens.size();) {
      const size_t n = first == 0 ? tokens.size() - n_alone : 1;
      const auto result =
          engine->step({{.sequence = &*sequence, .tokens = std::span<const Token>(tokens).subspan(first, n)}});
      EXPECT_TRUE(result);
      if (!result) return logits;
      logits = result->logits;
      first += n;
    }
    return logits;
  };
  const auto together = last_of(0);
  ASSERT_FALSE(together.empty());
  EXPECT_EQ(last_of(5), together);
}

TEST_P(GpuOracle, APoorDeviceComputesTheSame) {
  EngineOptions options = gpu_options(
      "max_alloc=400000,groups=7,shared=16384,no_fp16,no_int8,no_int16,no_storage8,no_storage16,no_subgroup_arithmetic,"
      "no_subgroup_shuffle,no_subgroup_ballot,no_subgroup_vote,no_dot_product,no_cooperative_matrix,no_scalar_layout,"
      "no_mapped_device_memory,submit_operations=1000000");
  options.n_ubatch = 16;
  auto engine = open(options);
  ASSERT_TRUE(engine);
  EXPECT_LE(nmse(all_logits(*engine, tokens_, 32), expected_), 1e-9);
}

// On cooperative matrices, where there are any: with the oracle's experts, since a close call may fall otherwise.
TEST_P(GpuOracle, LongInputsInHalfPrecision) {
  EngineOptions options = gpu_options();
  options.deterministic = false;
  options.type_k = options.type_v = Type::F16;
  auto engine = open(options);
  ASSERT_TRUE(engine);
  auto sequence = engine->new_sequence();
  ASSERT_TRUE(sequence);
  const Routing routing = GetParam().routing();
  StepOptions step;
  if (!routing.layers.empty()) step.forced = &routing;
  auto result = engine->step({{.sequence = &*sequence, .tokens = tokens_, .logits = Logits::all}}, step);
  ASSERT_TRUE(result) << (result ? "" : result.error().message);
  EXPECT_LE(nmse(result->logits, expected_), 1e-4);
}

TEST_P(GpuOracle, SeveralSequencesReadFourBytesEach) {
  EngineOptions options = gpu_options();
  options.max_sequences = 3;
  auto engine = open(options);
  ASSERT_TRUE(engine);
  std::vector<Sequence> sequences;
  std::vector<StepInput> inputs;
  std::vector<Token> expected;
  for (size_t i = 0; i < 3; ++i) {
    const auto prompt = std::span<const Token>(tokens_).first(5 + 9 * i);
    expected.push_back(greedy_tokens(*engine, prompt, 1).at(0));
    sequences.push_back(std::move(*engine->new_sequence()));
    inputs.push_back({.tokens = prompt});
  }
  for (size_t i = 0; i < 3; ++i) inputs[i].sequence = &sequences[i];
  StepOptions greedy;
  greedy.greedy = true;
  const Counts counts(*engine);
  auto result = engine->step(inputs, greedy);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->tokens, expected);
  EXPECT_TRUE(result->logits.empty());
  EXPECT_EQ(counts.reads(), 1u);
  EXPECT_EQ(counts.read_bytes(), 3 * sizeof(Token));
}

TEST_P(GpuOracle, NaiveRoutingGivesTheSameAndAsksTheHostInEveryLayer) {
  EngineOptions options = gpu_options();
  auto usual = open(options);
  options.naive_routing = true;
  auto naive = open(options);
  ASSERT_TRUE(usual && naive);
  EXPECT_NE(naive->info().free_bytes_before, 0u);  // it is planned like any other
  const uint64_t n_routed = naive->model().moe_layers.size();
  const bool has_gate = !GetParam().architecture.starts_with("nemotron");
  const uint64_t n_stacks = (has_gate ? 3 : 2) * n_routed;
  auto sequence = naive->new_sequence();
  auto result = naive->step({{.sequence = &*sequence, .tokens = tokens_}});
  ASSERT_TRUE(result) << result.error().message;
  auto beside = usual->new_sequence();
  auto expected = usual->step({{.sequence = &*beside, .tokens = tokens_}});
  ASSERT_TRUE(expected);
  EXPECT_EQ(result->logits, expected->logits);
  StepOptions greedy;
  greedy.greedy = true;
  for (int i = 0; i < 3; ++i) {
    const std::vector<Token> next = {tokens_[static_cast<size_t>(i)]};
    expected = usual->step({{.sequence = &*beside, .tokens = next}}, greedy);
    ASSERT_TRUE(expected);
    const Counts counts(*naive);
    const uint64_t prepared = i == 0 ? n_stacks : 0;  // the first step learns where the experts lie
    result = naive->step({{.sequence = &*sequence, .tokens = next}}, greedy);
    ASSERT_TRUE(result);
    EXPECT_EQ(result->tokens, expected->tokens);
    EXPECT_EQ(counts.reads(), n_routed + 1 + prepared);
    if (i != 0) {
      EXPECT_EQ(counts.submits(), 2 * n_routed + 1);
    }
  }
  const Sampler sampler({.temperature = 1, .seed = 6});
  const auto more = std::span<const Token>(tokens_).first(5);
  expected = usual->step({{.sequence = &*beside, .tokens = more, .sampler = &sampler}});
  result = naive->step({{.sequence = &*sequence, .tokens = more, .sampler = &sampler}});
  ASSERT_TRUE(result && expected);
  EXPECT_EQ(result->tokens, expected->tokens);
}

TEST_P(GpuOracle, PrefillReadsNothing) {
  EngineOptions options = gpu_options();
  options.n_ubatch = 16;
  auto engine = open(options);
  ASSERT_TRUE(engine);
  auto sequence = engine->new_sequence();
  const Counts counts(*engine);
  ASSERT_TRUE(engine->step({{.sequence = &*sequence, .tokens = tokens_, .logits = Logits::none}}));
  EXPECT_EQ(counts.reads(), 0u);
}

bool is_full(const OracleModel& model) {
  const Type* end = std::end(kFullTypes);
  return model.type.empty() ||
         std::any_of(std::begin(kFullTypes), end, [&](Type type) { return type_info(type).name == model.type; });
}

// Models whose launches another one has, too: deepseek2-v3, glm4moe, qwen3moe, qwen3next or nemotron_h_moe-latent.
bool is_like_another(const OracleModel& model) {
  constexpr std::string_view kSuch[] = {"bailingmoe2", "deepseek2",  "ernie4_5-moe",   "llama",
                                        "mixtral",     "minimax-m2", "nemotron_h_moe", "olmoe",
                                        "qwen3",       "qwen35moe",  "qwen35moe-mtp"};
  return std::find(std::begin(kSuch), std::end(kSuch), model.name) != std::end(kSuch);
}

std::vector<OracleModel> models_of_full_types() {
  std::vector<OracleModel> models = oracle_models();
  std::erase_if(models, [](const OracleModel& model) { return !is_full(model) || is_like_another(model); });
  return models;
}

std::vector<OracleModel> further_models() {
  std::vector<OracleModel> models;
  for (const OracleModel& model : oracle_models()) {
    const auto same = [&](const OracleModel& other) { return other.type == model.type; };
    const bool first = !is_full(model) && std::none_of(models.begin(), models.end(), same);
    if (first || is_like_another(model)) models.push_back(model);
  }
  return models;
}

std::string test_name(const testing::TestParamInfo<OracleModel>& instance) {
  std::string name = instance.param.name;
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(Models, GpuOracle, testing::ValuesIn(models_of_full_types()), test_name);
INSTANTIATE_TEST_SUITE_P(Models, GpuFurtherModels, testing::ValuesIn(further_models()), test_name);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(GpuFurtherModels);  // the fixtures in the repository have none

// The continuation, sampled on the device: the tokens are the host's, from the logits of a second sequence.
void expect_sampled_tokens(Engine& engine, std::span<const Token> prompt, const SamplingParams& params, size_t n) {
  auto sequence = engine.new_sequence(), other = engine.new_sequence();
  ASSERT_TRUE(sequence && other);
  Sampler sampler(params), host(params);
  for (const Token id : prompt) {
    sampler.accept(id);
    host.accept(id);
  }
  std::vector<Token> next(prompt.begin(), prompt.end());
  for (size_t i = 0; i < n; ++i) {
    const Counts counts(engine);
    auto result = engine.step({{.sequence = &*sequence, .tokens = next, .sampler = &sampler}});
    ASSERT_TRUE(result) << result.error().message;
    EXPECT_EQ(counts.reads(), 1u);
    EXPECT_EQ(counts.read_bytes(), sizeof(Token));
    if (i != 0) {
      EXPECT_EQ(counts.submits(), 1u);
    }
    EXPECT_TRUE(result->logits.empty());
    auto logits = engine.step({{.sequence = &*other, .tokens = next}});
    ASSERT_TRUE(logits);
    ASSERT_EQ(result->tokens.at(0), *host.sample(logits->row(0))) << i;
    next = result->tokens;
    sampler.accept(next[0]);
    sampler.advance();
    host.accept(next[0]);
  }
}

const SamplingParams kSamplings[] = {
    {.seed = 3},
    {.temperature = 1.3f, .top_k = 0, .top_p = 1, .min_p = 0, .seed = 4},
    {.temperature = 0.7f, .top_k = 0, .top_p = 0.8f, .repeat_penalty = 1.4f, .seed = 5},
    {.temperature = 0, .presence_penalty = 3, .penalty_last_n = -1},
};

std::unique_ptr<Engine> open_fixture(const std::string& name, const EngineOptions& options) {
  return open((source_dir() / "tests" / "fixtures" / "oracle" / (name + ".gguf")).string(), options);
}

class GpuSampling : public testing::TestWithParam<const char*> {};

TEST_P(GpuSampling, TokensAreTheHostSamplersAndReadFourBytes) {
  SLUICE_NEED_VULKAN();
  EngineOptions options = gpu_options();
  options.max_sequences = 2;
  auto engine = open_fixture(GetParam(), options);
  ASSERT_TRUE(engine);
  for (const SamplingParams& params : kSamplings)
    ASSERT_NO_FATAL_FAILURE(expect_sampled_tokens(*engine, ids(1, 9), params, 6));
}

TEST_P(GpuSampling, SequencesWithRulesOfTheirOwnReadFourBytesEach) {
  SLUICE_NEED_VULKAN();
  EngineOptions options = gpu_options();
  options.max_sequences = 4;
  auto engine = open_fixture(GetParam(), options);
  ASSERT_TRUE(engine);
  std::vector<Sequence> sequences;
  std::vector<Sampler> samplers;
  for (const SamplingParams& params : kSamplings) {
    sequences.push_back(std::move(*engine->new_sequence()));
    samplers.emplace_back(params);
  }
  const std::vector<Token> tokens = ids(2, 40);
  std::vector<StepInput> inputs;
  for (size_t i = 0; i < sequences.size(); ++i) {
    const auto prompt = std::span<const Token>(tokens).first(5 + 9 * i);
    for (const Token id : prompt) samplers[i].accept(id);
    inputs.push_back({.sequence = &sequences[i], .tokens = prompt});
  }
  auto logits = engine->step(inputs);
  ASSERT_TRUE(logits);
  std::vector<Token> expected;
  for (size_t i = 0; i < inputs.size(); ++i) {
    expected.push_back(*samplers[i].pick(logits->row(i)));
    inputs[i].sampler = &samplers[i];
    ASSERT_TRUE(sequences[i].truncate(0));
  }
  const Counts counts(*engine);
  auto result = engine->step(inputs);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->tokens, expected);
  EXPECT_EQ(counts.reads(), 1u);
  EXPECT_EQ(counts.read_bytes(), inputs.size() * sizeof(Token));
}

INSTANTIATE_TEST_SUITE_P(Models, GpuSampling, testing::Values("lfm2moe-q4_0", "qwen3moe-all-q8_0"),
                         [](const auto& instance) { return std::string(instance.param).substr(0, 4); });

TEST(GpuStory, GreedyTokensOfTheReference) {
  SLUICE_NEED_VULKAN();
  auto engine = open((source_dir() / "assets" / "story-q4_0.gguf").string(), gpu_options());
  ASSERT_TRUE(engine);
  std::ifstream in(source_dir() / "tests" / "fixtures" / "story" / "reference.json");
  const auto reference = nlohmann::json::parse(in);
  for (size_t i = 0; i < 2; ++i) {  // a CPU that plays a GPU takes a tenth of a second for each token
    const auto& prompt = reference.at("prompts").at(i);
    auto expected = prompt.at("greedy").get<std::vector<Token>>();
    expected.resize(12);
    EXPECT_EQ(greedy_tokens(*engine, prompt.at("ids").get<std::vector<Token>>(), expected.size()), expected)
        << prompt.at("prompt");
  }
}

TEST(GpuStory, AThousandTimesTheSameStepGivesTheSameBits) {
  SLUICE_NEED_VULKAN();
  auto engine = open((source_dir() / "tests" / "fixtures" / "oracle" / "lfm2moe-q4_0.gguf").string(), gpu_options());
  ASSERT_TRUE(engine);
  auto prompt = engine->new_sequence();
  const std::vector<Token> ids = {1, 17, 99, 5, 250, 31, 8};
  ASSERT_TRUE(engine->step({{.sequence = &*prompt, .tokens = ids}}));
  ASSERT_TRUE(prompt->checkpoint());
  std::vector<float> first;
  for (int i = 0; i < 1000; ++i) {
    auto result = engine->step({{.sequence = &*prompt, .tokens = std::span(ids).first(1)}});
    ASSERT_TRUE(result);
    if (first.empty()) first = result->logits;
    ASSERT_EQ(result->logits, first) << i;
    ASSERT_TRUE(prompt->truncate(static_cast<uint32_t>(ids.size())));
  }
}

}  // namespace
}  // namespace sluice::test
#endif
