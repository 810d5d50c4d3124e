// How often each expert was chosen, and pictures of it.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "sluice/engine.h"

namespace sluice::cli {

class RouteCounts {
 public:
  explicit RouteCounts(uint32_t n_expert) : n_expert_(n_expert) {}

  void add(const Routing& routing, size_t n_tokens);
  const std::map<uint32_t, std::vector<int64_t>>& layers() const { return layers_; }  // by layer: (n_expert)

  std::string text(uint32_t width, bool colour) const;
  std::string json() const;
  std::string svg(const std::string& model_name) const;

 private:
  uint32_t n_expert_, n_used_ = 0;
  uint64_t n_tokens_ = 0;
  std::map<uint32_t, std::vector<int64_t>> layers_;
};

struct Balance {
  double entropy_bits = 0;   // of the experts' shares; log2(n_expert) where all are used alike
  double entropy_share = 0;  // of that maximum
  double imbalance = 0;      // busiest expert over the mean
  uint32_t n_unused = 0;
};
Balance balance_of(const std::vector<int64_t>& counts);

}  // namespace sluice::cli
