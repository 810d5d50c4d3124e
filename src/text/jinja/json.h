// JSON in and out, as Python's json module reads and writes it.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "text/jinja/value.h"

namespace sluice::text::jinja {

// `what` names the text in messages.
Result<Value> read_json(Budget& budget, std::string_view text, std::string_view what);

struct JsonStyle {
  bool ascii = false, sort_keys = false;
  std::optional<std::string> indent;  // of one level; none: all on one line
  std::optional<std::string> item_separator, key_separator;
};
Result<std::string> write_json(Budget& budget, const Value& value, const JsonStyle& style);

}  // namespace sluice::text::jinja
