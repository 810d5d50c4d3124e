#include "text/jinja/lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/text.h"
#include "text/jinja/python_text.h"
#include "text/utf8.h"

namespace sluice::text::jinja {
namespace {

using Kind = Token::Kind;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || static_cast<unsigned char>(c) >= 0x80;
}

// Every line end becomes \n, and one at the end of the text is dropped.
std::string with_plain_line_ends(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\r' && i + 1 < text.size() && text[i + 1] == '\n') continue;
    out += text[i] == '\r' ? '\n' : text[i];
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string_view text) : held_(with_plain_line_ends(text)), text_(held_) {}

  Result<std::vector<Token>> run() {
    while (at_ < text_.size()) TRY(data());
    push(Kind::end);
    return std::move(tokens_);
  }

 private:
  bool looking_at(std::string_view what) const { return text_.substr(at_).starts_with(what); }
  char here(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  void advance(size_t n) {
    line_ += static_cast<uint32_t>(std::count(text_.begin() + at(), text_.begin() + at(n), '\n'));
    at_ += n;
  }
  std::ptrdiff_t at(size_t ahead = 0) const { return static_cast<std::ptrdiff_t>(at_ + ahead); }
  void push(Kind kind, std::string text = {}) { tokens_.push_back({kind, line_, std::move(text)}); }
  void skip_space() { advance(text_.size() - at_ - strip(text_.substr(at_), nullptr, true, false).size()); }

  // Plain text up to the next tag, and the tag.
  Result<void> data() {
    size_t open = at_;
    for (; open < text_.size(); ++open)
      if (text_[open] == '{' && open + 1 < text_.size() && std::string_view("%{#").find(text_[open + 1]) != text_.npos)
        break;
    const bool found = open < text_.size();
    const char tag = found ? text_[open + 1] : '\0', sign = found && open + 2 < text_.size() ? text_[open + 2] : '\0';
    std::string_view plain = text_.substr(at_, open - at_);
    if (found && sign == '-')
      plain = strip(plain, nullptr, false, true);
    else if (found && sign != '+' && tag != '{')
      plain = without_indent(plain);
    if (!plain.empty()) push(Kind::data, std::string(plain));
    advance(open - at_);
    if (!found) return {};
    advance(sign == '-' || sign == '+' ? 3 : 2);
    if (tag == '#') return comment();
    if (tag == '%' && TRY(raw())) return {};
    push(tag == '%' ? Kind::block_begin : Kind::print_begin);
    return inside(tag == '%');
  }

  // A block or comment that stands first on its line takes the blanks before it away.
  std::string_view without_indent(std::string_view plain) const {
    const size_t line = plain.rfind('\n') + 1;
    if (line == 0 && !line_starting_) return plain;
    return strip(plain.substr(line), nullptr, true, false).empty() ? plain.substr(0, line) : plain;
  }

  // After the end mark of a tag.
  void after_tag(char sign, bool trims_line_end) {
    const size_t before = at_;
    if (sign == '-')
      skip_space();
    else if (sign != '+' && trims_line_end && here() == '\n')
      advance(1);
    line_starting_ = at_ > before && text_[at_ - 1] == '\n';
  }

  Result<void> comment() {
    const uint32_t line = line_;
    const size_t end = text_.find("#}", at_);
    if (end == text_.npos) return syntax_error(line, "a comment has no end");
    const char sign = end > at_ ? text_[end - 1] : '\0';
    advance(end + 2 - at_);
    after_tag(sign, true);
    return {};
  }

  // {% raw %} ... {% endraw %}, of which the beginning "{%" is read. False: it is another tag.
  Result<bool> raw() {
    const size_t before = at_;
    const uint32_t line = line_;
    const auto is_tag = [&](std::string_view name, char& sign) {
      skip_space();
      if (!looking_at(name)) return false;
      advance(name.size());
      skip_space();
      sign = here();
      if (sign == '-' || sign == '+') advance(1);
      if (!looking_at("%}")) return false;
      advance(2);
      return true;
    };
    char sign = '\0';
    if (!is_tag("raw", sign)) {
      at_ = before;
      line_ = line;
      return false;
    }
    if (sign == '-') skip_space();
    const size_t first = at_;
    for (size_t open = text_.find("{%", at_); open != text_.npos; open = text_.find("{%", open + 1)) {
      advance(open + 2 - at_);
      const char begin_sign = here();
      if (begin_sign == '-' || begin_sign == '+') advance(1);
      const size_t resume = at_;
      if (!is_tag("endraw", sign)) {
        at_ = resume;
        continue;
      }
      std::string_view plain = text_.substr(first, open - first);
      if (begin_sign == '-')
        plain = strip(plain, nullptr, false, true);
      else if (begin_sign != '+')
        plain = without_indent(plain);
      if (!plain.empty()) push(Kind::data, std::string(plain));
      after_tag(sign, true);
      return true;
    }
    return syntax_error(line, "a raw block has no end");
  }

  Result<void> inside(bool block) {
    const std::string_view end = block ? "%}" : "}}";
    const uint32_t line = line_;
    std::string open;  // brackets
    for (;;) {
      skip_space();
      if (at_ >= text_.size()) return syntax_error(line, block ? "a {% has no %}" : "a {{ has no }}");
      const bool signed_end = (here() == '-' || (block && here() == '+')) && text_.substr(at_ + 1).starts_with(end);
      if (open.empty() && (signed_end || looking_at(end))) {
        const char sign = signed_end ? here() : '\0';
        push(block ? Kind::block_end : Kind::print_end);
        advance(signed_end ? 3 : 2);
        after_tag(sign, block);
        return {};
      }
      TRY(token(open));
    }
  }

  Result<void> token(std::string& open) {
    const char c = here();
    if (is_digit(c)) return number();
    if (c == '"' || c == '\'') return string(c);
    if (is_name_start(c)) {
      size_t n = 1;
      while (is_name_start(here(n)) || is_digit(here(n))) ++n;
      push(Kind::name, std::string(text_.substr(at_, n)));
      advance(n);
      return {};
    }
    for (const std::string_view op : {"//", "**", "==", "!=", ">=", "<="})
      if (looking_at(op)) {
        push(Kind::op, std::string(op));
        advance(2);
        return {};
      }
    if (std::string_view("+-*/%~[](){}<>=.:|,;").find(c) == text_.npos || c == '\0')
      return syntax_error(line_, fmt::format("unexpected '{}'", printable(text_.substr(at_, 1))));
    if (std::string_view("([{").find(c) != text_.npos) open += c == '(' ? ')' : c == '[' ? ']' : '}';
    if (std::string_view(")]}").find(c) != text_.npos) {
      if (!open.ends_with(c)) return syntax_error(line_, fmt::format("unexpected '{}'", c));
      open.pop_back();
    }
    push(Kind::op, std::string(1, c));
    advance(1);
    return {};
  }

  // Digits of one kind, single underscores between them.
  template <class IsDigit>
  size_t digits_at(size_t from, IsDigit is) const {
    size_t n = from;
    while (is(here(n)) || (here(n) == '_' && n > from && is(here(n + 1)))) ++n;
    return n;
  }
  void push_number(Kind kind, size_t n) {
    std::string digits(text_.substr(at_, n));
    std::erase(digits, '_');
    push(kind, std::move(digits));
    advance(n);
  }

  Result<void> number() {
    const char base = here() == '0' ? static_cast<char>(here(1) | 0x20) : '\0';
    if (base == 'x' || base == 'o' || base == 'b') {
      const size_t n = digits_at(2, is_hex);
      int64_t value = 0;
      std::string digits(text_.substr(at_ + 2, n - 2));
      std::erase(digits, '_');
      const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value,
                                                base == 'x'   ? 16
                                                : base == 'o' ? 8
                                                              : 2);
      if (error != std::errc() || end != digits.data() + digits.size())
        return syntax_error(line_, "a number is not valid");
      push(Kind::integer, std::to_string(value));
      advance(n);
      return {};
    }
    size_t n = digits_at(0, is_digit);
    bool real = false;
    // a.0.b is no number: what follows a dot is an index
    const bool after_dot = !tokens_.empty() && tokens_.back().is(Kind::op, ".");
    if (!after_dot && here(n) == '.' && is_digit(here(n + 1))) n = digits_at(n + 1, is_digit), real = true;
    if (!after_dot && (here(n) | 0x20) == 'e') {
      const size_t sign = here(n + 1) == '+' || here(n + 1) == '-' ? 1 : 0;
      if (is_digit(here(n + 1 + sign))) n = digits_at(n + 1 + sign, is_digit), real = true;
    }
    push_number(real ? Kind::real : Kind::integer, n);
    return {};
  }

