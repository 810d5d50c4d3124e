// Filters, tests, methods and global functions by name.
#pragma once
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/value.h"

namespace sluice::text::jinja {

// nullptr where there is none of the name.
Builtin find_filter(std::string_view name);
Builtin find_test(std::string_view name);
Builtin find_method(const Value& self, std::string_view name);
Builtin find_global(std::string_view name);
// Methods that would change a list or dict: the templates' environment forbids them.
bool is_mutator(const Value& self, std::string_view name);

// Arguments by position or name; nullptr for those that were not given.
class Params {
 public:
  static Result<Params> bind(std::string_view function, const Arguments& arguments,
                             std::initializer_list<std::string_view> names);
  const Value* operator[](size_t i) const { return values_[i]; }
  bool flag(size_t i, bool otherwise) const { return values_[i] == nullptr ? otherwise : values_[i]->truth(); }
  Result<int64_t> whole(size_t i, int64_t otherwise) const;
  Result<std::string> text(size_t i, std::string_view otherwise) const;

 private:
  std::string_view function_;
  std::vector<const Value*> values_;
};

// The only argument, a string.
Result<std::string> only_text(std::string_view function, const Arguments& arguments, std::string_view name);
// The string that a method or filter works on, or an Error.
Result<std::string_view> text_of(const Value& value, std::string_view function);

// Operators.
Result<Value> arithmetic(Renderer& renderer, uint8_t op, const Value& a, const Value& b);
Result<bool> contains(Renderer& renderer, const Value& item, const Value& container);
Result<Value> slice_of(Renderer& renderer, const Value& value, const Value* start, const Value* stop,
                       const Value* step);
// "%s and %d" % (a, b), and "{} and {name}".format(...).
Result<Value> percent_format(Renderer& renderer, const Value& format, const std::vector<Value>& values);
Result<Value> brace_format(Renderer& renderer, const Value& format, Arguments& arguments);
Result<std::string> strftime_text(Renderer& renderer, std::string_view format);
// text.replace(from, to), at most `count` times where that is not negative.
Result<std::string> replaced(Budget& budget, std::string_view text, std::string_view from, std::string_view to,
                             int64_t count);
// What int() and float() read; false where the text is no number.
bool read_whole(std::string_view text, int64_t& out);
bool read_real(std::string_view text, double& out);

}  // namespace sluice::text::jinja
