#include "models/metadata.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "base/log.h"
#include "base/text.h"

namespace sluice::models {
namespace {

constexpr uint32_t kMostCount = 1u << 24;

// Keys that change the arithmetic unless they hold this value; whoever supports one reads it.
struct Arithmetic {
  std::string_view key;
  double neutral;
  double also_neutral;
};
constexpr Arithmetic kArithmetic[] = {
    {"attention.causal", 1, 1},
    {"attention.clamp_kqv", 0, 0},
    {"attention.gate_lora_rank", 0, 0},
    {"attention.kv_lora_rank", 0, 0},
    {"attention.max_alibi_bias", 0, 0},
    {"attention.output_scale", 1, 0},
    {"attention.q_lora_rank", 0, 0},
    {"attention.scale", 0, 0},
    {"attention.shared_kv_layers", 0, 0},
    {"attention.sliding_window", 0, 0},
    {"attention.temperature_length", 0, 0},
    {"attention.temperature_scale", 0, 0},
    {"attn_logit_softcapping", 0, 0},
    {"decoder_start_token_id", 0, 0},
    {"embedding_length_per_layer_input", 0, 0},
    {"embedding_scale", 1, 0},
    {"expert_group_count", 1, 0},
    {"expert_group_scale", 1, 0},
    {"expert_group_used_count", 1, 0},
    {"expert_shared_count", 0, 0},
    {"expert_shared_feed_forward_length", 0, 0},
    {"final_logit_softcapping", 0, 0},
    {"interleave_moe_layer_step", 1, 1},
    {"logit_scale", 1, 0},
    {"moe_every_n_layers", 1, 0},
    {"moe_latent_size", 0, 0},
    {"residual_scale", 1, 0},
    {"router_logit_softcapping", 0, 0},
    {"rope.scaling.alpha", 1, 0},
    {"rope.scaling.yarn_attn_factor", 1, -1},
    {"rope.scaling.yarn_ext_factor", 1, -1},
    {"rope.scaling.yarn_log_multiplier", 0, 0},
    {"swiglu_clamp_exp", 0, 0},
    {"swiglu_clamp_shexp", 0, 0},
    {"swiglu_limit", 0, 0},
    {"use_parallel_residual", 0, 0},
};

// Read elsewhere, only for people, or for what is no text.
constexpr std::string_view kHarmless[] = {
    "attention.layer_norm_epsilon",
    "context_length",
    "pooling_type",
    "rope.dimension_sections",
    "rope.scaling.finetuned",
    "rope.scaling.original_context_length",
    "vocab_size",
};

double as_number(const gguf::Value& value) {
  if (const auto flag = value.as_bool()) return *flag ? 1 : 0;
  if (const auto number = value.as_float()) return *number;
  return NAN;
}

}  // namespace

Error Metadata::wrong(std::string_view key, std::string_view what) const {
  return Error(Code::corrupt_file, fmt::format("metadata '{}' is {}; download the file again", full(key), what));
}

bool Metadata::has(std::string_view key) const { return file_.find(full(key)) != nullptr; }

Result<uint32_t> Metadata::number_or(std::string_view key, uint32_t fallback) {
  read_.emplace(key);
  if (!has(key)) return fallback;
  const uint64_t value = TRY(file_.get_uint(full(key)));
  if (value > kMostCount) return wrong(key, fmt::format("{}, more than this program allows ({})", value, kMostCount));
  return static_cast<uint32_t>(value);
}

Result<uint32_t> Metadata::count_or(std::string_view key, uint32_t fallback) {
  const uint32_t value = TRY(number_or(key, fallback));
  if (value == 0) return wrong(key, "0");
  return value;
}

Result<uint32_t> Metadata::count(std::string_view key) {
  if (!has(key)) {
    return Error(Code::corrupt_file,
                 fmt::format("metadata '{}' is missing; convert the model again with a current tool", full(key)));
  }
  return count_or(key, 0);
}

Result<float> Metadata::float_or(std::string_view key, float fallback) {
  read_.emplace(key);
  if (!has(key)) return fallback;
  const double value = TRY(file_.get_float(full(key)));
  if (!std::isfinite(value) || std::abs(value) > 1e30) return wrong(key, "not a usable number");
  return static_cast<float>(value);
}

Result<float> Metadata::positive(std::string_view key) {
  if (!has(key)) {
    return Error(Code::corrupt_file,
                 fmt::format("metadata '{}' is missing; convert the model again with a current tool", full(key)));
  }
  const float value = TRY(float_or(key, 0));
  if (!(value > 0)) return wrong(key, "not positive");
  return value;
}

Result<bool> Metadata::flag_or(std::string_view key, bool fallback) {
  read_.emplace(key);
  if (!has(key)) return fallback;
  return file_.get_bool(full(key));
}

Result<std::string> Metadata::text_or(std::string_view key, std::string_view fallback) {
  read_.emplace(key);
  if (!has(key)) return std::string(fallback);
  return file_.get_string(full(key));
}

Result<std::vector<uint32_t>> Metadata::per_layer(std::string_view key, uint32_t n_layer) {
  const gguf::Value* value = file_.find(full(key));
  if (value == nullptr || value->as_array() == nullptr) return std::vector<uint32_t>(n_layer, TRY(count(key)));
  read_.emplace(key);
  const std::vector<int64_t> numbers = TRY(file_.get_ints(full(key)));
  // Drafting heads may be counted too: see common_config.
  const uint32_t n_blocks = TRY(number_or("block_count", n_layer));
  if (numbers.size() != n_layer && numbers.size() != n_blocks)
    return wrong(key, fmt::format("an array of {} for {} layers", numbers.size(), n_layer));
  std::vector<uint32_t> result;
  for (const int64_t number : std::span(numbers).first(n_layer)) {
    if (number < 0 || number > kMostCount) return wrong(key, fmt::format("an array that holds {}", number));
    result.push_back(static_cast<uint32_t>(number));
  }
  return result;
}

Result<std::optional<std::vector<bool>>> Metadata::per_layer_flags(std::string_view key, uint32_t n_layer) {
  const gguf::Value* value = file_.find(full(key));
  if (value == nullptr || value->as_array() == nullptr) return std::optional<std::vector<bool>>();
  read_.emplace(key);
  const auto* flags = std::get_if<std::vector<uint64_t>>(value->as_array());
  const uint32_t n_blocks = TRY(number_or("block_count", n_layer));
  if (flags == nullptr || (flags->size() != n_layer && flags->size() != n_blocks))
    return wrong(key, fmt::format("not an array with a flag for each of {} layers", n_layer));
  return std::optional(std::vector<bool>(flags->begin(), flags->begin() + n_layer));
}

Result<void> Metadata::check_unread() const {
  const std::string prefix = architecture_ + ".";
  for (const gguf::KeyValue& pair : file_.metadata()) {
    if (!pair.key.starts_with(prefix)) continue;
    const std::string_view key = std::string_view(pair.key).substr(prefix.size());
    if (read_.contains(key) || std::find(std::begin(kHarmless), std::end(kHarmless), key) != std::end(kHarmless))
      continue;
    const auto refuse = [&] {
      return Error(Code::unsupported,
                   fmt::format("metadata '{}' would change the arithmetic, and {} has no support for it here; "
                               "use another conversion of the model",
                               printable(pair.key), architecture_));
    };
    const auto row =
        std::find_if(std::begin(kArithmetic), std::end(kArithmetic), [&](const auto& r) { return r.key == key; });
    if (row == std::end(kArithmetic)) {
      log::warn("metadata '{}' is not known here and is ignored", printable(pair.key));
      continue;
    }
    const double value = as_number(pair.value);
    if (value != row->neutral && value != row->also_neutral) return refuse();
  }
  return {};
}

}  // namespace sluice::models