  Result<void> string(char quote) {
    const uint32_t line = line_;
    size_t n = 1;
    while (at_ + n < text_.size() && text_[at_ + n] != quote) n += text_[at_ + n] == '\\' ? 2 : 1;
    if (at_ + n >= text_.size()) return syntax_error(line, "a string has no end");
    push(Kind::string, TRY(unescaped(text_.substr(at_ + 1, n - 1))));
    advance(n + 1);
    return {};
  }

  Result<std::string> unescaped(std::string_view s) const {
    std::string out;
    for (size_t i = 0; i < s.size();) {
      if (s[i] != '\\' || i + 1 >= s.size()) {
        out += s[i++];
        continue;
      }
      const char c = s[i + 1];
      i += 2;
      constexpr std::string_view kLetters = "\\'\"abfnrtv", kMeaning = "\\'\"\a\b\f\n\r\t\v";
      if (const size_t k = kLetters.find(c); k != kLetters.npos) {
        out += kMeaning[k];
      } else if (c == 'x' || c == 'u' || c == 'U') {
        const size_t n = c == 'x' ? 2 : c == 'u' ? 4 : 8;
        TRY(add_code_point(out, s.substr(i, n), n, 16));
        i += n;
      } else if (c >= '0' && c <= '7') {
        size_t n = 1;
        while (n < 3 && i - 1 + n < s.size() && s[i - 1 + n] >= '0' && s[i - 1 + n] <= '7') ++n;
        TRY(add_code_point(out, s.substr(i - 1, n), n, 8));
        i += n - 1;
      } else if (c == 'N') {
        return syntax_error(line_, "characters by name, \\N{...}, are not known; write \\u....");
      } else if (c != '\n') {
        out += '\\';
        out += c;
      }
    }
    return out;
  }
  Result<void> add_code_point(std::string& out, std::string_view digits, size_t n, int base) const {
    uint32_t code = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), code, base);
    if (digits.size() != n || error != std::errc() || end != digits.data() + n || code > 0x10ffff)
      return syntax_error(line_, "an escape in a string is not valid");
    if (code >= 0xd800 && code < 0xe000) return syntax_error(line_, "a string has half of a surrogate pair");
    utf8_append(out, code);
    return {};
  }

  const std::string held_;
  const std::string_view text_;
  size_t at_ = 0;
  uint32_t line_ = 1;
  bool line_starting_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

Result<std::vector<Token>> tokens_of(std::string_view text) { return Lexer(text).run(); }

}  // namespace sluice::text::jinja
