#include <fmt/format.h>

#include <cmath>

#include "gguf/parse.h"
#include "sluice/gguf.h"

namespace sluice::gguf {
namespace {

template <class T>
Value array_of(Kind element, std::vector<T> v) {
  Value value;
  value.kind = Kind::array;
  value.element = element;
  value.data = Array(std::move(v));
  return value;
}

template <class T>
Value scalar_of(Kind kind, T v) {
  Value value;
  value.kind = kind;
  value.data = std::move(v);
  return value;
}

}  // namespace

std::string_view kind_name(Kind kind) {
  static constexpr std::string_view kNames[] = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                                "bool", "string", "array", "u64", "i64", "f64"};
  const auto at = static_cast<size_t>(kind);
  return at < std::size(kNames) ? kNames[at] : "unknown";
}

uint32_t kind_bytes(Kind kind) {
  switch (kind) {
    case Kind::u8:
    case Kind::i8:
    case Kind::boolean:
      return 1;
    case Kind::u16:
    case Kind::i16:
      return 2;
    case Kind::u32:
    case Kind::i32:
    case Kind::f32:
      return 4;
    case Kind::u64:
    case Kind::i64:
    case Kind::f64:
      return 8;
    case Kind::string:
    case Kind::array:
      return 0;
  }
  return 0;
}

Value Value::of(bool v) { return scalar_of(Kind::boolean, uint64_t{v}); }
Value Value::of(uint32_t v) { return scalar_of(Kind::u32, uint64_t{v}); }
Value Value::of(int32_t v) { return scalar_of(Kind::i32, int64_t{v}); }
Value Value::of(uint64_t v) { return scalar_of(Kind::u64, v); }
Value Value::of(int64_t v) { return scalar_of(Kind::i64, v); }
Value Value::of(float v) { return scalar_of(Kind::f32, double{v}); }
Value Value::of(double v) { return scalar_of(Kind::f64, v); }
Value Value::of(std::string v) { return scalar_of(Kind::string, std::move(v)); }
Value Value::of(const char* v) { return of(std::string(v)); }
Value Value::of(std::vector<std::string> v) { return array_of(Kind::string, std::move(v)); }
Value Value::of(std::vector<uint32_t> v) { return array_of(Kind::u32, std::vector<uint64_t>(v.begin(), v.end())); }
Value Value::of(std::vector<int32_t> v) { return array_of(Kind::i32, std::vector<int64_t>(v.begin(), v.end())); }
Value Value::of(std::vector<float> v) { return array_of(Kind::f32, std::vector<double>(v.begin(), v.end())); }

std::optional<uint64_t> Value::as_uint() const {
  if (kind == Kind::boolean) return std::nullopt;
  if (const auto* v = std::get_if<uint64_t>(&data)) return *v;
  if (const auto* v = std::get_if<int64_t>(&data); v != nullptr && *v >= 0) return static_cast<uint64_t>(*v);
  if (const auto* v = std::get_if<double>(&data); v != nullptr && *v >= 0 && *v < 0x1p64 && std::trunc(*v) == *v) {
    return static_cast<uint64_t>(*v);
  }
  return std::nullopt;
}

std::optional<int64_t> Value::as_int() const {
  if (kind == Kind::boolean) return std::nullopt;
  if (const auto* v = std::get_if<int64_t>(&data)) return *v;
  if (const auto* v = std::get_if<uint64_t>(&data); v != nullptr && *v <= uint64_t{INT64_MAX}) {
    return static_cast<int64_t>(*v);
  }
  if (const auto* v = std::get_if<double>(&data);
      v != nullptr && *v >= -0x1p63 && *v < 0x1p63 && std::trunc(*v) == *v) {
    return static_cast<int64_t>(*v);
  }
  return std::nullopt;
}

std::optional<double> Value::as_float() const {
  if (kind == Kind::boolean) return std::nullopt;
  if (const auto* v = std::get_if<double>(&data)) return *v;
  if (const auto* v = std::get_if<uint64_t>(&data)) return static_cast<double>(*v);
  if (const auto* v = std::get_if<int64_t>(&data)) return static_cast<double>(*v);
  return std::nullopt;
}

std::optional<bool> Value::as_bool() const {
  const auto* v = std::get_if<uint64_t>(&data);
  if (kind != Kind::boolean || v == nullptr) return std::nullopt;
  return *v != 0;
}

const std::string* Value::as_string() const { return std::get_if<std::string>(&data); }

const Array* Value::as_array() const { return std::get_if<Array>(&data); }

size_t Value::array_size() const {
  const Array* array = as_array();
  return array == nullptr ? 0 : std::visit([](const auto& v) { return v.size(); }, *array);
}

}  // namespace sluice::gguf
