// What Python's strings do, on UTF-8. A byte that belongs to no character counts as a character of its own.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/value.h"

namespace sluice::text::jinja {

// The list is larger than the text: both its memory and, per character, its steps are asked for.
Result<std::vector<std::string_view>> counted_characters(Budget& budget, std::string_view text);
size_t n_characters(std::string_view text);

bool is_space(std::string_view character);
enum class CharacterClass : uint8_t { printable, letter, digit, upper, lower };
bool in_class(std::string_view character, CharacterClass which);

// `chars`: the characters to take away; nullptr: white space.
std::string_view strip(std::string_view text, const std::string* chars, bool left, bool right);

enum class Case : uint8_t { upper, lower };
// One character for one (but for the sharp s).
Result<std::string> counted_in_case(Budget& budget, std::string_view text, Case which);
std::string in_case(std::string_view text, Case which);
// The first character in upper case, the others in lower case.
Result<std::string> capitalized(Budget& budget, std::string_view text);

// As repr() writes them: the shortest digits that read back.
std::string float_text(double number);

std::string html_escaped(std::string_view text);

// A text that grows no further than the memory allows.
class Builder {
 public:
  explicit Builder(Budget& budget) : budget_(budget) {}
  Builder& add(std::string_view text) {
    if (!over_) text_ += text;
    if (text_.size() > kCheck) over_ = over_ || !budget_.room(text_.size());
    return *this;
  }
  // For work that is not seen by the length.
  void spend(uint64_t n) { over_ = over_ || !budget_.spend(n); }
  bool over() const { return over_; }
  Result<std::string> take() {
    if (over_) TRY(budget_.room(text_.size()));
    TRY(budget_.spend(1 + text_.size() / 64));
    return std::move(text_);
  }

 private:
  static constexpr size_t kCheck = 4096;
  Budget& budget_;
  std::string text_;
  bool over_ = false;
};

// str() and repr().
Result<std::string> str(Budget& budget, const Value& value);
Result<std::string> repr(Budget& budget, const Value& value);

}  // namespace sluice::text::jinja
