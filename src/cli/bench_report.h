// What `sluice bench` prints: the tests as rows, and their stages against the limits of the machine.
#pragma once
#include <span>
#include <string>

#include "cli/bench_tests.h"
#include "cli/model.h"

namespace sluice::cli {

class BenchReport {
 public:
  BenchReport(const LoadedModel& model, const EngineOptions& options, const Limits& limits);

  std::string header() const;  // of the Markdown table
  std::string row(const BenchResult& r) const;
  std::string stages(std::span<const BenchResult> results) const;  // the limits, and the second table
  std::string json(std::span<const BenchResult> results) const;

 private:
  void describe(const std::string& path);

  Engine& engine_;
  Limits limits_;
  uint32_t n_ubatch_;
  bool naive_routing_;
  std::string name_;
};

}  // namespace sluice::cli
