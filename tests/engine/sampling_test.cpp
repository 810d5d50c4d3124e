// Tokens sampled by the engine are those of the host's Sampler: by rules, as a device does it (the reference kernels
// too), or by the Sampler itself where logits are at hand.
#include "sluice/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "support/oracle.h"

namespace sluice::test {
namespace {

// By rules, and on the host.
class EngineSampling : public testing::TestWithParam<bool> {
 protected:
  static std::unique_ptr<Engine> open(uint32_t max_sequences = 4) {
    EngineOptions options;
    options.n_ctx = 256;
    options.max_sequences = max_sequences;
    options.reference = GetParam();
    auto engine = Engine::load((source_dir() / "tests" / "fixtures" / "oracle" / "qwen3moe.gguf").string(), options);
    EXPECT_TRUE(engine) << (engine ? "" : engine.error().message);
    return engine ? std::move(*engine) : nullptr;
  }
  static std::vector<float> logits_after(Engine& engine, std::span<const Token> tokens) {
    auto sequence = engine.new_sequence();
    auto result = engine.step({{.sequence = &*sequence, .tokens = tokens}});
    return result ? std::move(result->logits) : std::vector<float>();
  }
};

const SamplingParams kSettings[] = {
    {.seed = 3},
    {.temperature = 1.3f, .top_k = 0, .top_p = 1, .min_p = 0, .seed = 4},
    {.temperature = 0.7f, .top_k = 0, .top_p = 0.8f, .repeat_penalty = 1.4f, .seed = 5},
    {.temperature = 0, .presence_penalty = 3, .penalty_last_n = -1},
};

TEST_P(EngineSampling, OneTokenAtATime) {
  auto engine = open();
  ASSERT_TRUE(engine);
  for (const SamplingParams& params : kSettings) {
    std::vector<Token> text = ids(1, 9), next = text;
    Sampler sampler(params), other(params);
    for (const Token id : text) sampler.accept(id), other.accept(id);
    auto sequence = engine->new_sequence();
    for (int i = 0; i < 12; ++i) {
      const auto before = engine->counters();
      auto result = engine->step({{.sequence = &*sequence, .tokens = next, .sampler = &sampler}});
      ASSERT_TRUE(result) << result.error().message;
      const auto after = engine->counters();
      EXPECT_EQ(after.host_reads - before.host_reads, 1u);
      EXPECT_EQ(after.submits - before.submits, 1u);
      if (GetParam()) {
        EXPECT_EQ(after.host_read_bytes - before.host_read_bytes, sizeof(Token));
      }
      EXPECT_TRUE(result->logits.empty());
      ASSERT_EQ(result->tokens.size(), 1u);
      ASSERT_EQ(result->tokens[0], *other.sample(logits_after(*engine, text))) << i;
      next = result->tokens;
      sampler.accept(next[0]);
      sampler.advance();
      other.accept(next[0]);
      text.push_back(next[0]);
    }
  }
}

TEST_P(EngineSampling, SequencesHaveRulesOfTheirOwn) {
  auto engine = open(6);
  ASSERT_TRUE(engine);
  std::vector<Sampler> samplers;
  std::vector<Sequence> sequences;
  std::vector<std::vector<Token>> texts;
  for (const SamplingParams& params : kSettings) {
    samplers.emplace_back(params);
    texts.push_back(ids(static_cast<uint32_t>(texts.size() + 2), 5 + texts.size()));
    for (const Token id : texts.back()) samplers.back().accept(id);
    sequences.push_back(std::move(*engine->new_sequence()));
  }
  std::vector<StepInput> inputs;
  std::vector<Token> expected;
  for (size_t i = 0; i < texts.size(); ++i) {
    inputs.push_back({.sequence = &sequences[i], .tokens = texts[i], .sampler = &samplers[i]});
    expected.push_back(*samplers[i].pick(logits_after(*engine, texts[i])));
  }
  // One without a row, and one whose most probable token is wanted.
  inputs[1].logits = Logits::none;
  expected.erase(expected.begin() + 1);
  inputs[2].sampler = nullptr;
  expected[1] = static_cast<Token>(argmax(logits_after(*engine, texts[2])));
  StepOptions greedy;
  greedy.greedy = true;
  const auto before = engine->counters();
  auto result = engine->step(inputs, greedy);
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->tokens, expected);
  EXPECT_TRUE(result->logits.empty());
  if (GetParam()) {
    EXPECT_EQ(engine->counters().host_read_bytes - before.host_read_bytes, 3 * sizeof(Token));
  }
}

TEST_P(EngineSampling, LogitsStayWhereSomebodyWantsThem) {
  auto engine = open();
  ASSERT_TRUE(engine);
  const auto a = ids(1, 7), b = ids(2, 5);
  auto first = engine->new_sequence(), second = engine->new_sequence();
  Sampler sampler(kSettings[1]);
  auto result =
      engine->step({{.sequence = &*first, .tokens = a}, {.sequence = &*second, .tokens = b, .sampler = &sampler}});
  ASSERT_TRUE(result);
  ASSERT_EQ(result->tokens.size(), 2u);
  EXPECT_EQ(result->tokens[0], -1);
  EXPECT_EQ(result->row_failed[0], 0);
  EXPECT_EQ(result->tokens[1], *sampler.pick(result->row(1)));
  EXPECT_TRUE(std::ranges::equal(result->row(0), logits_after(*engine, a)));
}

// More rows than the head computes at once; penalties and draws go on with the draft.
TEST_P(EngineSampling, DraftsAreTakenAsFarAsTheyAreRight) {
  auto engine = open();
  ASSERT_TRUE(engine);
  const SamplingParams params{.temperature = 0.9f, .presence_penalty = 0.5f, .penalty_last_n = 20, .seed = 8};
  std::vector<Token> draft = ids(3, 1);
  Sampler sampler(params), other(params);
  sampler.accept(draft[0]);
  other.accept(draft[0]);
  auto sequence = engine->new_sequence();
  std::vector<Token> next = draft;
  for (int i = 0; i < 90; ++i) {
    auto result = engine->step({{.sequence = &*sequence, .tokens = next}});
    ASSERT_TRUE(result);
    next = {*other.sample(result->logits)};
    other.accept(next[0]);
    draft.push_back(next[0]);
  }
  for (const size_t n_right : {size_t{0}, size_t{1}, size_t{40}, size_t{70}, size_t{90}}) {
    std::vector<Token> tokens = draft;
    if (n_right < 90) tokens[n_right + 1] = (tokens[n_right + 1] + 1) % 300;
    ASSERT_TRUE(sequence->truncate(0));
    const auto before = engine->counters();
    auto result =
        engine->step({{.sequence = &*sequence, .tokens = tokens, .logits = Logits::all, .sampler = &sampler}});
    ASSERT_TRUE(result);
    ASSERT_EQ(result->tokens.size(), 91u);
    for (size_t i = 0; i < 91; ++i) {
      if (i > n_right) {
        EXPECT_EQ(result->tokens[i], -1) << i;
      } else if (i < 90) {
        EXPECT_EQ(result->tokens[i], draft[i + 1]) << i;
      }
      EXPECT_EQ(result->row_failed[i], 0) << i;
    }
    if (GetParam()) {
      EXPECT_EQ(engine->counters().host_read_bytes - before.host_read_bytes, 91 * sizeof(Token));
    }
  }
}

// What a long text is penalised for may not fit the step's memory: then the logits come to the host.
TEST_P(EngineSampling, MorePenaltiesThanFit) {
  auto engine = open();
  ASSERT_TRUE(engine);
  Sampler sampler({.temperature = 1, .presence_penalty = 1, .penalty_last_n = -1, .seed = 2});
  for (Token id = 100; id < 100000; ++id) sampler.accept(id);
  const auto text = ids(4, 6);
  auto sequence = engine->new_sequence();
  auto result = engine->step({{.sequence = &*sequence, .tokens = text, .sampler = &sampler}});
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->tokens, (std::vector<Token>{*sampler.pick(logits_after(*engine, text))}));
  EXPECT_TRUE(result->logits.empty());
}

INSTANTIATE_TEST_SUITE_P(By, EngineSampling, testing::Bool(),
                         [](const auto& instance) { return instance.param ? "Rules" : "Host"; });

}  // namespace
}  // namespace sluice::test
