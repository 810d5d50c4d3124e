// Every oracle model of a supported architecture: logits, routing and greedy tokens of the reference kernels, the
// accuracy of the fast ones, and results that do not depend on how the work is cut up.
#include <gtest/gtest.h>

#include "sluice/sampler.h"
#include "support/oracle.h"

namespace sluice::test {
namespace {

std::unique_ptr<Engine> open(const OracleModel& model, EngineOptions options) {
  options.n_ctx = 128;
  auto engine = Engine::load(model.file.string(), options);
  EXPECT_TRUE(engine) << (engine ? "" : engine.error().message);
  return engine ? std::move(*engine) : nullptr;
}

EngineOptions reference_options() {
  EngineOptions options;
  options.reference = true;
  return options;
}

EngineOptions fast_options() {
  EngineOptions options;
  options.type_k = options.type_v = Type::F32;
  return options;
}

// All logits of the tokens, given in steps of at most `chunk`.
std::vector<float> all_logits(Engine& engine, std::span<const Token> tokens, size_t chunk, Routing* routing = nullptr,
                              const Routing* forced = nullptr) {
  auto sequence = engine.new_sequence();
  EXPECT_TRUE(sequence);
  std::vector<float> logits;
  for (size_t first = 0; first < tokens.size(); first += chunk) {
    const auto piece = tokens.subspan(first, std::min(chunk, tokens.size() - first));
    StepOptions options;
    options.routing = routing != nullptr;
    options.forced = forced;
    auto result = engine.step({{.sequence = &*sequence, .tokens = piece, .logits = Logits::all}}, options);
    EXPECT_TRUE(result) << (result ? "" : result.error().message);
    if (!result) return {};
    logits.insert(logits.end(), result->logits.begin(), result->logits.end());
    if (routing != nullptr) *routing = std::move(result->routing);
  }
  return logits;
}

std::vector<Token> greedy_tokens(Engine& engine, std::span<const Token> prompt, size_t n) {
  auto sequence = engine.new_sequence();
  std::vector<Token> tokens(prompt.begin(), prompt.end()), generated;
  generated.reserve(n);  // `next` points into it
  std::span<const Token> next = tokens;
  for (size_t i = 0; i < n; ++i) {
    auto result = engine.step({{.sequence = &*sequence, .tokens = next}});
    EXPECT_TRUE(result);
    if (!result) break;
    generated.push_back(static_cast<Token>(argmax(result->row(0))));
    next = std::span(&generated.back(), 1);
  }
  return generated;
}

class Oracle : public testing::TestWithParam<OracleModel> {
 protected:
  void SetUp() override {
    tokens_ = GetParam().tokens();
    size_t n_rows = 0;
    expected_ = GetParam().logits(n_rows, n_vocab_);
    ASSERT_EQ(n_rows, tokens_.size());
  }
  std::vector<Token> tokens_;
  std::vector<float> expected_;
  size_t n_vocab_ = 0;
};

TEST_P(Oracle, ReferenceLogitsAndRouting) {
  auto engine = open(GetParam(), reference_options());
  ASSERT_TRUE(engine);
  Routing routing;
  const auto logits = all_logits(*engine, tokens_, tokens_.size(), &routing);
  const double error = nmse(logits, expected_);
  RecordProperty("nmse", std::to_string(error));
  EXPECT_LE(error, 1e-9);
  const Routing expected = GetParam().routing();
  ASSERT_EQ(routing.layers.size(), expected.layers.size());
  for (const auto& [layer, choice] : expected.layers) {
    ASSERT_TRUE(routing.layers.contains(layer)) << layer;
    EXPECT_EQ(routing.layers[layer].experts, choice.experts) << "layer " << layer;
    ASSERT_EQ(routing.layers[layer].weights.size(), choice.weights.size());
    for (size_t i = 0; i < choice.weights.size(); ++i)
      ASSERT_NEAR(routing.layers[layer].weights[i], choice.weights[i], 1e-5) << i;
  }
}

TEST_P(Oracle, ReferenceGreedyTokens) {
  auto engine = open(GetParam(), reference_options());
  ASSERT_TRUE(engine);
  EXPECT_EQ(greedy_tokens(*engine, tokens_, 32), GetParam().greedy());
}

TEST_P(Oracle, ReferenceInChunks) {
  auto engine = open(GetParam(), reference_options());
  ASSERT_TRUE(engine);
  for (size_t chunk : {1, 2, 3, 7, 31}) EXPECT_LE(nmse(all_logits(*engine, tokens_, chunk), expected_), 1e-9) << chunk;
}

TEST_P(Oracle, FastKernelsAreAsAccurateAsThePeer) {
  const double bound = std::max(1.25 * GetParam().row_median, 1e-9);
  auto engine = open(GetParam(), fast_options());
  ASSERT_TRUE(engine);
  EXPECT_LE(row_median_nmse(all_logits(*engine, tokens_, tokens_.size()), expected_, n_vocab_), bound);
  // With the reference's experts no flip hides or makes an error.
  const Routing expected = GetParam().routing();
  if (expected.layers.empty()) return;
  EXPECT_LE(nmse(all_logits(*engine, tokens_, tokens_.size(), nullptr, &expected), expected_),
            std::max(1.25 * GetParam().forced, 1e-9));
}

TEST_P(Oracle, EveryTierAndNoRepackAreAccurate) {
  const double bound = std::max(1.25 * GetParam().row_median, 1e-9);
  for (const char* isa : {"scalar", "avx2", "avx512", "neon", "neon_i8mm"}) {
    EngineOptions options = fast_options();
    options.cpu_isa = isa;
    options.n_ctx = 128;
    auto engine = Engine::load(GetParam().file.string(), options);
    if (!engine) {
      EXPECT_EQ(engine.error().code, Code::unsupported) << engine.error().message;  // this CPU lacks the tier
      continue;
    }
    EXPECT_EQ((*engine)->info().isa, isa);
    EXPECT_LE(row_median_nmse(all_logits(**engine, tokens_, 64), expected_, n_vocab_), bound) << isa;
  }
  EngineOptions options = fast_options();
  options.repack = false;
  auto engine = open(GetParam(), options);
  ASSERT_TRUE(engine);
  EXPECT_LE(row_median_nmse(all_logits(*engine, tokens_, 64), expected_, n_vocab_), bound);
}

TEST_P(Oracle, SameBitsForAnyThreadsUbatchAndChunk) {
  std::vector<float> first;
  for (uint32_t n_threads : {1, 2, 3, 7}) {
    for (uint32_t n_ubatch : {1, 7, 64, 512}) {
      EngineOptions options;  // the defaults: F16 cache
      options.n_threads = n_threads;
      options.n_ubatch = n_ubatch;
      auto engine = open(GetParam(), options);
      ASSERT_TRUE(engine);
      const auto logits = all_logits(*engine, tokens_, 64);
      if (first.empty()) first = logits;
      ASSERT_EQ(logits, first) << n_threads << " threads, ubatch " << n_ubatch;
      if (n_ubatch == 64 && n_threads == 2) {
        for (size_t chunk : {1, 5, 33}) ASSERT_EQ(all_logits(*engine, tokens_, chunk), first) << chunk;
      }
    }
  }
}

TEST_P(Oracle, SeveralSequencesInOneStepEqualEachAlone) {  // K01
  EngineOptions options;
  options.max_sequences = 4;
  auto engine = open(GetParam(), options);
  ASSERT_TRUE(engine);
  std::vector<std::vector<Token>> prompts;
  for (size_t n : {64, 13, 40, 1}) prompts.emplace_back(tokens_.end() - static_cast<ptrdiff_t>(n), tokens_.end());
  std::vector<std::vector<float>> alone;
  for (const auto& prompt : prompts) alone.push_back(all_logits(*engine, prompt, prompt.size()));
  std::vector<Sequence> sequences;
  std::vector<StepInput> inputs;
  for (size_t i = 0; i < prompts.size(); ++i) sequences.push_back(std::move(*engine->new_sequence()));
  for (size_t i = 0; i < prompts.size(); ++i) inputs.push_back({&sequences[i], prompts[i], Logits::all});
  auto result = engine->step(inputs);
  ASSERT_TRUE(result);
  for (size_t i = 0; i < prompts.size(); ++i) {
    const auto rows = std::span(result->logits).subspan(result->first_row[i] * n_vocab_, prompts[i].size() * n_vocab_);
    EXPECT_TRUE(std::equal(rows.begin(), rows.end(), alone[i].begin(), alone[i].end())) << i;
  }
}

// Past the chunks of 64 or 128 tokens in which a recurrence may be computed, and with its state carried over in
// between.
class LongOracle : public testing::TestWithParam<OracleModel> {};

TEST_P(LongOracle, LogitsInOnePieceAndInSeveral) {
  size_t n_rows = 0, n_vocab = 0;
  const auto expected = GetParam().logits(n_rows, n_vocab, ".long");
  const auto tokens = GetParam().tokens(".long");
  ASSERT_EQ(n_rows, tokens.size());
  for (EngineOptions options : {reference_options(), fast_options()}) {
    options.n_ctx = 192;
    auto engine = Engine::load(GetParam().file.string(), options);
    ASSERT_TRUE(engine) << engine.error().message;
    const auto logits = all_logits(**engine, tokens, tokens.size());
    EXPECT_LE(nmse(logits, expected), 1e-9);
    EXPECT_EQ(all_logits(**engine, tokens, 23), logits);
  }
}

std::vector<OracleModel> long_models() {
  std::vector<OracleModel> models = oracle_models();
  std::erase_if(models, [](const OracleModel& model) { return !model.has_long(); });
  return models;
}

std::string test_name(const testing::TestParamInfo<OracleModel>& instance) {
  std::string name = instance.param.name;
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(Models, Oracle, testing::ValuesIn(oracle_models()), test_name);
INSTANTIATE_TEST_SUITE_P(Models, LongOracle, testing::ValuesIn(long_models()), test_name);

}  // namespace
}  // namespace sluice::test
