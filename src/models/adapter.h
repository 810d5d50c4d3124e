// Low-rank adapters (LoRA, Hu et al. 2021): some of a model's products W x become W x + scale * B (A x).
#pragma once
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/gguf.h"

namespace sluice::models {

// One adapter file. Its tensors are NAME.lora_a (k, r) and NAME.lora_b (r, m) in the file's order of dimensions, for
// stacks of experts with their number behind.
class Adapter {
 public:
  // `scale` multiplies the file's own, adapter.lora.alpha / r. Refuses files that are no LoRA adapter, or one for
  // another architecture.
  static Result<Adapter> open(const std::string& path, float scale, std::string_view architecture);

  const std::string& path() const { return file_.path(); }
  bool changes(const std::string& name) const { return file_.find_tensor(name + ".lora_a") != nullptr; }

  struct Factors {
    uint32_t rank = 0;
    std::vector<float> a, b;  // (n_expert, r, k) and (n_expert, m, r), the latter times the scale
  };
  // Of the weight `name`, which the adapter changes. n_expert 0: a single matrix.
  Result<Factors> factors(const std::string& name, uint32_t n_expert, uint32_t m, uint32_t k) const;

  // An error where the adapter changes a weight that is not among `names`.
  Result<void> check_all_used(const std::set<std::string, std::less<>>& names) const;

 private:
  Adapter(gguf::File file, float scale, float alpha) : file_(std::move(file)), scale_(scale), alpha_(alpha) {}
  Result<std::vector<float>> values(const std::string& name, const std::vector<uint64_t>& dims) const;

  gguf::File file_;
  float scale_, alpha_;
};

}  // namespace sluice::models
