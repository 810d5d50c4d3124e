#include "engine/mixture.h"

#include <algorithm>
#include <charconv>

namespace sluice {
namespace {

constexpr uint32_t kMixtral = 8;  // experts, with which attention is small beside them and keeps more bits

// "blk.12.x" is of layer 12; 0 for what is of no layer.
uint32_t layer_of(std::string_view name) {
  uint32_t layer = 0;
  if (name.starts_with("blk.")) std::from_chars(name.data() + 4, name.data() + name.size(), layer);
  return layer;
}

bool holds(std::string_view name, std::string_view part) { return name.find(part) != name.npos; }

bool is_values(std::string_view name) {
  return holds(name, "attn_v.weight") || holds(name, "attn_qkv.weight") || holds(name, "attn_kv_b.weight");
}

// The first and the last eighth of n, and every third between.
bool matters_more(size_t i, size_t n) { return i < n / 8 || i >= 7 * n / 8 || (i - n / 8) % 3 == 2; }

uint32_t number(const gguf::File& file, const std::string& key) {
  const gguf::Value* architecture = file.find("general.architecture");
  if (architecture == nullptr || architecture->as_string() == nullptr) return 0;
  const gguf::Value* value = file.find(*architecture->as_string() + "." + key);
  return value == nullptr ? 0 : static_cast<uint32_t>(std::min<uint64_t>(value->as_uint().value_or(0), UINT32_MAX));
}

}  // namespace

MixtureRule::MixtureRule(const gguf::File& file, Type base, Mixture mixture)
    : base_(base),
      mixture_(mixture),
      n_layer_(number(file, "block_count")),
      n_expert_(number(file, "expert_count")),
      tied_(file.find_tensor("output.weight") == nullptr) {
  for (const gguf::TensorInfo& t : file.tensors())
    if (is_values(t.name)) values_layers_.push_back(layer_of(t.name));
  std::sort(values_layers_.begin(), values_layers_.end());
}

Type MixtureRule::values_type(size_t turn) const {
  if (n_expert_ == kMixtral) return Type::Q8_0;
  if (mixture_ == Mixture::small) return base_ == Type::Q4_K && turn < 4 ? Type::Q5_K : base_;
  if (base_ == Type::Q3_K) return turn < 2 ? Type::Q5_K : Type::Q4_K;
  return matters_more(turn, values_layers_.size()) ? Type::Q6_K : base_;
}

Type MixtureRule::down_type(uint32_t layer) const {
  if (mixture_ == Mixture::small) return base_ == Type::Q4_K && layer < n_layer_ / 8 ? Type::Q5_K : base_;
  if (base_ == Type::Q3_K) return layer < n_layer_ / 16 ? Type::Q5_K : Type::Q4_K;
  return matters_more(layer, n_layer_) ? Type::Q6_K : base_;
}

Type MixtureRule::output_type() const {
  if (n_expert_ == kMixtral) return Type::Q5_K;
  return base_ == Type::Q3_K && mixture_ == Mixture::medium ? Type::Q4_K : base_;
}

Type MixtureRule::type_for(std::string_view name) const {
  if (name == "output.weight" || (tied_ && name == "token_embd.weight")) return Type::Q6_K;
  if (is_values(name)) {
    const auto at = std::lower_bound(values_layers_.begin(), values_layers_.end(), layer_of(name));
    return values_type(static_cast<size_t>(at - values_layers_.begin()));
  }
  if (holds(name, "attn_k.weight") && n_expert_ == kMixtral) return Type::Q8_0;
  if (holds(name, "attn_output.weight")) return output_type();
  return holds(name, "ffn_down") ? down_type(layer_of(name)) : base_;
}

}  // namespace sluice
