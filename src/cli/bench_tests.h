// The measurements of `sluice bench`.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sluice/engine.h"

namespace sluice::cli {

struct BenchTest {
  enum class Kind : uint8_t { prefill, decode, parallel };
  Kind kind = Kind::prefill;
  uint32_t n_tokens = 0;    // of the prompt, or steps
  uint32_t n_depth = 0;     // tokens in the cache before
  uint32_t n_parallel = 1;  // sequences in one step

  std::string name() const;  // "pp512", "tg128 @ d8192", "tg128 x 8"
  uint64_t n_counted() const { return uint64_t{n_tokens} * n_parallel; }
  // Positions in the cache, and sequences, that it needs.
  uint64_t n_positions() const { return n_depth + n_counted(); }
  uint32_t n_context() const { return n_depth + n_tokens; }
};

struct BenchResult {
  BenchTest test;
  std::vector<double> seconds;                         // per repeat
  EngineCounters counters;                             // of all repeats
  std::vector<std::pair<std::string, double>> stages;  // seconds of all repeats
  std::vector<StageCost> costs;                        // of one repeat, stage by stage as above

  double n_counted() const { return double(test.n_counted()) * double(seconds.size()); }  // tokens of all repeats
  double total_seconds() const;                                                           // of all repeats
  double mean_speed() const;                                                              // tokens per second
  double speed_spread() const;                                                            // standard deviation
};

class Bench {
 public:
  Bench(Engine& engine, uint32_t n_repeat, uint32_t n_ubatch)
      : engine_(engine), n_repeat_(n_repeat), n_ubatch_(n_ubatch) {}
  Result<BenchResult> run(const BenchTest& test);

 private:
  // A sequence of `n_depth` tokens; kept for the next test of the same depth.
  Result<Sequence> at_depth(uint32_t n_depth);
  Result<double> once(const BenchTest& test);
  std::vector<StageCost> cost_of(const BenchTest& test) const;
  Token next_token();

  Engine& engine_;
  uint32_t n_repeat_, n_ubatch_;
  uint64_t n_drawn_ = 0;
  std::unique_ptr<Sequence> base_;
};

}  // namespace sluice::cli
