// Sequences: forks, cuts, checkpoints, saved states, slots used again, and what a step refuses. Bits are compared, not
// text.
#include <gtest/gtest.h>

#include <fstream>
#include <tuple>

#include "sluice/engine.h"
#include "sluice/sampler.h"
#include "support/oracle.h"
#include "support/temp_dir.h"

namespace sluice::test {
namespace {

// With the state of a convolution, of a delta net and of Mamba-2, and without any.
constexpr const char* kModels[] = {"lfm2moe-q4_0", "qwen3next", "nemotron_h_moe-latent", "qwen3moe-all-q8_0"};

std::string fixture(const std::string& name) {
  return (source_dir() / "tests" / "fixtures" / "oracle" / (name + ".gguf")).string();
}

std::unique_ptr<Engine> open(const std::string& name, uint32_t max_sequences = 4, uint32_t n_ctx = 256) {
  EngineOptions options;
  options.n_ctx = n_ctx;
  options.max_sequences = max_sequences;
  options.n_threads = 2;
  auto engine = Engine::load(fixture(name), options);
  EXPECT_TRUE(engine) << (engine ? "" : engine.error().message);
  return engine ? std::move(*engine) : nullptr;
}

std::vector<float> step(Engine& engine, Sequence& sequence, const std::vector<Token>& tokens) {
  auto result = engine.step({{.sequence = &sequence, .tokens = tokens}});
  EXPECT_TRUE(result) << (result ? "" : result.error().message);
  return result ? result->logits : std::vector<float>();
}

std::vector<float> cold(Engine& engine, std::vector<Token> tokens) {
  auto sequence = engine.new_sequence();
  EXPECT_TRUE(sequence);
  return step(engine, *sequence, tokens);
}

std::vector<Token> joined(std::vector<Token> a, const std::vector<Token>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

class Sequences : public testing::TestWithParam<const char*> {};

TEST_P(Sequences, ForksGoTheirOwnWays) {
  auto engine = open(GetParam());
  ASSERT_TRUE(engine);
  for (size_t n : {5, 63, 64, 65, 130}) {  // around page boundaries: a shared page must be copied before it is written
    const auto prompt = ids(1, n), a = ids(2, 3), b = ids(3, 70);
    auto first = engine->new_sequence();
    step(*engine, *first, prompt);
    auto second = first->fork();
    ASSERT_TRUE(second);
    EXPECT_EQ(step(*engine, *second, b), cold(*engine, joined(prompt, b))) << n;
    EXPECT_EQ(step(*engine, *first, a), cold(*engine, joined(prompt, a))) << n;
    EXPECT_EQ(first->n_tokens(), n + 3);
    EXPECT_EQ(second->n_tokens(), n + 70);
  }
}

// Nothing of a step shows in the next one that uses its memory.
TEST_P(Sequences, AResultCanBeUsedAgain) {
  auto engine = open(GetParam());
  ASSERT_TRUE(engine);
  StepResult used;
  const StepOptions wide{.routing = true}, plain;
  for (const auto& [tokens, logits, options] :
       {std::tuple{ids(1, 70), Logits::all, &wide}, std::tuple{ids(2, 1), Logits::last, &plain},
        std::tuple{ids(3, 9), Logits::none, &plain}, std::tuple{ids(4, 12), Logits::all, &wide}}) {
    auto a = engine->new_sequence(), b = engine->new_sequence();
    ASSERT_TRUE(a && b);
    const StepInput input{.sequence = &*a, .tokens = tokens, .logits = logits};
    ASSERT_TRUE(engine->step(std::span(&input, 1), *options, used));
    const auto fresh = engine->step({{.sequence = &*b, .tokens = tokens, .logits = logits}}, *options);
    ASSERT_TRUE(fresh);
    EXPECT_EQ(used.logits, fresh->logits);
    EXPECT_EQ(used.first_row, fresh->first_row);
    EXPECT_EQ(used.row_failed, fresh->row_failed);
    ASSERT_EQ(used.routing.layers.size(), fresh->routing.layers.size());
    for (const auto& [layer, routing] : fresh->routing.layers)
      EXPECT_EQ(used.routing.layers[layer].experts, routing.experts);
  }
}

TEST_P(Sequences, PrefixesUsedAgainEqualColdRuns) {  // K04
  auto engine = open(GetParam());
  ASSERT_TRUE(engine);
  const auto prefix = ids(1, 50), x = ids(2, 9), y = ids(3, 20);
  auto sequence = engine->new_sequence();
  step(*engine, *sequence, prefix);
  ASSERT_TRUE(sequence->checkpoint());
  EXPECT_EQ(step(*engine, *sequence, x), cold(*engine, joined(prefix, x)));
  ASSERT_TRUE(sequence->truncate(50));
  EXPECT_EQ(step(*engine, *sequence, y), cold(*engine, joined(prefix, y)));
  ASSERT_TRUE(sequence->truncate(50));
  EXPECT_EQ(step(*engine, *sequence, x), cold(*engine, joined(prefix, x)));
  const auto cut = sequence->truncate(10);  // no checkpoint there
  EXPECT_EQ(cut.has_value(), engine->info().state_can_be_cut);
  if (!cut) {
    EXPECT_EQ(cut.error().code, Code::unsupported);
    EXPECT_EQ(sequence->n_tokens(), 59u);  // nothing changed
    ASSERT_TRUE(sequence->truncate(0));
  } else {
    EXPECT_EQ(step(*engine, *sequence, y), cold(*engine, joined(ids(1, 10), y)));
    ASSERT_TRUE(sequence->truncate(0));
  }
  EXPECT_EQ(step(*engine, *sequence, x), cold(*engine, x));
  EXPECT_FALSE(sequence->truncate(1000));
}

TEST_P(Sequences, SlotUsedAgainKeepsNothing) {  // K02
  auto engine = open(GetParam(), 1);
  ASSERT_TRUE(engine);
  const auto b = ids(7, 12);
  const auto expected = cold(*open(GetParam(), 1), b);
  {
    auto a = engine->new_sequence();
    step(*engine, *a, ids(5, 200));
    EXPECT_FALSE(engine->new_sequence());  // the only slot is taken
  }
  EXPECT_EQ(cold(*engine, b), expected);
}

TEST_P(Sequences, SavedStateContinuesBitEqual) {  // K06
  const TempDir dir;
  const std::string path = (dir.path() / "state").string();
  const auto prompt = ids(1, 77), next = ids(2, 5);
  std::vector<float> expected;
  {
    auto engine = open(GetParam());
    auto sequence = engine->new_sequence();
    step(*engine, *sequence, prompt);
    ASSERT_TRUE(sequence->save(path));
    expected = step(*engine, *sequence, next);
  }
  auto engine = open(GetParam());
  auto sequence = engine->new_sequence();
  step(*engine, *sequence, ids(9, 3));  // replaced by what is loaded
  const auto loaded = sequence->load(path);
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(sequence->n_tokens(), 77u);
  EXPECT_EQ(step(*engine, *sequence, next), expected);
}

TEST_P(Sequences, DamagedOrForeignStatesAreRefusedAndHarmNothing) {  // K08
  const TempDir dir;
  const std::string path = (dir.path() / "state").string();
  auto engine = open(GetParam());
  auto empty = engine->new_sequence();
  ASSERT_TRUE(empty->save(path));  // an empty one is a state like any other
  auto live = engine->new_sequence();
  ASSERT_TRUE(live->load(path));
  EXPECT_EQ(live->n_tokens(), 0u);

  const auto prompt = ids(1, 20), next = ids(2, 5);
  step(*engine, *live, prompt);
  ASSERT_TRUE(live->save(path));
  EXPECT_FALSE(live->load((dir.path() / "missing").string()));
  std::string bytes;
  {
    std::ifstream in(path, std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(in), {});
  }
  const auto refused = [&](std::string damaged) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << damaged;
    return !live->load(path);
  };
  for (size_t n : {size_t{0}, size_t{7}, size_t{39}, size_t{40}, bytes.size() / 2, bytes.size() - 1})
    EXPECT_TRUE(refused(bytes.substr(0, n))) << n;
  for (size_t at = 0; at < bytes.size(); at += 97) {
    std::string flipped = bytes;
    flipped[at] = static_cast<char>(flipped[at] ^ 0x10);
    EXPECT_TRUE(refused(flipped)) << at;
  }
  EXPECT_TRUE(refused(bytes + "x"));
  auto other = open(GetParam() == kModels[0] ? kModels[1] : kModels[0]);
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  EXPECT_FALSE(other->new_sequence()->load(path));
  EXPECT_EQ(step(*engine, *live, next), cold(*engine, joined(prompt, next)));
}

TEST_P(Sequences, MixOfPrefillAndDecodeEqualsAlone) {
  auto engine = open(GetParam(), 8);
  ASSERT_TRUE(engine);
  const auto a = ids(1, 30), b = ids(2, 90), c = ids(3, 1), more = ids(4, 1);
  auto sa = engine->new_sequence(), sb = engine->new_sequence(), sc = engine->new_sequence();
  step(*engine, *sa, a);
  auto result = engine->step({{&*sa, more, Logits::last}, {&*sb, b, Logits::none}, {&*sc, c, Logits::last}});
  ASSERT_TRUE(result);
  ASSERT_EQ(result->n_rows(), 2u);
  EXPECT_TRUE(std::ranges::equal(result->row(result->first_row[0]), cold(*engine, joined(a, more))));
  EXPECT_TRUE(std::ranges::equal(result->row(result->first_row[2]), cold(*engine, c)));
  EXPECT_EQ(step(*engine, *sb, more), cold(*engine, joined(b, more)));
}

TEST_P(Sequences, RefusedStepsChangeNothing) {
  auto engine = open(GetParam(), 2, 64);
  ASSERT_TRUE(engine);
  auto sequence = engine->new_sequence();
  const auto prompt = ids(1, 60);
  step(*engine, *sequence, prompt);
  const auto bad = [&](std::vector<Token> tokens) {
    auto result = engine->step({{.sequence = &*sequence, .tokens = tokens}});
    return result ? Code::internal : result.error().code;
  };
  EXPECT_EQ(bad({}), Code::invalid_argument);
  EXPECT_EQ(bad({-1}), Code::invalid_argument);
  EXPECT_EQ(bad({static_cast<Token>(engine->model().n_vocab)}), Code::invalid_argument);
  EXPECT_EQ(bad(ids(1, 5)), Code::invalid_argument);  // 65 of 64
  const auto one = ids(2, 1);
  EXPECT_FALSE(engine->step({{&*sequence, one, Logits::last}, {&*sequence, one, Logits::last}}));
  EXPECT_FALSE(engine->step({{nullptr, one, Logits::last}}));
  EXPECT_FALSE(engine->step(std::span<const StepInput>()));
  EXPECT_EQ(sequence->n_tokens(), 60u);
  EXPECT_EQ(step(*engine, *sequence, one), cold(*engine, joined(prompt, one)));
}

TEST_P(Sequences, CancelledStepLeavesAUsableSequence) {
  EngineOptions options;
  options.n_ctx = 256;
  options.n_ubatch = 16;
  auto engine = std::move(*Engine::load(fixture(GetParam()), options));
  auto sequence = engine->new_sequence();
  const auto prompt = ids(1, 100);
  StepOptions stop;
  stop.on_progress = [](uint32_t done, uint32_t) { return done < 40; };
  auto result = engine->step({{.sequence = &*sequence, .tokens = prompt}}, stop);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::cancelled);
  EXPECT_EQ(sequence->n_tokens(), 0u);
  const auto again = step(*engine, *sequence, prompt);
  ASSERT_TRUE(sequence->truncate(0));
  EXPECT_EQ(again, step(*engine, *sequence, prompt));
}

TEST_P(Sequences, CacheFullIsAnErrorUntilASequenceEnds) {
  EngineOptions options;
  options.n_ctx = 128;
  options.max_sequences = 3;
  options.n_cache_tokens = 192;
  auto engine = std::move(*Engine::load(fixture(GetParam()), options));
  auto a = engine->new_sequence();
  auto b = std::make_unique<Sequence>(std::move(*engine->new_sequence()));
  step(*engine, *a, ids(1, 100));
  step(*engine, *b, ids(2, 64));
  const auto more = ids(3, 10);
  auto result = engine->step({{.sequence = b.get(), .tokens = more}});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::out_of_memory);
  EXPECT_EQ(b->n_tokens(), 64u);
  b.reset();
  EXPECT_EQ(step(*engine, *a, ids(4, 20)).size(), engine->model().n_vocab);
}

