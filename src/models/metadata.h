// The metadata of one architecture ("lfm2moe.block_count"), read with types checked, and a watch over what was not
// read.
#pragma once
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/gguf.h"

namespace sluice::models {

class Metadata {
 public:
  Metadata(const gguf::File& file, std::string architecture) : file_(file), architecture_(std::move(architecture)) {}

  const gguf::File& file() const { return file_; }
  const std::string& architecture() const { return architecture_; }

  // `key` is without the architecture's prefix. Counts are 1 .. 2^24 where nothing else is said.
  Result<uint32_t> count(std::string_view key);
  Result<uint32_t> count_or(std::string_view key, uint32_t fallback);
  Result<uint32_t> number_or(std::string_view key, uint32_t fallback);  // 0 allowed
  Result<float> positive(std::string_view key);
  Result<float> float_or(std::string_view key, float fallback);
  Result<bool> flag_or(std::string_view key, bool fallback);
  Result<std::string> text_or(std::string_view key, std::string_view fallback);
  // A scalar for all layers, or an array with one number for each; 0 allowed.
  Result<std::vector<uint32_t>> per_layer(std::string_view key, uint32_t n_layer);
  // An array with one flag for each layer; none where the file has no such key, or something else.
  Result<std::optional<std::vector<bool>>> per_layer_flags(std::string_view key, uint32_t n_layer);
  bool has(std::string_view key) const;

  // `unsupported` where a key that was not read would change the arithmetic. Unknown keys are logged.
  Result<void> check_unread() const;

 private:
  std::string full(std::string_view key) const { return architecture_ + "." + std::string(key); }
  Error wrong(std::string_view key, std::string_view what) const;

  const gguf::File& file_;
  std::string architecture_;
  std::set<std::string, std::less<>> read_;
};

}  // namespace sluice::models
