#include "cli/json_writer.h"

#include <fmt/format.h>

#include <cmath>

#include "base/text.h"

namespace sluice::cli {

void JsonWriter::separate() {
  if (!after_key_ && !first_) out_ += ", ";
  first_ = after_key_ = false;
}

JsonWriter& JsonWriter::raw(std::string_view text) {
  separate();
  out_ += text;
  return *this;
}

JsonWriter& JsonWriter::open(char bracket) {
  separate();
  out_ += bracket;
  open_ += bracket == '{' ? '}' : ']';
  first_ = true;
  return *this;
}

JsonWriter& JsonWriter::close() {
  out_ += open_.back();
  open_.pop_back();
  first_ = false;
  return *this;
}

JsonWriter& JsonWriter::key(std::string_view name) {
  value(name);
  out_ += ": ";
  after_key_ = true;
  return *this;
}

JsonWriter& JsonWriter::value(double number) { return raw(std::isfinite(number) ? fmt::format("{}", number) : "null"); }

JsonWriter& JsonWriter::value(float number) { return raw(std::isfinite(number) ? fmt::format("{}", number) : "null"); }

JsonWriter& JsonWriter::value(std::string_view text) {
  separate();
  out_ += '"';
  for (size_t at = 0; at < text.size();) {
    char32_t code = 0;
    const size_t length = utf8_length(text, at, &code);
    const char c = text[at];
    if (length == 0) {
      out_ += "\\ufffd";
    } else if (c == '"' || c == '\\') {
      out_ += {'\\', c};
    } else if (code < 0x20 || (code >= 0x7f && code < 0xa0)) {
      out_ += fmt::format("\\u{:04x}", static_cast<uint32_t>(code));
    } else {
      out_ += text.substr(at, length);
    }
    at += length == 0 ? 1 : length;
  }
  out_ += '"';
  return *this;
}

}  // namespace sluice::cli