TEST_P(Sequences, AStateMayReplaceTheSequenceThatFillsTheCache) {
  const TempDir dir;
  auto engine = open(GetParam(), 1, 128);
  auto sequence = engine->new_sequence();
  step(*engine, *sequence, ids(1, 120));
  ASSERT_TRUE(sequence->save(dir.file("state")));
  const auto loaded = sequence->load(dir.file("state"));
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(sequence->n_tokens(), 120u);
}

TEST_P(Sequences, ForksThatWriteTogetherCopyOnce) {
  auto engine = open(GetParam(), 3, 64);  // a page for each
  auto a = engine->new_sequence();
  step(*engine, *a, ids(1, 10));
  auto b = a->fork();
  auto c = engine->new_sequence();
  step(*engine, *c, ids(2, 64));
  const auto one = ids(3, 1);
  const auto result = engine->step({{&*a, one, Logits::last}, {&*b, one, Logits::last}});
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_TRUE(std::ranges::equal(result->row(0), result->row(1)));
}

TEST_P(Sequences, MemoryThatRunsOutAndCallbacksThatThrowLeaveAUsableSequence) {
  EngineOptions options;
  options.n_ctx = 256;
  options.n_ubatch = 16;
  auto engine = std::move(*Engine::load(fixture(GetParam()), options));
  auto sequence = engine->new_sequence();
  const auto prompt = ids(1, 40);
  StepOptions throws;
  throws.on_progress = [](uint32_t, uint32_t) -> bool { throw std::bad_alloc(); };
  const auto result = engine->step({{.sequence = &*sequence, .tokens = prompt}}, throws);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::out_of_memory);
  EXPECT_EQ(sequence->n_tokens(), 0u);
  EXPECT_EQ(step(*engine, *sequence, prompt).size(), engine->model().n_vocab);
}

