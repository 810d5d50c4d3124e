// Which tensors of a mixed file get a better type than the one that it is named after.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "sluice/gguf.h"
#include "sluice/quantize.h"

namespace sluice {

class MixtureRule {
 public:
  MixtureRule(const gguf::File& file, Type base, Mixture mixture);

  // Of a matrix that is converted, before its rows are looked at.
  Type type_for(std::string_view name) const;

 private:
  Type values_type(size_t turn) const;
  Type down_type(uint32_t layer) const;
  Type output_type() const;

  Type base_;
  Mixture mixture_;
  uint32_t n_layer_ = 0, n_expert_ = 0;
  bool tied_ = false;                    // the embeddings are the output matrix, too
  std::vector<uint32_t> values_layers_;  // of attention's values, ascending
};

}  // namespace sluice
