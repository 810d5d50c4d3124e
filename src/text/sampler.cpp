#include "sluice/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/counter_rng.h"

namespace sluice {
namespace {

using Candidate = Sampler::Candidate;

// Until the last step `probability` holds the logit.
bool goes_before(const Candidate& a, const Candidate& b) {
  return a.probability != b.probability ? a.probability > b.probability : a.id < b.id;
}

// exp(logit - top), also where the top is +inf: then the infinite ones share everything.
double weight(float logit, float top) { return logit == top ? 1.0 : std::exp(static_cast<double>(logit) - top); }

Error bad_logits() {
  return Error{
      Code::internal,
      "the model's logits hold a NaN or no finite value; try another backend, and if it stays report the file"};
}

Error bad_field(std::string_view name, double value, std::string_view wanted) {
  return Error{Code::invalid_argument, fmt::format("{} is {}; it must be {}", name, value, wanted)};
}

struct Scan {
  float top;
  bool has_nan;
};

// In lanes, so that compilers vectorise it: it reads a whole vocabulary for every token.
Scan scan(std::span<const float> logits) {
  constexpr size_t kLanes = 16;
  std::array<float, kLanes> tops;
  std::array<uint32_t, kLanes> nans{};
  tops.fill(-std::numeric_limits<float>::infinity());
  size_t i = 0;
  for (; i + kLanes <= logits.size(); i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const float logit = logits[i + lane];
      tops[lane] = logit > tops[lane] ? logit : tops[lane];
      nans[lane] |= logit != logit ? 1u : 0u;
    }
  }
  for (; i < logits.size(); ++i) {
    tops[0] = logits[i] > tops[0] ? logits[i] : tops[0];
    nans[0] |= logits[i] != logits[i] ? 1u : 0u;
  }
  return {*std::max_element(tops.begin(), tops.end()), *std::max_element(nans.begin(), nans.end()) != 0};
}

// The `n` candidates that go first, in any order; a logit of -inf is none.
void collect(std::span<const float> logits, size_t n, std::vector<Candidate>& out) {
  out.clear();
  // With room for a few times n, most logits meet a bound that only n others are above and are never stored.
  const size_t room = n < logits.size() / 8 ? std::max<size_t>(4 * n, 1024) : logits.size();
  float bound = -std::numeric_limits<float>::infinity();
  for (size_t i = 0; i < logits.size(); ++i) {
    if (!(logits[i] > bound)) continue;  // an equal one that comes later loses the tie
    out.push_back({static_cast<Token>(i), logits[i]});
    if (out.size() < room || n >= out.size()) continue;
    const auto last = out.begin() + static_cast<ptrdiff_t>(n) - 1;
    std::nth_element(out.begin(), last, out.end(), goes_before);
    bound = last->probability;
    out.resize(n);
  }
  if (n >= out.size()) return;
  std::nth_element(out.begin(), out.begin() + static_cast<ptrdiff_t>(n), out.end(), goes_before);
  out.resize(n);
}

// Sorts the front of `all` until its weights reach `share` of `total` and drops the rest. Sorting everything would cost
// most of the time on a large vocabulary, where the front is a few hundred candidates.
void keep_top_p(std::vector<Candidate>& all, float top, double share, double total) {
  size_t n_sorted = 0;
  double sum = 0;
  for (size_t step = 256; n_sorted < all.size(); step *= 4) {
    const size_t end = std::min(all.size(), n_sorted + step);
    const auto first = all.begin() + static_cast<ptrdiff_t>(n_sorted), last = all.begin() + static_cast<ptrdiff_t>(end);
    if (last != all.end()) std::nth_element(first, last, all.end(), goes_before);
    std::sort(first, last, goes_before);
    for (; n_sorted < end; ++n_sorted) {
      sum += weight(all[n_sorted].probability, top);
      if (sum < share * total) continue;
      all.resize(n_sorted + 1);
      return;
    }
  }
}

void penalise(float repeat_penalty, const std::vector<Sampler::Penalty>& penalties, std::span<float> logits) {
  for (const auto& [id, amount] : penalties) {
    if (id < 0 || static_cast<size_t>(id) >= logits.size()) continue;
    float& logit = logits[static_cast<size_t>(id)];
    logit = logit > 0 ? logit / repeat_penalty : logit * repeat_penalty;
    logit -= amount;
    // inf - inf: penalties beyond any sensible range take the token out.
    if (std::isnan(logit)) logit = -std::numeric_limits<float>::infinity();
  }
}

// Top-p, min-p and temperature over what top-k left; afterwards `probability` is one.
void filter(const SamplingParams& params, float top, std::vector<Candidate>& out) {
  double total = 0;
  if (params.top_p < 1) {
    for (const Candidate& c : out) total += weight(c.probability, top);
  }
  // Every filter keeps a front of the same order, so min-p may come first and spare top-p most of its sorting.
  if (params.min_p > 0) {
    std::erase_if(out, [&](const Candidate& c) { return weight(c.probability, top) < params.min_p; });
  }
  if (params.top_p < 1) keep_top_p(out, top, params.top_p, total);
  std::sort(out.begin(), out.end(), goes_before);

  double sum = 0;
  std::vector<double> weights(out.size());
  for (size_t i = 0; i < out.size(); ++i) {
    const float logit = out[i].probability;
    weights[i] = logit == top ? 1.0 : std::exp((static_cast<double>(logit) - top) / params.temperature);
    sum += weights[i];
  }
  for (size_t i = 0; i < out.size(); ++i) out[i].probability = static_cast<float>(weights[i] / sum);
}

}  // namespace

