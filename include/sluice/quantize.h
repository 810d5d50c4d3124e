// GGUF files with other tensor types.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/result.h"
#include "sluice/type.h"

namespace sluice {

// Whether all matrices get one type, or some of them a better one: none, few or more (the names' _S and _M).
enum class Mixture : uint8_t { none, small, medium };

struct QuantizeOptions {
  Type type = Type::Q4_0;  // of matrices and stacked expert weights
  Mixture mixture = Mixture::none;
  uint32_t n_threads = 1;
  std::function<bool(uint64_t done_bytes, uint64_t total_bytes)> on_progress;  // of the input; false cancels
};

struct QuantizeReport {
  uint64_t in_bytes = 0, out_bytes = 0;  // tensor data
  uint32_t n_converted = 0, n_kept = 0;
  std::vector<std::string> fallbacks;    // "NAME: Q8_0", where rows do not divide into blocks of the type asked for
  std::vector<std::string> better;       // "NAME: Q6_K", of matrices that keep a better type than asked for
  std::vector<std::string> requantized;  // names of tensors that were quantised before
};

// Writes `out_path` whole or not at all. Norms, routers, biases and convolution kernels stay F32; token embeddings and
// the output matrix get Q6_K at least (Q8_0 where their rows do not divide by 256). A mixture gives Q6_K to the output
// matrix alone, and better types to attention's values and the down projections of some layers.
Result<QuantizeReport> quantize_file(const std::string& in_path, const std::string& out_path,
                                     const QuantizeOptions& options);

// The types and mixtures that quantize_file() writes ("Q4_0", "Q4_K_M"), and one of them by its name.
struct QuantizeTarget {
  Type type;
  Mixture mixture;
};
std::vector<std::string> quantize_types();
std::optional<QuantizeTarget> find_quantize_type(std::string_view name);

}  // namespace sluice
