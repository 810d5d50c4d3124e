// The story model against its reference (torch, F32 arithmetic on the dequantised weights): greedy tokens and held-out
// perplexity.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "sluice/engine.h"
#include "sluice/perplexity.h"
#include "sluice/sampler.h"
#include "support/oracle.h"
#include "support/sanitizer.h"

namespace sluice::test {
namespace {

using nlohmann::json;

std::filesystem::path fixtures() { return source_dir() / "tests" / "fixtures" / "story"; }

json reference() {
  std::ifstream in(fixtures() / "reference.json");
  return json::parse(in);
}

std::unique_ptr<Engine> open(EngineOptions options) {
  options.need_tokenizer = true;
  auto engine = Engine::load((source_dir() / "assets" / "story-q4_0.gguf").string(), options);
  EXPECT_TRUE(engine) << (engine ? "" : engine.error().message);
  return engine ? std::move(*engine) : nullptr;
}

std::vector<Token> greedy(Engine& engine, const std::vector<Token>& prompt, size_t n) {
  auto sequence = engine.new_sequence();
  std::vector<Token> tokens;
  tokens.reserve(n);
  std::span<const Token> next = prompt;
  while (tokens.size() < n) {
    auto result = engine.step({{.sequence = &*sequence, .tokens = next}});
    EXPECT_TRUE(result);
    if (!result) break;
    tokens.push_back(static_cast<Token>(argmax(result->row(0))));
    next = std::span(&tokens.back(), 1);
  }
  return tokens;
}

std::string heldout() {
  std::ifstream in(fixtures() / "heldout.txt");
  std::string text((std::istreambuf_iterator<char>(in)), {});
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

TEST(Story, GreedyTokensOfTheReference) {
  EngineOptions options;
  options.reference = true;
  auto engine = open(options);
  ASSERT_TRUE(engine);
  const json expected = reference();
  for (const json& prompt : expected.at("prompts")) {
    const auto ids = prompt.at("ids").get<std::vector<Token>>();
    EXPECT_EQ(engine->tokenizer()->encode(prompt.at("prompt").get<std::string>(), {}), ids);
    EXPECT_EQ(greedy(*engine, ids, 48), prompt.at("greedy").get<std::vector<Token>>()) << prompt.at("prompt");
  }
}

// A sanitizer makes the 15,000 tokens of two runs take half an hour: there one window has to do, and the two runs are
// compared.
constexpr bool kOneWindow = kSanitized;

// Tale by tale, each behind <|endoftext|>, as the reference joins them.
double heldout_perplexity(const EngineOptions& options, const json& expected) {
  auto engine = open(options);
  if (!engine) throw std::runtime_error("the story model does not open");
  auto tokens = perplexity_tokens(*engine->tokenizer(), heldout(), {.separator = "<|endoftext|>"});
  EXPECT_EQ(tokens.size(), expected.at("tokens").get<size_t>());
  if (kOneWindow) tokens.resize(expected.at("window").get<size_t>());
  const auto result = perplexity(*engine, tokens, {.n_window = expected.at("window"), .score_all = true});
  if (!result) throw std::runtime_error(result.error().message);
  EXPECT_EQ(result->n_tokens, kOneWindow ? tokens.size() - 1 : expected.at("scored").get<size_t>());
  return result->perplexity;
}

TEST(Story, HeldOutPerplexity) {
  const json expected = reference().at("heldout");
  double reference_value = expected.at("pytorch_q4_0").at("ppl");
  for (bool reference_kernels : {true, false}) {
    EngineOptions options;
    options.reference = reference_kernels;
    const double value = heldout_perplexity(options, expected);
    if (kOneWindow && reference_kernels) reference_value = value;
    EXPECT_NEAR(value / reference_value, 1, reference_kernels ? 1e-4 : 3e-3);
    RecordProperty(reference_kernels ? "reference" : "fast", std::to_string(value));
  }
}

TEST(Story, HeldOutPerplexityWithAQuantizedCache) {
  const json expected = reference().at("heldout");
  EngineOptions options;
  const double f16 = heldout_perplexity(options, expected);
  options.type_k = options.type_v = Type::Q8_0;
  const double q8_0 = heldout_perplexity(options, expected);
  EXPECT_NE(q8_0, f16);  // it took effect
  EXPECT_NEAR(q8_0 / f16, 1, 3e-3);
  RecordProperty("f16", std::to_string(f16));
  RecordProperty("q8_0", std::to_string(q8_0));
}

TEST(Story, SameTaleForAnyThreadsUbatchAndSequenceMix) {
  const auto ids = reference().at("prompts").at(1).at("ids").get<std::vector<Token>>();
  std::vector<Token> first;
  for (uint32_t n_threads : {1, 2, 3, 7}) {
    for (uint32_t n_ubatch : {1, 7, 64, 512}) {
      EngineOptions options;
      options.n_threads = n_threads;
      options.n_ubatch = n_ubatch;
      auto engine = open(options);
      ASSERT_TRUE(engine);
      const auto tale = greedy(*engine, ids, 32);
      if (first.empty()) first = tale;
      EXPECT_EQ(tale, first) << n_threads << " threads, ubatch " << n_ubatch;
    }
  }
}

}  // namespace
}  // namespace sluice::test