Result<void> SamplingParams::check() const {
  if (!std::isfinite(temperature)) return bad_field("temperature", temperature, "a finite number (0: greedy)");
  if (!(top_p >= 0)) return bad_field("top_p", top_p, "0 or more (1: off)");
  if (!(min_p <= 1)) return bad_field("min_p", min_p, "at most 1 (0: off)");
  if (!(repeat_penalty > 0) || !std::isfinite(repeat_penalty)) {
    return bad_field("repeat_penalty", repeat_penalty, "above 0 (1: off)");
  }
  if (!std::isfinite(presence_penalty))
    return bad_field("presence_penalty", presence_penalty, "a finite number (0: off)");
  if (!std::isfinite(frequency_penalty))
    return bad_field("frequency_penalty", frequency_penalty, "a finite number (0: off)");
  if (penalty_last_n < -1) return bad_field("penalty_last_n", penalty_last_n, "-1 (all tokens), 0 (none) or more");
  return {};
}

Result<SamplingParams> SamplingParams::from_file(const gguf::File& file) {
  SamplingParams params;
  const auto read_float = [&](std::string_view key, float* field) -> Result<void> {
    if (file.find(key)) *field = static_cast<float>(TRY(file.get_float(key)));
    return {};
  };
  const auto read_int = [&](std::string_view key, int32_t* field) -> Result<void> {
    const gguf::Value* value = file.find(key);
    if (!value) return {};
    const auto number = value->as_int();
    if (!number || *number < std::numeric_limits<int32_t>::min() || *number > std::numeric_limits<int32_t>::max()) {
      return Error{Code::corrupt_file, fmt::format("{} is no 32-bit integer; set the value yourself", key)};
    }
    *field = static_cast<int32_t>(*number);
    return {};
  };
  TRY(read_float("general.sampling.temp", &params.temperature));
  TRY(read_int("general.sampling.top_k", &params.top_k));
  TRY(read_float("general.sampling.top_p", &params.top_p));
  TRY(read_float("general.sampling.min_p", &params.min_p));
  TRY(read_int("general.sampling.penalty_last_n", &params.penalty_last_n));
  TRY(read_float("general.sampling.penalty_repeat", &params.repeat_penalty));
  if (const auto checked = params.check(); !checked) {
    return Error{Code::corrupt_file, "the file's general.sampling keys: " + checked.error().message};
  }
  return params;
}

Sampler::Sampler(const SamplingParams& params) : params_(params) {}

bool Sampler::penalises() const {
  return params_.repeat_penalty != 1 || params_.presence_penalty != 0 || params_.frequency_penalty != 0;
}

void Sampler::accept(Token id) {
  history_.push_back(id);
  if (params_.penalty_last_n == 0) return;
  ++counts_[id];
  if (params_.penalty_last_n < 0) return;
  const auto window = static_cast<size_t>(params_.penalty_last_n);
  if (history_.size() <= window) return;
  const auto left = counts_.find(history_[history_.size() - 1 - window]);
  if (--left->second == 0) counts_.erase(left);
}

Result<void> Sampler::choose(std::span<const float> logits, std::vector<Candidate>& out) const {
  if (argmax(logits) < 0) return bad_logits();
  std::vector<float> penalised;
  if (penalises() && !counts_.empty()) {
    penalised.assign(logits.begin(), logits.end());
    penalise(params_.repeat_penalty, penalties(), penalised);
    logits = penalised;
  }
  const float top = scan(logits).top;
  if (top == -std::numeric_limits<float>::infinity()) return bad_logits();
  if (params_.temperature <= 0) {
    const auto first = std::find(logits.begin(), logits.end(), top);
    out.assign(1, {static_cast<Token>(first - logits.begin()), 1.0f});
    return {};
  }
  const size_t n = params_.top_k > 0 ? static_cast<size_t>(params_.top_k) : logits.size();
  collect(logits, n, out);
  // In order before any sum: nth_element leaves one that differs between libraries.
  if (n < logits.size()) std::sort(out.begin(), out.end(), goes_before);
  filter(params_, top, out);
  return {};
}

std::vector<Sampler::Penalty> Sampler::penalties() const {
  std::vector<Penalty> out;
  if (!penalises()) return out;
  out.reserve(counts_.size());
  for (const auto& [id, count] : counts_)
    out.push_back({id, static_cast<float>(count) * params_.frequency_penalty + params_.presence_penalty});
  return out;
}

float Sampler::next_uniform() const { return counter_uniform(params_.seed, n_sampled_); }

Result<Token> Sampler::sample(std::span<const float> logits) {
  const Token id = TRY(pick(logits));
  advance();
  return id;
}

Result<Token> Sampler::pick(std::span<const float> logits) const {
  if (params_.temperature <= 0 && !(penalises() && !counts_.empty())) {
    const int64_t best = argmax(logits);
    if (best < 0) return bad_logits();
    return static_cast<Token>(best);
  }
  TRY(choose(logits, scratch_));
  const double draw = next_uniform();
  double sum = 0;
  for (const Candidate& candidate : scratch_) {
    sum += candidate.probability;
    if (draw < sum) return candidate.id;
  }
  return scratch_.back().id;  // rounding left the sum a little below 1
}

Result<std::vector<Sampler::Candidate>> Sampler::candidates(std::span<const float> logits) const {
  std::vector<Candidate> out;
  TRY(choose(logits, out));
  return out;
}

int64_t argmax(std::span<const float> logits) {
  const Scan found = scan(logits);
  if (found.has_nan || found.top == -std::numeric_limits<float>::infinity()) return -1;
  if (std::isinf(found.top) && std::none_of(logits.begin(), logits.end(), [](float x) { return std::isfinite(x); }))
    return -1;
  return std::find(logits.begin(), logits.end(), found.top) - logits.begin();
}

}  // namespace sluice
