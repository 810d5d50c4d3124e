// Drafts change nothing but speed: tokens computed together and taken back leave the bits of one token at a time.
#include <gtest/gtest.h>

#include "sluice/sampler.h"
#include "sluice/speculate.h"
#include "support/oracle.h"
#include "support/sanitizer.h"
#include "support/temp_dir.h"

namespace sluice::test {
namespace {

// The story model is of an architecture that is there already: too slow for a sanitizer to watch once more.
std::vector<const char*> models() {
  std::vector<const char*> names = {"lfm2", "lfm2moe-q4_0", "lfm2moe-bf16", "nemotron_h_moe-latent",
                                    "qwen3moe-all-q8_0"};
  if (!kSanitized) names.push_back("story");
  return names;
}
constexpr uint32_t kContext = 120;

std::unique_ptr<Engine> open(const std::string& name, uint32_t n_rewind = 16, uint32_t n_ctx = kContext) {
  EngineOptions options;
  options.n_ctx = n_ctx;
  options.n_rewind = n_rewind;
  options.max_sequences = 2;
  options.n_threads = 2;
  const auto fixtures = source_dir() / "tests" / "fixtures" / "oracle";
  const auto path = name == "story" ? source_dir() / "assets" / "story-q4_0.gguf" : fixtures / (name + ".gguf");
  auto engine = Engine::load(path.string(), options);
  EXPECT_TRUE(engine) << (engine ? "" : engine.error().message);
  return engine ? std::move(*engine) : nullptr;
}

// A text that comes several times.
std::vector<Token> copies(size_t n) {
  const auto piece = ids(1, 17);
  std::vector<Token> tokens;
  for (size_t i = 0; i < n; ++i) tokens.push_back(piece[i % piece.size()]);
  return tokens;
}

struct Text {
  std::vector<Token> tokens;               // without the prompt
  std::vector<std::vector<float>> logits;  // that each was chosen from
  std::vector<Token> held;                 // by the sequence at the end
  SpeculationCounts counts;
};

// Until the context is full, `most` tokens are there, or `stop` is chosen (which is not held).
Text decode(Engine& engine, const std::vector<Token>& prompt, const SamplingParams& sampling, Speculator* speculator,
            size_t most = SIZE_MAX, Token stop = -1) {
  Text text;
  auto sequence = engine.new_sequence();
  EXPECT_TRUE(sequence);
  Sampler sampler(sampling);
  for (Token id : prompt) sampler.accept(id);
  if (speculator != nullptr) {
    for (Token id : prompt) speculator->accept(id);
  }
  auto step = engine.step({{.sequence = &*sequence, .tokens = prompt}});
  EXPECT_TRUE(step);
  size_t row = 0;
  uint32_t n_unused = 0;
  for (;;) {
    text.logits.emplace_back(step->row(row).begin(), step->row(row).end());
    const Token id = *sampler.sample(step->row(row));
    text.tokens.push_back(id);
    sampler.accept(id);
    const uint32_t length = sequence->n_tokens() - n_unused;
    if (text.tokens.size() == most || id == stop || length == engine.info().n_ctx) break;
    if (speculator != nullptr && n_unused != 0 && speculator->take(id)) {
      n_unused = speculator->n_unused();
      ++row;
      continue;
    }
    const auto cut = sequence->truncate(length);
    EXPECT_TRUE(cut) << (cut ? "" : cut.error().message);
    const std::vector<Token> alone{id};
    const auto tokens = speculator == nullptr ? std::span<const Token>(alone)
                                              : speculator->propose(id, engine.info().n_ctx - length - 1);
    step = engine.step({{.sequence = &*sequence, .tokens = tokens, .logits = Logits::all}});
    EXPECT_TRUE(step) << (step ? "" : step.error().message);
    n_unused = speculator == nullptr ? 0 : speculator->n_unused();
    row = 0;
  }
  EXPECT_TRUE(sequence->truncate(sequence->n_tokens() - n_unused));
  text.held.assign(sequence->tokens().begin(), sequence->tokens().end());
  if (speculator != nullptr) text.counts = speculator->counts();
  return text;
}

void expect_same(const Text& a, const Text& b) {
  EXPECT_EQ(a.tokens, b.tokens);
  EXPECT_EQ(a.held, b.held);
  EXPECT_TRUE(a.logits == b.logits);
}

constexpr SamplingParams kGreedy{.temperature = 0};

class Speculation : public testing::TestWithParam<const char*> {};

// Drafts of known quality instead of a speculator's: the first n_right tokens are those that greedy decoding gives.
TEST_P(Speculation, RowsOfDraftsAreThoseOfSingleSteps) {
  auto engine = open(GetParam());
  ASSERT_TRUE(engine);
  const auto prompt = ids(3, 20);
  const Text expected = decode(*engine, prompt, kGreedy, nullptr, 60);
  const auto n_vocab = static_cast<Token>(engine->model().n_vocab);
  for (const size_t n : {1, 2, 3, 4, 7, 8, 15, 16}) {
    for (const size_t n_right : {size_t{0}, size_t{1}, n / 2, n}) {
      if (n_right > n) continue;
      SCOPED_TRACE(testing::Message() << "drafts of " << n << ", " << n_right << " right");
      auto sequence = engine->new_sequence();
      ASSERT_TRUE(engine->step({{.sequence = &*sequence, .tokens = prompt}}));
      for (size_t at = 0; at + n + 1 < expected.tokens.size(); at += n_right + 1) {
        std::vector<Token> tokens(expected.tokens.begin() + static_cast<ptrdiff_t>(at),
                                  expected.tokens.begin() + static_cast<ptrdiff_t>(at + n + 1));
        for (size_t i = n_right + 1; i < tokens.size(); ++i) tokens[i] = (tokens[i] + 1) % n_vocab;
        auto step = engine->step({{.sequence = &*sequence, .tokens = tokens, .logits = Logits::all}});
        ASSERT_TRUE(step) << step.error().message;
        for (size_t row = 0; row <= n_right; ++row)
          ASSERT_TRUE(std::ranges::equal(step->row(row), expected.logits[at + row + 1])) << at + row;
        const auto cut = sequence->truncate(static_cast<uint32_t>(prompt.size() + at + n_right + 1));
        ASSERT_TRUE(cut) << cut.error().message;
      }
    }
  }
}

// With drafts that cost nothing, so that every guess is tried, however bad.
TEST_P(Speculation, OutputIsThatWithoutItUpToTheEndOfTheContext) {
  auto engine = open(GetParam());
  ASSERT_TRUE(engine);
  const SamplingParams samplings[] = {kGreedy,
                                      {.temperature = 0, .repeat_penalty = 1.3f, .frequency_penalty = 0.2f},
                                      {.seed = 7},
                                      {.temperature = 0.3f, .presence_penalty = 0.5f, .seed = 11}};
  uint64_t n_accepted = 0, n_rejected = 0;
  for (const SamplingParams& sampling : samplings) {
    for (const auto& prompt : {ids(5, 30), copies(60)}) {
      const Text expected = decode(*engine, prompt, sampling, nullptr);
      EXPECT_EQ(expected.held.size(), kContext);
      for (const uint32_t n_most : {3, 16}) {
        Speculator speculator({.n_most = n_most, .first_cost = 0, .token_cost = 0});
        const Text text = decode(*engine, prompt, sampling, &speculator);
        expect_same(text, expected);
        EXPECT_LE(text.counts.n_accepted, text.counts.n_drafted);
        n_accepted += text.counts.n_accepted;
        n_rejected += text.counts.n_drafted - text.counts.n_accepted;
      }
      Speculator usual;
      expect_same(decode(*engine, prompt, sampling, &usual), expected);
    }
  }
  EXPECT_GT(n_accepted, 0u);
  EXPECT_GT(n_rejected, 0u);
}

TEST_P(Speculation, EndsInsideADraftLeaveTheSameSequence) {
  auto engine = open(GetParam());
  ASSERT_TRUE(engine);
  const auto prompt = copies(60);
  const Text whole = decode(*engine, prompt, kGreedy, nullptr);
  for (const size_t n : {1, 2, 3, 5, 9, 20, 50}) {
    Speculator limited({.first_cost = 0, .token_cost = 0}), stopped = limited;
    expect_same(decode(*engine, prompt, kGreedy, &limited, n), decode(*engine, prompt, kGreedy, nullptr, n));
    const Token stop = whole.tokens[n];
    expect_same(decode(*engine, prompt, kGreedy, &stopped, SIZE_MAX, stop),
                decode(*engine, prompt, kGreedy, nullptr, SIZE_MAX, stop));
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Speculation, testing::ValuesIn(models()), [](const auto& instance) {
  std::string name = instance.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

class Rewind : public testing::TestWithParam<const char*> {};

std::vector<float> step(Engine& engine, Sequence& sequence, const std::vector<Token>& tokens) {
  auto result = engine.step({{.sequence = &sequence, .tokens = tokens}});
  EXPECT_TRUE(result) << (result ? "" : result.error().message);
  return result ? result->logits : std::vector<float>();
}

std::vector<float> cold(Engine& engine, std::vector<Token> tokens, const std::vector<Token>& more) {
  tokens.insert(tokens.end(), more.begin(), more.end());
  auto sequence = engine.new_sequence();
  return step(engine, *sequence, tokens);
}

std::vector<Token> first(const std::vector<Token>& tokens, size_t n) {
  return {tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(n)};
}

TEST_P(Rewind, ReachesTheLastTokensAndNoFurther) {
  auto engine = open(GetParam(), 6);
  ASSERT_TRUE(engine);
  const bool anywhere = engine->info().state_can_be_cut;
  EXPECT_EQ(engine->info().n_rewind, anywhere ? UINT32_MAX : 6u);
  const auto prompt = ids(1, 70), more = ids(2, 3);
  for (const uint32_t n : {69u, 66u, 64u}) {
    auto sequence = engine->new_sequence();
    step(*engine, *sequence, prompt);
    ASSERT_TRUE(sequence->truncate(n)) << n;
    EXPECT_EQ(step(*engine, *sequence, more), cold(*engine, first(prompt, n), more)) << n;
    // What was overwritten meanwhile is gone, though the sequence is shorter than it was.
    ASSERT_TRUE(sequence->truncate(n));
    EXPECT_EQ(sequence->truncate(63).has_value(), anywhere);
    if (anywhere) continue;
    EXPECT_EQ(sequence->n_tokens(), n);
    EXPECT_EQ(step(*engine, *sequence, more), cold(*engine, first(prompt, n), more)) << n;
  }
  // A text shorter than the room can be cut everywhere.
  auto sequence = engine->new_sequence();
  for (const uint32_t n : {5u, 1u, 3u, 0u, 2u}) {
    step(*engine, *sequence, {prompt.begin() + sequence->n_tokens(), prompt.begin() + 6});
    ASSERT_TRUE(sequence->truncate(n));
  }
  EXPECT_EQ(step(*engine, *sequence, more), cold(*engine, first(prompt, 2), more));
}

TEST_P(Rewind, GoesWithForksCheckpointsAndSavedStates) {
  const TempDir dir;
  auto engine = open(GetParam(), 6), other = open(GetParam(), 11), none = open(GetParam(), 0);
  ASSERT_TRUE(engine && other && none);
  const bool anywhere = engine->info().state_can_be_cut;
  const auto prompt = ids(1, 40), more = ids(2, 9);
  auto sequence = engine->new_sequence();
  step(*engine, *sequence, prompt);
  ASSERT_TRUE(sequence->checkpoint());
  ASSERT_TRUE(sequence->save(dir.file("state")));
  {
    auto fork = sequence->fork();
    ASSERT_TRUE(fork);
    ASSERT_TRUE(fork->truncate(36));
    auto saved = fork->save(dir.file("cut"));
    ASSERT_TRUE(saved);
    EXPECT_EQ(step(*engine, *fork, more), cold(*other, first(prompt, 36), more));
  }
  step(*engine, *sequence, more);
  ASSERT_TRUE(sequence->truncate(40));  // 9 back: by the checkpoint
  EXPECT_EQ(sequence->truncate(39).has_value(), anywhere);
  if (!anywhere) {
    EXPECT_EQ(step(*engine, *sequence, more), cold(*none, prompt, more));
  }
  // Room for rewinding is no part of a saved state.
  for (Engine* e : {other.get(), none.get()}) {
    for (const auto& [file, n] : {std::pair{"state", 40}, {"cut", 36}}) {
      auto loaded = e->new_sequence();
      const auto done = loaded->load(dir.file(file));
      ASSERT_TRUE(done) << done.error().message;
      EXPECT_EQ(loaded->truncate(static_cast<uint32_t>(n - 1)).has_value(), anywhere);
      if (anywhere) continue;
      EXPECT_EQ(step(*e, *loaded, more), cold(*none, first(prompt, static_cast<size_t>(n)), more));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Rewind,
                         testing::Values("lfm2", "lfm2moe-q4_0", "qwen3next", "nemotron_h_moe-latent",
                                         "qwen3moe-all-q8_0"),
                         [](const auto& instance) {
                           std::string name = instance.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(RewindOptions, TooMuchIsRefused) {
  EngineOptions options;
  options.n_rewind = 1u << 20;
  auto engine = Engine::load((source_dir() / "tests/fixtures/oracle/lfm2.gguf").string(), options);
  ASSERT_FALSE(engine);
  EXPECT_EQ(engine.error().code, Code::invalid_argument);
}

}  // namespace
}  // namespace sluice::test
