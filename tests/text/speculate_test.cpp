#include "sluice/speculate.h"

#include <gtest/gtest.h>

#include <chrono>

namespace sluice {
namespace {

using Ids = std::vector<Token>;
constexpr SpeculationParams kEager{.n_most = 16, .first_cost = 0, .token_cost = 0};

Ids text(uint32_t seed, size_t n, Token n_vocab = 1000) {
  Ids ids;
  for (size_t i = 0; i < n; ++i)
    ids.push_back(static_cast<Token>((seed = seed * 1664525u + 1013904223u) >> 8) % n_vocab);
  return ids;
}

Ids proposed(Speculator& speculator, Token id, uint32_t most = 16) {
  const auto tokens = speculator.propose(id, most);
  return {tokens.begin(), tokens.end()};
}

Speculator after(const Ids& prompt, const SpeculationParams& params = kEager) {
  Speculator speculator(params);
  for (const Token id : prompt) speculator.accept(id);
  return speculator;
}

TEST(Speculator, drafts_what_followed_the_longest_match) {
  Speculator speculator = after({1, 2, 3, 4, 50, 51, 9, 2, 3, 4, 60, 61, 1, 2, 3});
  EXPECT_EQ(proposed(speculator, 4, 3), (Ids{4, 50, 51, 9}));  // 1 2 3 4, though 2 3 4 is newer
}

TEST(Speculator, of_equal_matches_takes_the_newest) {
  Speculator speculator = after({7, 8, 1, 5, 7, 8, 2, 6, 7});
  EXPECT_EQ(proposed(speculator, 8, 1), (Ids{8, 2}));
}

TEST(Speculator, needs_two_tokens_that_match) {
  Speculator speculator = after({1, 2, 3, 4, 9});
  EXPECT_EQ(proposed(speculator, 2), (Ids{2}));
  EXPECT_EQ(speculator.n_unused(), 0u);
  Speculator empty;
  EXPECT_EQ(proposed(empty, 5), (Ids{5}));
  EXPECT_EQ(proposed(empty, 5), (Ids{5}));
}

TEST(Speculator, goes_round_in_circles) {
  Speculator speculator = after({1, 2, 3, 1, 2});
  EXPECT_EQ(proposed(speculator, 3, 7), (Ids{3, 1, 2, 3, 1, 2, 3, 1}));
  Speculator same = after({4, 4});
  EXPECT_EQ(proposed(same, 4, 3), (Ids{4, 4, 4, 4}));
}

TEST(Speculator, takes_until_the_first_difference) {
  Speculator speculator = after({1, 2, 3, 4, 5, 6, 1});
  ASSERT_EQ(proposed(speculator, 2, 4), (Ids{2, 3, 4, 5, 6}));
  EXPECT_TRUE(speculator.take(3));
  EXPECT_TRUE(speculator.take(4));
  EXPECT_EQ(speculator.n_unused(), 2u);
  EXPECT_FALSE(speculator.take(7));
  EXPECT_EQ(speculator.n_unused(), 2u);
  EXPECT_EQ(proposed(speculator, 7), (Ids{7}));
  EXPECT_FALSE(speculator.take(1));
  EXPECT_EQ(speculator.counts().n_steps, 2u);
  EXPECT_EQ(speculator.counts().n_drafted, 4u);
  EXPECT_EQ(speculator.counts().n_accepted, 2u);
}

TEST(Speculator, holds_to_the_limits) {
  Speculator speculator = after({1, 2, 3, 4, 5, 6, 1}, {.n_most = 2, .first_cost = 0, .token_cost = 0});
  EXPECT_EQ(proposed(speculator, 2).size(), 3u);
  Speculator other = after({1, 2, 3, 4, 5, 6, 1});
  EXPECT_EQ(proposed(other, 2, 0), (Ids{2}));
}

// The tokens after `prompt` are those of `more`; how many steps they take.
uint64_t steps(Speculator& speculator, const Ids& more) {
  for (size_t i = 0; i < more.size();) {
    speculator.propose(more[i], static_cast<uint32_t>(more.size() - i - 1));
    ++i;
    while (i < more.size() && speculator.take(more[i])) ++i;
  }
  return speculator.counts().n_steps;
}

TEST(Speculator, copies_take_few_steps_and_other_texts_hardly_a_draft) {
  const Ids piece = text(1, 400), other = text(2, 400);
  Speculator copying = after(piece, {});
  EXPECT_LT(steps(copying, piece), 60u);
  Speculator random = after(piece, {});
  EXPECT_EQ(steps(random, other), 400u);
  // Pairs repeat by chance, and what follows them does not: after a few tries no more is drafted.
  Speculator few_words = after({}, {});
  steps(few_words, text(3, 4000, 20));
  EXPECT_LT(few_words.counts().n_drafted, 200u);
}

TEST(Speculator, is_fast_where_everything_matches) {
  Ids same(20000, 5), mixed = text(4, 20000, 3);
  const auto start = std::chrono::steady_clock::now();
  for (const Ids& ids : {same, mixed}) after(ids);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  EXPECT_LT(seconds, 20.0);  // some 10 ms; a search over the whole text at every token would take minutes
}

}  // namespace
}  // namespace sluice
