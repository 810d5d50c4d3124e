// Rules for the device, and what kernel sample_token makes of them, against the host's Sampler.
#include "engine/sampling.h"

#include <gtest/gtest.h>

#include "sluice/sampler.h"
#include "support/gpu.h"
#include "support/kernel_case.h"

namespace sluice::test {
namespace {

// How near the draw may lie to where two candidates meet, or a filter to one of them, before the last bits of an
// exponential decide.
constexpr double kNear = 1e-5;

struct Setting {
  SamplingParams params;
  std::vector<float> logits;
  std::vector<Token> history;
};

Setting random_setting(Random& random, uint32_t n_vocab) {
  const auto one_of = [&](std::initializer_list<float> values) {
    return *(values.begin() + random.below(values.size()));
  };
  Setting s;
  s.logits = random.normals(n_vocab, one_of({0.5f, 2, 4, 8}));
  if (random.below(4) == 0) {  // ties
    for (float& v : s.logits) v = std::round(v * 2) / 2;
  }
  s.params.temperature = one_of({0.2f, 0.7f, 0.8f, 1, 1.5f, 0});
  s.params.top_k = static_cast<int32_t>(one_of({0, 0, 1, 5, 40, 200, 300, 5000}));
  s.params.top_p = one_of({1, 1, 0.95f, 0.9f, 0.5f, 0});
  s.params.min_p = one_of({0, 0, 0.05f, 0.3f, 1});
  s.params.repeat_penalty = one_of({1, 1, 1.3f, 0.8f});
  s.params.presence_penalty = one_of({0, 0, 1.5f});
  s.params.frequency_penalty = one_of({0, 0, 0.25f});
  s.params.seed = random.bits();
  for (uint32_t i = 0; i < 30; ++i) s.history.push_back(static_cast<Token>(random.below(n_vocab)));
  return s;
}

Sampler sampler_of(const Setting& s, const SamplingParams& params) {
  Sampler sampler(params);
  for (const Token id : s.history) sampler.accept(id);
  return sampler;
}

bool is_near_a_border(const Setting& s) {
  const auto candidates = *sampler_of(s, s.params).candidates(s.logits);
  const double draw = double{sampler_of(s, s.params).next_uniform()};
  double sum = 0;
  for (const auto& c : candidates) {
    sum += double{c.probability};
    if (std::abs(draw - sum) < kNear) return true;
  }
  for (const double factor : {1 - kNear, 1 + kNear}) {
    SamplingParams p = s.params;
    if (p.top_p < 1) p.top_p = static_cast<float>(double{p.top_p} * factor);
    p.min_p = std::min(1.0f, static_cast<float>(double{p.min_p} * factor));
    if (sampler_of(s, p).candidates(s.logits)->size() != candidates.size()) return true;
  }
  return false;
}

std::vector<uint32_t> sample_on(Device& device, const std::vector<Setting>& settings, uint32_t n_vocab) {
  std::vector<Sampler> samplers;
  for (const Setting& s : settings) samplers.push_back(sampler_of(s, s.params));
  const std::vector<Token> token = {0};
  std::vector<StepInput> inputs;
  std::vector<float> logits;
  for (size_t i = 0; i < settings.size(); ++i) {
    inputs.push_back({.tokens = token, .sampler = &samplers[i]});
    logits.insert(logits.end(), settings[i].logits.begin(), settings[i].logits.end());
  }
  engine::RowRules all = engine::row_rules(inputs);
  const auto n = static_cast<uint32_t>(settings.size());
  Step step = make_step(n);
  for (uint32_t i = 0; i < n; ++i) step.out_token.push_back(i);
  step.rules = std::move(all.rules);
  step.penalties = std::move(all.penalties);
  Job job(device);
  const kernels::SampleTokenArgs args{
      .out = job.out<uint>(n), .logits = job.in(logits), .step = job.step(step), .n_vocab = n_vocab};
  job.launch({.id = KernelId::sample_token}, args, {1, n, 1});
  return job.read(args.out, n);
}

// Of random rows and settings.
void expect_the_samplers_tokens(Device& device, uint32_t n_vocab, size_t n_rows) {
  Random random(n_vocab);
  std::vector<Setting> settings;
  for (size_t i = 0; i < n_rows; ++i) settings.push_back(random_setting(random, n_vocab));
  const auto got = sample_on(device, settings, n_vocab);
  size_t n_near = 0;
  for (size_t i = 0; i < n_rows; ++i) {
    const Setting& s = settings[i];
    const auto wanted = static_cast<uint32_t>(*sampler_of(s, s.params).pick(s.logits));
    if (got[i] == wanted) continue;
    ++n_near;
    EXPECT_TRUE(is_near_a_border(s)) << "row " << i << ": " << got[i] << ", not " << wanted << "; temperature "
                                     << s.params.temperature << ", top_k " << s.params.top_k << ", top_p "
                                     << s.params.top_p << ", min_p " << s.params.min_p;
  }
  testing::Test::RecordProperty("near_a_border_" + std::to_string(n_vocab), static_cast<int>(n_near));
  EXPECT_LE(n_near * 500, n_rows) << "of " << n_vocab << " logits each";
}

Device* device_of(const std::string& family) {
  for (const Subject& subject : subjects()) {
    if (subject.family == family && subject.device->has({.id = KernelId::sample_token})) return subject.device.get();
  }
  return nullptr;
}

TEST(SampledByRules, TokensOfTheHostsSampler) {
  Device* device = device_of(subjects()[0].family);
  ASSERT_NE(device, nullptr);
  expect_the_samplers_tokens(*device, 3, 500);
  expect_the_samplers_tokens(*device, 300, 2000);
  expect_the_samplers_tokens(*device, 5000, 500);
}

TEST(SampledByRulesGpu, TokensOfTheHostsSampler) {
  SLUICE_NEED_VULKAN();
  Device* device = device_of("backend vulkan");
  ASSERT_NE(device, nullptr);
  expect_the_samplers_tokens(*device, 3, 500);
  expect_the_samplers_tokens(*device, 300, 2000);
  expect_the_samplers_tokens(*device, 5000, 500);
}

}  // namespace
}  // namespace sluice::test