TEST_P(Sequences, MayOutliveTheEngine) {
  auto engine = open(GetParam());
  auto sequence = engine->new_sequence();
  step(*engine, *sequence, ids(1, 5));
  engine.reset();
  EXPECT_EQ(sequence->n_tokens(), 5u);
}

INSTANTIATE_TEST_SUITE_P(Models, Sequences, testing::ValuesIn(kModels), [](const auto& instance) {
  return std::string(instance.param).substr(0, std::string(instance.param).find('-'));
});

TEST(Counters, OneReadAndOneSubmitPerDecodedToken) {
  auto engine = open("lfm2moe-q4_0");
  auto sequence = engine->new_sequence();
  step(*engine, *sequence, ids(1, 5));
  const auto before = engine->counters();
  for (int i = 0; i < 8; ++i) step(*engine, *sequence, ids(2, 1));
  const auto after = engine->counters();
  EXPECT_EQ(after.submits - before.submits, 8u);
  EXPECT_EQ(after.host_reads - before.host_reads, 8u);  // the logits; nothing of the routing
  EXPECT_EQ(after.host_read_bytes - before.host_read_bytes, 8u * engine->model().n_vocab * sizeof(float));
}

TEST(Counters, GreedyTokensAreReadInPlaceOfLogits) {
  auto engine = open("lfm2moe-q4_0");
  auto sequence = engine->new_sequence(), other = engine->new_sequence();
  std::vector<Token> tokens = ids(1, 70);
  StepOptions greedy;
  greedy.greedy = true;
  for (int i = 0; i < 8; ++i) {
    const auto before = engine->counters();
    auto picked = engine->step({{.sequence = &*sequence, .tokens = tokens}}, greedy);
    ASSERT_TRUE(picked);
    const auto after = engine->counters();
    EXPECT_EQ(after.host_reads - before.host_reads, 1u);
    EXPECT_EQ(after.host_read_bytes - before.host_read_bytes, sizeof(Token));
    EXPECT_TRUE(picked->logits.empty());
    ASSERT_EQ(picked->n_rows(), 1u);
    EXPECT_EQ(picked->tokens.at(0), argmax(step(*engine, *other, tokens)));
    tokens = {picked->tokens[0]};
  }
  // More rows than the head computes at once.
  const std::vector<Token> many = ids(4, 100);
  ASSERT_TRUE(sequence->truncate(0));
  auto all = engine->step({{.sequence = &*sequence, .tokens = many, .logits = Logits::all}}, greedy);
  ASSERT_TRUE(all);
  ASSERT_TRUE(sequence->truncate(0));
  auto logits = engine->step({{.sequence = &*sequence, .tokens = many, .logits = Logits::all}});
  ASSERT_TRUE(logits);
  ASSERT_EQ(all->tokens.size(), 100u);
  for (size_t i = 0; i < 100; ++i) EXPECT_EQ(all->tokens[i], argmax(logits->row(i))) << i;
}

TEST(ManyRows, LogitsBeyondTheHeadsMemoryComeInTurns) {
  EngineOptions options;
  options.n_ctx = 512;
  auto engine = std::move(*Engine::load(fixture("lfm2moe-q4_0"), options));
  const auto tokens = ids(1, 300);
  auto one = engine->new_sequence();
  auto all = engine->step({{&*one, tokens, Logits::all}});
  ASSERT_TRUE(all);
  ASSERT_EQ(all->n_rows(), 300u);
  ASSERT_TRUE(one->truncate(0));
  for (size_t n : {1, 64, 65, 128, 200, 300}) {
    const std::vector<Token> head(tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(n));
    EXPECT_TRUE(std::ranges::equal(step(*engine, *one, head), all->row(n - 1))) << n;
    ASSERT_TRUE(one->truncate(0));
  }
}

}  // namespace
}  // namespace sluice::test
