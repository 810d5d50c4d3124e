#include "sluice/sampler.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <limits>
#include <random>

#include "base/counter_rng.h"
#include "support/temp_dir.h"

namespace sluice {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
// Everything off: plain softmax at temperature 1.
constexpr SamplingParams kPlain{.temperature = 1, .top_k = 0, .top_p = 1, .min_p = 0};

std::vector<float> logits_of(const std::vector<double>& probabilities) {
  std::vector<float> logits;
  for (double p : probabilities) logits.push_back(static_cast<float>(std::log(p)) + 3);
  return logits;
}

std::vector<Token> kept(SamplingParams params, const std::vector<float>& logits) {
  const auto candidates = Sampler(params).candidates(logits);
  EXPECT_TRUE(candidates.has_value());
  std::vector<Token> ids;
  double sum = 0;
  for (const auto& c : *candidates) {
    ids.push_back(c.id);
    sum += c.probability;
  }
  EXPECT_NEAR(sum, 1, 1e-5);
  return ids;
}

using Ids = std::vector<Token>;

TEST(CounterRng, published_vectors_of_philox) {
  using Four = std::array<uint32_t, 4>;
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}), (Four{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}), (Four{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Four{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
  double sum = 0;
  for (uint64_t i = 0; i < 10000; ++i) {
    const float u = counter_uniform(42, i);
    ASSERT_TRUE(u >= 0 && u < 1);
    sum += u;
  }
  EXPECT_NEAR(sum / 10000, 0.5, 0.01);
  EXPECT_NE(counter_uniform(1, 0), counter_uniform(2, 0));
  EXPECT_NE(counter_uniform(1, 0), counter_uniform(1, 0, 1));
}

TEST(Argmax, ties_go_to_the_lower_index_and_bad_logits_to_none) {
  EXPECT_EQ(argmax(std::vector<float>{1, 3, 3, 2}), 1);
  EXPECT_EQ(argmax(std::vector<float>{-kInf, -5}), 1);
  EXPECT_EQ(argmax(std::vector<float>{}), -1);
  EXPECT_EQ(argmax(std::vector<float>{1, kNan, 2}), -1);
  EXPECT_EQ(argmax(std::vector<float>{-kInf, -kInf}), -1);
  EXPECT_EQ(argmax(std::vector<float>{kInf, -kInf}), -1);
}

TEST(Sampler, S01_filters_see_temperature_one_and_temperature_comes_last) {
  const std::vector<float> logits = logits_of({0.6, 0.3, 0.1});
  SamplingParams params = kPlain;
  params.top_p = 0.7f;
  params.temperature = 0.5f;
  EXPECT_EQ(kept(params, logits), (Ids{0, 1}));
  const auto candidates = Sampler(params).candidates(logits);
  EXPECT_NEAR((*candidates)[0].probability, 0.36 / (0.36 + 0.09), 1e-5);
  params.top_p = 1;
  params.min_p = 0.4f;
  EXPECT_EQ(kept(params, logits), (Ids{0, 1})) << "0.3 / 0.6 at temperature 1; 0.25 at 0.5 would be dropped";
}

TEST(Sampler, each_filter_keeps_a_front) {
  const std::vector<float> logits = logits_of({0.1, 0.4, 0.05, 0.25, 0.2});
  const auto with = [](auto change) {
    SamplingParams params = kPlain;
    change(params);
    return params;
  };
  EXPECT_EQ(kept(kPlain, logits), (Ids{1, 3, 4, 0, 2}));
  EXPECT_EQ(kept(with([](auto& p) { p.top_k = 2; }), logits), (Ids{1, 3}));
  EXPECT_EQ(kept(with([](auto& p) { p.top_k = 99; }), logits).size(), 5u);
  EXPECT_EQ(kept(with([](auto& p) { p.top_p = 0.6f; }), logits), (Ids{1, 3}));
  EXPECT_EQ(kept(with([](auto& p) { p.min_p = 0.45f; }), logits), (Ids{1, 3, 4}));
  EXPECT_EQ(kept(with([](auto& p) { p.top_k = 3, p.top_p = 0.6f; }), logits), (Ids{1, 3}))
      << "top-p counts what top-k left: 0.4 / 0.85 is not enough";
  EXPECT_EQ(kept(with([](auto& p) { p.top_p = 0; }), logits), (Ids{1})) << "one always stays";
  EXPECT_EQ(kept(with([](auto& p) { p.min_p = 1; }), logits), (Ids{1}));
  EXPECT_EQ(kept(with([](auto& p) { p.temperature = 1e-30f; }), logits)[0], 1);
}

TEST(Sampler, ties_go_to_the_lower_id) {
  const std::vector<float> logits(1000, 2.0f);
  SamplingParams params = kPlain;
  params.top_k = 3;
  EXPECT_EQ(kept(params, logits), (Ids{0, 1, 2}));
  params.top_k = 0;
  params.top_p = 0.3f;
  const Ids front = kept(params, logits);
  EXPECT_NEAR(static_cast<double>(front.size()), 300, 1);
  for (size_t i = 0; i < front.size(); ++i) EXPECT_EQ(front[i], static_cast<Token>(i));
}

TEST(Sampler, greedy_is_exact_and_masked_logits_are_never_chosen) {
  SamplingParams params;
  params.temperature = 0;
  Sampler greedy(params);
  EXPECT_EQ(*greedy.sample(std::vector<float>{1, 2, 2, -kInf}), 1);
  Sampler plain(kPlain);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(*plain.sample(std::vector<float>{-kInf, -100, -kInf}), 1);
  EXPECT_EQ(*plain.sample(std::vector<float>{1, kInf, 2}), 1);
}

TEST(Sampler, S02_penalties_change_the_choice) {
  const std::vector<float> logits = {2.0f, 1.5f, -1.0f, -1.2f};
  const auto greedy = [&](auto change, const Ids& history) {
    SamplingParams params;
    params.temperature = 0;
    change(params);
    Sampler sampler(params);
    for (Token id : history) sampler.accept(id);
    return *sampler.sample(logits);
  };
  EXPECT_EQ(greedy([](auto&) {}, {0, 0}), 0);
  EXPECT_EQ(greedy([](auto& p) { p.presence_penalty = 50; }, {0, 0}), 1);
  EXPECT_EQ(greedy([](auto& p) { p.repeat_penalty = 3; }, {0}), 1);
  EXPECT_EQ(greedy([](auto& p) { p.frequency_penalty = 0.3f; }, {0}), 0);
  EXPECT_EQ(greedy([](auto& p) { p.frequency_penalty = 0.3f; }, {0, 0}), 1) << "counts each time";
  EXPECT_EQ(greedy([](auto& p) { p.repeat_penalty = 2; }, {0, 1, 2}), 0) << "1, 0.75, -2, -1.2";
  EXPECT_EQ(greedy([](auto& p) { p.presence_penalty = 2.6f, p.repeat_penalty = 2; }, {0, 1, 2}), 3)
      << "a negative logit is multiplied: dividing would raise it";
  EXPECT_EQ(greedy([](auto& p) { p.presence_penalty = 50, p.penalty_last_n = 0; }, {0}), 0);
  EXPECT_EQ(greedy([](auto& p) { p.presence_penalty = 50, p.penalty_last_n = 2; }, {0, 3, 3}), 0)
      << "out of the window";
  EXPECT_EQ(greedy([](auto& p) { p.presence_penalty = 50, p.penalty_last_n = -1; }, Ids(1000, 0)), 1);
  EXPECT_EQ(greedy([](auto& p) { p.presence_penalty = 50; }, {-1, 4, 1 << 30}), 0) << "ids without a logit";
}

TEST(Sampler, S04_bad_logits_are_an_error_and_the_next_call_works) {
  for (float temperature : {0.0f, 0.8f}) {
    SamplingParams params;
    params.temperature = temperature;
    params.repeat_penalty = 1.1f;
    Sampler sampler(params);
    sampler.accept(0);
    for (const std::vector<float>& logits : {std::vector<float>{kNan, kNan}, std::vector<float>{1, kNan, 2},
                                             std::vector<float>{-kInf, -kInf}, std::vector<float>{}}) {
      const auto token = sampler.sample(logits);
      ASSERT_FALSE(token.has_value());
      EXPECT_EQ(token.error().code, Code::internal);
      EXPECT_NE(token.error().message.find("NaN"), std::string::npos);
    }
    EXPECT_TRUE(sampler.sample(std::vector<float>{1, 2}).has_value());
  }
}

TEST(Sampler, draws_follow_the_probabilities_and_the_seed_alone) {
  const std::vector<float> logits = logits_of({0.5, 0.3, 0.2});
  SamplingParams params = kPlain;
  params.seed = 11;
  Sampler first(params), second(params);
  std::array<int, 3> counts{};
  for (int i = 0; i < 20000; ++i) {
    const Token id = *first.sample(logits);
    ++counts[static_cast<size_t>(id)];
    second.accept(id);  // history without penalties has no say
    ASSERT_EQ(*second.sample(logits), id);
  }
  EXPECT_NEAR(counts[0] / 20000.0, 0.5, 0.015);
  EXPECT_NEAR(counts[1] / 20000.0, 0.3, 0.015);
  params.seed = 12;
  Sampler other(params), again(params);
  int n_equal = 0;
  for (int i = 0; i < 1000; ++i) n_equal += *other.sample(logits) == *Sampler(params).sample(logits);
  EXPECT_LT(n_equal, 1000) << "the position moves the draw";
}

TEST(Sampler, large_vocabularies_are_quick_and_the_short_cuts_exact) {
  std::mt19937 random(9);
  std::normal_distribution<float> normal(0, 3);
  std::vector<float> logits(150'000);
  for (float& logit : logits) logit = normal(random);
  std::vector<std::pair<float, Token>> sorted;
  double total = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    sorted.emplace_back(-logits[i], static_cast<Token>(i));
    total += std::exp(static_cast<double>(logits[i]));
  }
  std::sort(sorted.begin(), sorted.end());
  SamplingParams params = kPlain;
  params.top_p = 0.95f;
  const Ids front = kept(params, logits);
  double sum = 0;
  size_t n_expected = 0;
  while (sum < static_cast<double>(0.95f) * total) sum += std::exp(-static_cast<double>(sorted[n_expected++].first));
  EXPECT_NEAR(static_cast<double>(front.size()), static_cast<double>(n_expected), 1);
  for (size_t i = 0; i < front.size() && i < n_expected; ++i) ASSERT_EQ(front[i], sorted[i].second);

  params = kPlain;
  params.top_k = 700;
  const Ids best = kept(params, logits);
  ASSERT_EQ(best.size(), 700u);
  for (size_t i = 0; i < best.size(); ++i) ASSERT_EQ(best[i], sorted[i].second);
  for (float& logit : logits) logit = std::round(logit * 2);  // ties everywhere
  std::vector<std::pair<float, Token>> tied;
  for (size_t i = 0; i < logits.size(); ++i) tied.emplace_back(-logits[i], static_cast<Token>(i));
  std::sort(tied.begin(), tied.end());
  const Ids ties = kept(params, logits);
  for (size_t i = 0; i < ties.size(); ++i) ASSERT_EQ(ties[i], tied[i].second);

  Sampler usual{SamplingParams{}};
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(usual.sample(logits).has_value());
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  RecordProperty("us_per_sample", static_cast<int>(seconds.count() / 20 * 1e6));
  EXPECT_LT(seconds.count(), 20.0);  // some ms; a quadratic step would take minutes
}

TEST(SamplingParams, values_without_meaning_are_named) {
  const auto refused = [](auto change, const char* field) {
    SamplingParams params;
    change(params);
    const auto checked = params.check();
    ASSERT_FALSE(checked.has_value()) << field;
    EXPECT_EQ(checked.error().code, Code::invalid_argument);
    EXPECT_NE(checked.error().message.find(field), std::string::npos);
  };
  EXPECT_TRUE(SamplingParams{}.check().has_value());
  EXPECT_TRUE(kPlain.check().has_value());
  refused([](auto& p) { p.temperature = kNan; }, "temperature");
  refused([](auto& p) { p.temperature = kInf; }, "temperature");
  refused([](auto& p) { p.top_p = -0.1f; }, "top_p");
  refused([](auto& p) { p.top_p = kNan; }, "top_p");
  refused([](auto& p) { p.min_p = 1.5f; }, "min_p");
  refused([](auto& p) { p.min_p = kNan; }, "min_p");
  refused([](auto& p) { p.repeat_penalty = 0; }, "repeat_penalty");
  refused([](auto& p) { p.repeat_penalty = kInf; }, "repeat_penalty");
  refused([](auto& p) { p.presence_penalty = kNan; }, "presence_penalty");
  refused([](auto& p) { p.frequency_penalty = kInf; }, "frequency_penalty");
  refused([](auto& p) { p.penalty_last_n = -2; }, "penalty_last_n");
}

Result<SamplingParams> from_keys(const std::vector<std::pair<std::string, gguf::Value>>& keys) {
  const test::TempDir folder;
  const std::string path = folder.file("sampling.gguf");
  auto writer = gguf::Writer::create(path);
  EXPECT_TRUE(writer.has_value());
  writer->set("general.architecture", gguf::Value::of(std::string("none")));
  for (const auto& [key, value] : keys) writer->set(key, value);
  EXPECT_TRUE(writer->write_header().has_value());
  EXPECT_TRUE(writer->finish().has_value());
  const auto file = gguf::File::open(path);
  EXPECT_TRUE(file.has_value());
  return SamplingParams::from_file(*file);
}

TEST(SamplingParams, the_file_over_the_defaults) {
  using gguf::Value;
  const auto none = from_keys({});
  ASSERT_TRUE(none.has_value());
  EXPECT_EQ(none->top_k, SamplingParams{}.top_k);
  const auto some = from_keys({{"general.sampling.temp", Value::of(0.3f)},
                               {"general.sampling.top_k", Value::of(int32_t{50})},
                               {"general.sampling.min_p", Value::of(0.15f)},
                               {"general.sampling.penalty_repeat", Value::of(1.05f)}});
  ASSERT_TRUE(some.has_value()) << some.error().message;
  EXPECT_EQ(some->temperature, 0.3f);
  EXPECT_EQ(some->top_k, 50);
  EXPECT_EQ(some->min_p, 0.15f);
  EXPECT_EQ(some->repeat_penalty, 1.05f);
  EXPECT_EQ(some->top_p, SamplingParams{}.top_p);
  for (const auto& [key, value] :
       std::vector<std::pair<std::string, Value>>{{"general.sampling.top_k", Value::of(std::string("many"))},
                                                  {"general.sampling.top_k", Value::of(uint64_t{1} << 40)},
                                                  {"general.sampling.temp", Value::of(kNan)},
                                                  {"general.sampling.top_p", Value::of(std::string("x"))},
                                                  {"general.sampling.penalty_repeat", Value::of(-1.0f)}}) {
    const auto damaged = from_keys({{key, value}});
    ASSERT_FALSE(damaged.has_value()) << key;
    EXPECT_EQ(damaged.error().code, Code::corrupt_file) << key;
  }
}

TEST(Sampler, picks_the_same_until_it_goes_on) {
  const std::vector<float> logits(1000, 0.5f);
  Sampler sampler(kPlain), other(kPlain);
  for (int i = 0; i < 5; ++i) {
    const Token id = *sampler.pick(logits);
    EXPECT_EQ(*sampler.pick(logits), id);
    EXPECT_EQ(*other.sample(logits), id);
    sampler.advance();
  }
}

}  // namespace
}  // namespace sluice
