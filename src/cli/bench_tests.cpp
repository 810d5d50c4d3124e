#include "cli/bench_tests.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <numeric>

#include "base/counter_rng.h"
#include "base/interrupt.h"
#include "cli/model.h"
#include "cli/output.h"

namespace sluice::cli {

std::string BenchTest::name() const {
  std::string out = fmt::format("{}{}", kind == Kind::prefill ? "pp" : "tg", n_tokens);
  if (kind == Kind::parallel) out += fmt::format(" x {}", n_parallel);
  if (n_depth > 0) out += fmt::format(" @ d{}", n_depth);
  return out;
}

double BenchResult::total_seconds() const { return std::accumulate(seconds.begin(), seconds.end(), 0.0); }

double BenchResult::mean_speed() const {
  double sum = 0;
  for (const double s : seconds) sum += double(test.n_counted()) / s;
  return sum / double(seconds.size());
}

double BenchResult::speed_spread() const {
  if (seconds.size() < 2) return 0;
  const double mean = mean_speed();
  double sum = 0;
  for (const double s : seconds) sum += std::pow(double(test.n_counted()) / s - mean, 2);
  return std::sqrt(sum / double(seconds.size() - 1));
}

Token Bench::next_token() {
  const double at = double(counter_uniform(1, n_drawn_++)) * engine_.model().n_vocab;
  return static_cast<Token>(std::min(at, double(engine_.model().n_vocab) - 1));
}

Result<Sequence> Bench::at_depth(uint32_t n_depth) {
  if (n_depth == 0) {
    base_.reset();
    return engine_.new_sequence();
  }
  if (base_ == nullptr || base_->n_tokens() != n_depth) {
    base_.reset();
    base_ = std::make_unique<Sequence>(TRY(engine_.new_sequence()));
    std::vector<Token> ids(n_depth);
    for (Token& id : ids) id = next_token();
    ProgressBar bar("fill the cache", n_depth, "tokens", bar_options());
    StepOptions step;
    step.on_progress = [&](uint32_t done, uint32_t) {
      bar.update(done);
      return !interrupted();
    };
    TRY(engine_.step({{.sequence = base_.get(), .tokens = ids, .logits = Logits::none}}, step));
  }
  return base_->fork();
}

Result<double> Bench::once(const BenchTest& test) {
  std::vector<Sequence> sequences;
  for (uint32_t i = 0; i < test.n_parallel; ++i) sequences.push_back(TRY(at_depth(test.n_depth)));
  const bool prefill = test.kind == BenchTest::Kind::prefill;
  std::vector<Token> ids(prefill ? test.n_tokens : test.n_parallel);
  const uint32_t n_steps = prefill ? 1 : test.n_tokens;
  std::vector<StepInput> inputs;
  for (uint32_t i = 0; i < test.n_parallel; ++i)
    inputs.push_back({.sequence = &sequences[i],
                      .tokens = prefill ? std::span<const Token>(ids) : std::span<const Token>(&ids[i], 1)});
  StepOptions step;
  step.greedy = true;
  step.on_progress = [](uint32_t, uint32_t) { return !interrupted(); };
  StepResult result;
  const auto start = std::chrono::steady_clock::now();
  for (uint32_t i = 0; i < n_steps; ++i) {
    for (Token& id : ids) id = next_token();
    TRY(engine_.step(inputs, step, result));
    if (interrupted()) return interrupted_error();
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::vector<StageCost> Bench::cost_of(const BenchTest& test) const {
  std::vector<StageCost> sum;
  const auto add = [&](const StepShape& shape, double times) {
    const std::vector<StageCost> step = engine_.cost(shape);
    if (sum.empty()) {
      for (const StageCost& c : step) sum.push_back({c.stage});
    }
    for (size_t i = 0; i < sum.size(); ++i) {
      sum[i].bytes += times * step[i].bytes;
      sum[i].int8_operations += times * step[i].int8_operations;
      sum[i].f32_operations += times * step[i].f32_operations;
    }
  };
  const bool prefill = test.kind == BenchTest::Kind::prefill;
  const uint32_t n_together = prefill ? test.n_tokens : test.n_parallel;
  for (uint32_t first = 0; first < n_together; first += n_ubatch_) {
    const uint32_t n = std::min(n_ubatch_, n_together - first);
    if (prefill) {
      add({n, first + n == n_together ? 1u : 0u, 1, uint64_t{test.n_depth} + first}, 1);
    } else {  // a step's cost is linear in what is cached: the first and the last one tell all
      add({n, n, n, test.n_depth}, test.n_tokens / 2.0);
      add({n, n, n, uint64_t{test.n_depth} + test.n_tokens - 1}, test.n_tokens / 2.0);
    }
  }
  return sum;
}

Result<BenchResult> Bench::run(const BenchTest& test) {
  BenchTest warm_up = test;
  if (test.kind != BenchTest::Kind::prefill) warm_up.n_tokens = std::min(test.n_tokens, 2u);
  TRY(once(warm_up));
  engine_.profile(true);
  engine_.stage_seconds();
  BenchResult result{.test = test, .costs = cost_of(test)};
  ProgressBar bar(test.name(), n_repeat_, "runs", bar_options());
  const EngineCounters before = engine_.counters();
  for (uint32_t i = 0; i < n_repeat_; ++i) {
    result.seconds.push_back(TRY(once(test)));
    bar.update(i + 1);
  }
  const EngineCounters after = engine_.counters();
  result.counters = {after.host_reads - before.host_reads, after.host_read_bytes - before.host_read_bytes,
                     after.submits - before.submits};
  result.stages = engine_.stage_seconds();
  engine_.profile(false);
  return result;
}

}  // namespace sluice::cli
