// Writes one JSON value as text: valid whatever the strings hold (bytes that are not UTF-8 become U+FFFD).
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace sluice::cli {

class JsonWriter {
 public:
  JsonWriter& open(char bracket);  // '{' or '['
  JsonWriter& close();             // the innermost open one
  JsonWriter& key(std::string_view name);
  JsonWriter& value(std::string_view text);
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  JsonWriter& value(double number);  // null where it is not finite
  JsonWriter& value(float number);   // the shortest text that reads back as this float
  template <class T>
  requires std::is_integral_v<T> JsonWriter& value(T number) {
    if constexpr (std::is_same_v<T, bool>)
      return raw(number ? "true" : "false");
    else
      return raw(std::to_string(number));
  }
  template <class T>
  JsonWriter& field(std::string_view name, const T& v) {
    return key(name).value(v);
  }
  template <class T>
  JsonWriter& list(const T& values) {
    open('[');
    for (const auto& v : values) value(v);
    return close();
  }
  // The text, with a line end.
  std::string take() { return std::move(out_ += '\n'); }

 private:
  JsonWriter& raw(std::string_view text);
  void separate();

  std::string out_, open_;
  bool first_ = true, after_key_ = false;
};

}  // namespace sluice::cli
