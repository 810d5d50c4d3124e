// The command line as users of this field write it: -ngl is one option and not three letters, a value is the next
// argument or follows '='. What is wrong with it is an `invalid_argument` (exit code 2).
#pragma once
#include <fmt/format.h>

#include <charconv>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <vector>

#include "sluice/result.h"

namespace sluice::cli {

using Strings = std::vector<std::string>;

inline Error usage_error(std::string message) { return {Code::invalid_argument, std::move(message)}; }

// A number that takes up the whole text and lies in [min, max].
template <class T>
Result<T> parse_number(std::string_view option, std::string_view text, T min, T max) {
  T value{};
  if (text.size() > 1 && text[0] == '+') text.remove_prefix(1);
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if constexpr (std::is_floating_point_v<T>) {
    // A number too small for the type is 0, one too large stays an error.
    if (error == std::errc::result_out_of_range && text.find_first_of("eE") != text.npos &&
        text.substr(text.find_first_of("eE") + 1).starts_with('-'))
      value = 0, error = std::errc();
  }
  if (error != std::errc() || end != text.data() + text.size() || !(value >= min && value <= max))
    return usage_error(fmt::format("{} needs a number from {} to {}; see --help", option, min, max));
  return value;
}

// "1,8,32"
Result<std::vector<uint32_t>> parse_list(std::string_view option, std::string_view text, uint32_t min, uint32_t max);

// The one of `words` that `word` was probably meant to be; empty where none is near.
std::string nearest(std::string_view word, const Strings& words);

class Args {
 public:
  // `usage`: what follows "sluice "; `about`: what the command does, some lines.
  Args(std::string usage, std::string about) : usage_(std::move(usage)), about_(std::move(about)) {}

  using Apply = std::function<Result<void>(std::string_view value)>;

  // Options added from here on are listed under `title`.
  void group(std::string title) { group_ = std::move(title); }
  // `names` separated by commas, the first as users know it: "-c,--ctx-size". `value` names the value in the help.
  // An empty `help` leaves the option out of it.
  void option(std::string_view names, std::string value, std::string help, Apply apply);
  void flag(std::string_view names, bool& target, std::string help);
  void text(std::string_view names, std::string value, std::string& target, std::string help);
  template <class T>
  void number(std::string_view names, const std::string& value, T& target, T min, T max, const std::string& help) {
    option(names, value, help, [&target, min, max, name = last_name(names)](std::string_view v) -> Result<void> {
      target = TRY(parse_number<T>(name, v, min, max));
      return {};
    });
  }
  // Known, but of a later version: refused, never ignored.
  void later(std::string_view names, bool takes_value);
  // Pasted from another program's line: accepted with a note. `optional_values`: words taken as its value if they
  // follow.
  void ignored(std::string_view names, bool takes_value, Strings optional_values = {});

  // False where --help or --version was asked for and printed.
  Result<bool> parse(std::span<const std::string> argv);
  // Arguments that are no options, in order.
  Strings& rest() { return rest_; }
  // Names of the ignored options that were given.
  const Strings& given_ignored() const { return given_ignored_; }
  std::string help() const;

 private:
  struct Option {
    Strings names;
    std::string value, help, group;
    Apply apply;
    Strings optional_values;
  };
  static std::string last_name(std::string_view names);
  const Option* find(std::string_view name) const;
  Error unknown(std::string_view name) const;

  std::string usage_, about_, group_ = "Options";
  std::vector<Option> options_;
  Strings rest_, given_ignored_;
};

}  // namespace sluice::cli
