// Typed look-ups of metadata.
#include <fmt/format.h>

#include "base/text.h"
#include "gguf/parse.h"
#include "sluice/gguf.h"

namespace sluice::gguf {
namespace {

std::string described(const Value& value) {
  if (value.kind == Kind::array) return fmt::format("an array of kind {}", kind_name(value.element));
  return fmt::format("a value of kind {}", kind_name(value.kind));
}

Error wrong_kind(const File& file, std::string_view key, const Value& value, std::string_view wanted) {
  return Error{Code::corrupt_file, fmt::format("'{}': key '{}' holds {}, not {}; convert the model again",
                                               printable_path(file.path()), printable(key), described(value), wanted)};
}

Result<const Value*> require(const File& file, std::string_view key) {
  if (const Value* value = file.find(key)) return value;
  return Error{Code::not_found, fmt::format("'{}': key '{}' is missing; convert the model again",
                                            printable_path(file.path()), printable(key))};
}

// `convert` gives an optional of what is wanted.
template <class T, class Convert>
Result<T> scalar(const File& file, std::string_view key, std::string_view wanted, Convert convert) {
  const Value* value = TRY(require(file, key));
  if (auto converted = convert(*value)) return T(*std::move(converted));
  return wrong_kind(file, key, *value, wanted);
}

// The numbers of an array as To; `exact` says whether a number can be converted without loss.
template <class To, class Exact>
std::optional<std::vector<To>> numbers(const Value& value, Exact exact) {
  const Array* array = value.as_array();
  if (array == nullptr || value.element == Kind::boolean) return std::nullopt;
  std::optional<std::vector<To>> out;
  const auto convert = [&](const auto& from) {
    for (const auto v : from) {
      if (!exact(v)) return;
    }
    out.emplace(from.begin(), from.end());
  };
  if (const auto* v = std::get_if<std::vector<int64_t>>(array)) convert(*v);
  if (const auto* v = std::get_if<std::vector<uint64_t>>(array)) convert(*v);
  if constexpr (std::is_same_v<To, double>) {
    if (const auto* v = std::get_if<std::vector<double>>(array)) convert(*v);
  }
  return out;
}

struct FitsInt64 {
  bool operator()(int64_t) const { return true; }
  bool operator()(uint64_t v) const { return v <= uint64_t{INT64_MAX}; }
};

}  // namespace

Result<uint64_t> File::get_uint(std::string_view key) const {
  return scalar<uint64_t>(*this, key, "a count", [](const Value& v) { return v.as_uint(); });
}

Result<double> File::get_float(std::string_view key) const {
  return scalar<double>(*this, key, "a number", [](const Value& v) { return v.as_float(); });
}

Result<bool> File::get_bool(std::string_view key) const {
  return scalar<bool>(*this, key, "a boolean", [](const Value& v) { return v.as_bool(); });
}

Result<std::string> File::get_string(std::string_view key) const {
  return scalar<std::string>(*this, key, "a string", [](const Value& v) {
    const std::string* text = v.as_string();
    return text != nullptr ? std::optional(*text) : std::nullopt;
  });
}

Result<std::vector<std::string>> File::get_strings(std::string_view key) const {
  using Strings = std::vector<std::string>;
  return scalar<Strings>(*this, key, "an array of strings", [](const Value& v) {
    const Array* array = v.as_array();
    const auto* strings = array != nullptr ? std::get_if<Strings>(array) : nullptr;
    return strings != nullptr ? std::optional(*strings) : std::nullopt;
  });
}

Result<std::vector<int64_t>> File::get_ints(std::string_view key) const {
  return scalar<std::vector<int64_t>>(*this, key, "an array of integers",
                                      [](const Value& v) { return numbers<int64_t>(v, FitsInt64{}); });
}

Result<std::vector<double>> File::get_floats(std::string_view key) const {
  return scalar<std::vector<double>>(*this, key, "an array of numbers",
                                     [](const Value& v) { return numbers<double>(v, [](auto) { return true; }); });
}

}  // namespace sluice::gguf
