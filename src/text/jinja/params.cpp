#include <fmt/format.h>

#include <algorithm>

#include "text/jinja/builtins.h"
#include "text/jinja/python_text.h"

namespace sluice::text::jinja {

Result<Params> Params::bind(std::string_view function, const Arguments& arguments,
                            std::initializer_list<std::string_view> names) {
  Params out;
  out.function_ = function;
  out.values_.resize(names.size());
  if (arguments.values.size() > names.size())
    return failure(fmt::format("{}() takes at most {} argument(s)", function, names.size()));
  for (size_t i = 0; i < arguments.values.size(); ++i) out.values_[i] = &arguments.values[i];
  for (const auto& [name, value] : arguments.named) {
    const auto at = std::find(names.begin(), names.end(), name);
    const size_t i = static_cast<size_t>(at - names.begin());
    if (at == names.end() || out.values_[i] != nullptr)
      return failure(fmt::format("{}() has no use for an argument '{}'", function, name));
    out.values_[i] = &value;
  }
  return out;
}

Result<int64_t> Params::whole(size_t i, int64_t otherwise) const {
  if (values_[i] == nullptr) return otherwise;
  if (values_[i]->is_whole()) return values_[i]->whole();
  return failure(fmt::format("{}() wants a whole number, not '{}'", function_, values_[i]->type_name()));
}

Result<std::string> Params::text(size_t i, std::string_view otherwise) const {
  if (values_[i] == nullptr) return std::string(otherwise);
  if (values_[i]->is(Value::Kind::string)) return values_[i]->text();
  return failure(fmt::format("{}() wants a string, not '{}'", function_, values_[i]->type_name()));
}

Result<std::string> only_text(std::string_view function, const Arguments& arguments, std::string_view name) {
  const Params p = TRY(Params::bind(function, arguments, {name}));
  return p.text(0, "");
}

Result<std::string_view> text_of(const Value& value, std::string_view function) {
  if (value.is(Value::Kind::string)) return std::string_view(value.text());
  return failure(fmt::format("{}() wants a string, not '{}'", function, value.type_name()));
}

Result<std::string> replaced(Budget& budget, std::string_view text, std::string_view from, std::string_view to,
                             int64_t count) {
  Builder out(budget);
  uint64_t left = count < 0 ? UINT64_MAX : static_cast<uint64_t>(count);
  TRY(budget.spend_search(text.size(), from.size()));
  if (from.empty()) {  // before every character, and at the end
    for (const std::string_view c : TRY(counted_characters(budget, text))) {
      if (left != 0) out.add(to), --left;
      out.add(c);
    }
    if (left != 0) out.add(to);
    return out.take();
  }
  for (size_t at = text.find(from); at != text.npos && left != 0 && !out.over(); at = text.find(from), --left) {
    out.add(text.substr(0, at)).add(to);
    text.remove_prefix(at + from.size());
  }
  return out.add(text).take();
}

}  // namespace sluice::text::jinja
