#include "models/adapter.h"

#include <fmt/format.h>

#include <cmath>

#include "base/text.h"
#include "quant/quant.h"

namespace sluice::models {
namespace {

constexpr std::string_view kA = ".lora_a", kB = ".lora_b";

Error wrong_file(const std::string& path, std::string_view what) {
  return Error(Code::unsupported,
               fmt::format("'{}' {}; give a LoRA adapter made for this model", printable(path), what));
}

}  // namespace

Result<Adapter> Adapter::open(const std::string& path, float scale, std::string_view architecture) {
  gguf::File file = TRY(gguf::File::open(path));
  const auto text = [&file](const char* key) {
    const auto value = file.get_string(key);
    return value ? *value : std::string();
  };
  if (text("general.type") != "adapter") return wrong_file(path, "is no adapter");
  if (text("adapter.type") != "lora") return wrong_file(path, "is an adapter of another kind than lora");
  if (const std::string made_for = text("general.architecture"); made_for != architecture)
    return wrong_file(path, fmt::format("is made for '{}' and the model is '{}'", printable(made_for), architecture));
  const auto alpha = file.get_float("adapter.lora.alpha");
  if (alpha && !std::isfinite(*alpha)) return wrong_file(path, "has no usable adapter.lora.alpha");
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    if (!tensor.name.ends_with(kA) && !tensor.name.ends_with(kB))
      return wrong_file(path, fmt::format("has a tensor '{}', which is no part of one", printable(tensor.name)));
    if (tensor.type == nullptr)
      return wrong_file(path, fmt::format("has '{}' in a type that is not known", printable(tensor.name)));
  }
  return Adapter(std::move(file), scale, alpha ? static_cast<float>(*alpha) : 0);
}

Result<std::vector<float>> Adapter::values(const std::string& name, const std::vector<uint64_t>& dims) const {
  const gguf::TensorInfo* tensor = file_.find_tensor(name);
  if (tensor == nullptr || tensor->dims != dims)
    return wrong_file(path(), fmt::format("lacks '{}' in the shape that the model needs", printable(name)));
  std::vector<float> values(tensor->n_elements);
  quant::codec(tensor->type->type).dequantize(file_.data(*tensor).data(), values.data(), values.size());
  return values;
}

Result<Adapter::Factors> Adapter::factors(const std::string& name, uint32_t n_expert, uint32_t m, uint32_t k) const {
  constexpr uint64_t kMostRank = 1u << 14;
  const gguf::TensorInfo* a = file_.find_tensor(name + std::string(kA));
  const uint64_t rank = a != nullptr && a->dims.size() > 1 ? a->dims[1] : 0;
  if (rank == 0 || rank > kMostRank)
    return wrong_file(path(), fmt::format("has no usable rank for '{}'", printable(name)));
  std::vector<uint64_t> a_dims = {k, rank}, b_dims = {rank, m};
  if (n_expert != 0) a_dims.push_back(n_expert), b_dims.push_back(n_expert);
  Factors factors{.rank = static_cast<uint32_t>(rank)};
  factors.a = TRY(values(name + std::string(kA), a_dims));
  factors.b = TRY(values(name + std::string(kB), b_dims));
  const float scale = alpha_ != 0 ? scale_ * alpha_ / static_cast<float>(rank) : scale_;
  for (float& value : factors.b) value *= scale;
  return factors;
}

Result<void> Adapter::check_all_used(const std::set<std::string, std::less<>>& names) const {
  for (const gguf::TensorInfo& tensor : file_.tensors()) {
    const std::string name = tensor.name.substr(0, tensor.name.size() - kA.size());
    if (!names.contains(name))
      return wrong_file(path(), fmt::format("changes '{}', which cannot be changed here", printable(name)));
  }
  return {};
}

}  // namespace sluice::models
