#include "text/jinja/python_text.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <pcre2.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "text/utf8.h"

namespace sluice::text::jinja {
namespace {

struct CodeFree {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct MatchFree {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};
using Code = std::unique_ptr<pcre2_code, CodeFree>;

Code compiled(const char* pattern) {
  int error = 0;
  size_t at = 0;
  return Code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern), PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_DOTALL,
                            &error, &at, nullptr));
}

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

char ascii_in_case(char c, Case which) {
  if (which == Case::upper) return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
}

void add_ascii_in_case(std::string& out, std::string_view text, Case which) {
  for (const char c : text) out += ascii_in_case(c, which);
}

// Well-formed text. Empty where the library cannot.
std::string unicode_in_case(std::string_view text, Case which) {
  static const Code kAll = compiled(".+");
  const std::string_view how = which == Case::upper ? "\\U$0" : "\\L$0";
  const std::unique_ptr<pcre2_match_data, MatchFree> match(pcre2_match_data_create(1, nullptr));
  std::string out(text.size() * 2 + 16, '\0');
  for (int attempt = 0; attempt < 2; ++attempt) {
    size_t n = out.size();
    const int rc = pcre2_substitute(kAll.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), 0,
                                    PCRE2_SUBSTITUTE_EXTENDED | PCRE2_SUBSTITUTE_OVERFLOW_LENGTH, match.get(), nullptr,
                                    reinterpret_cast<PCRE2_SPTR>(how.data()), how.size(),
                                    reinterpret_cast<PCRE2_UCHAR*>(out.data()), &n);
    if (rc >= 0) {
      out.resize(n);
      return out;
    }
    if (rc != PCRE2_ERROR_NOMEMORY) break;
    out.resize(n);
  }
  return {};
}

std::string with_sharp_s_as_ss(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size(); ++at) {
    const bool sharp = text.substr(at).starts_with("\u00DF");
    out += sharp ? std::string_view("SS") : text.substr(at, 1);
    at += sharp ? 1 : 0;
  }
  return out;
}

}  // namespace

Result<std::vector<std::string_view>> counted_characters(Budget& budget, std::string_view text) {
  TRY(budget.room(text.size() * sizeof(std::string_view)));
  TRY(budget.spend(text.size()));
  std::vector<std::string_view> out;
  while (!text.empty()) {
    const size_t n = utf8_step(text).n_bytes;
    out.push_back(text.substr(0, n));
    text.remove_prefix(n);
  }
  return out;
}

size_t n_characters(std::string_view text) {
  size_t n = 0;
  for (; !text.empty(); ++n) text.remove_prefix(utf8_step(text).n_bytes);
  return n;
}

bool is_space(std::string_view character) {
  if (utf8_step(character).kind != Utf8Kind::character) return false;
  const uint32_t c = utf8_decode(character);
  return (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

bool in_class(std::string_view character, CharacterClass which) {
  static const Code kCodes[] = {compiled("[^\\p{C}\\p{Z}]| "), compiled("\\p{L}"), compiled("\\p{Nd}"),
                                compiled("\\p{Lu}"), compiled("\\p{Ll}")};
  thread_local const std::unique_ptr<pcre2_match_data, MatchFree> match(pcre2_match_data_create(1, nullptr));
  if (utf8_step(character).kind != Utf8Kind::character) return false;
  return pcre2_match(kCodes[static_cast<size_t>(which)].get(), reinterpret_cast<PCRE2_SPTR>(character.data()),
                     character.size(), 0, 0, match.get(), nullptr) > 0;
}

std::string_view strip(std::string_view text, const std::string* chars, bool left, bool right) {
  const auto goes = [&](std::string_view c) {
    // A character's bytes are found in a text only where that has the character.
    return chars == nullptr ? is_space(c) : chars->find(c) != chars->npos;
  };
  while (left && !text.empty()) {
    const std::string_view first = text.substr(0, utf8_step(text).n_bytes);
    if (!goes(first)) break;
    text.remove_prefix(first.size());
  }
  while (right && !text.empty()) {
    // The last character: the longest end of up to four bytes that is one.
    size_t n = 1;
    for (size_t k = 2; k <= 4 && k <= text.size(); ++k) {
      const Utf8Step step = utf8_step(text.substr(text.size() - k));
      if (step.kind == Utf8Kind::character && step.n_bytes == k) n = k;
    }
    if (!goes(text.substr(text.size() - n))) break;
    text.remove_suffix(n);
  }
  return text;
}

std::string in_case(std::string_view text, Case which) {
  std::string out;
  if (is_ascii(text) || utf8_valid_prefix(text) != text.size()) {
    add_ascii_in_case(out, text, which);
    return out;
  }
  if (which == Case::upper && text.find("\u00DF") != text.npos) {
    const std::string without = with_sharp_s_as_ss(text);
    out = unicode_in_case(without, which);
  } else {
    out = unicode_in_case(text, which);
  }
  if (out.empty()) add_ascii_in_case(out, text, which);
  return out;
}

Result<std::string> counted_in_case(Budget& budget, std::string_view text, Case which) {
  TRY(budget.spend(text.size() / 8));
  return in_case(text, which);
}

Result<std::string> capitalized(Budget& budget, std::string_view text) {
  if (text.empty()) return std::string();
  const size_t n = utf8_step(text).n_bytes;
  const std::string rest = TRY(counted_in_case(budget, text.substr(n), Case::lower));
  return in_case(text.substr(0, n), Case::upper) + rest;
}

std::string float_text(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number < 0 ? "-inf" : "inf";
  char buffer[40];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, number, std::chars_format::scientific).ptr;
  const std::string_view all(buffer, static_cast<size_t>(end - buffer));
  const size_t e = all.find('e');
  int exponent = 0;
  const size_t digits_at = e + (all[e + 1] == '+' ? 2 : 1);
  std::from_chars(all.data() + digits_at, end, exponent);
  if (exponent < -4 || exponent >= 16) return std::string(all);
  std::string digits;
  for (const char c : all.substr(0, e))
    if (c >= '0' && c <= '9') digits += c;
  std::string out = all[0] == '-' ? "-" : "";
  if (exponent < 0) return out + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  const size_t n_whole = static_cast<size_t>(exponent) + 1;
  if (digits.size() <= n_whole) return out + digits + std::string(n_whole - digits.size(), '0') + ".0";
  return out + digits.substr(0, n_whole) + "." + digits.substr(n_whole);
}

std::string html_escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&#34;";
    else if (c == '\'')
      out += "&#39;";
    else
      out += c;
  }
  return out;
}

namespace {

std::string escape_of(std::string_view c) {
  if (c == "\n") return "\\n";
  if (c == "\r") return "\\r";
  if (c == "\t") return "\\t";
  if (c == "\\") return "\\\\";
  if (utf8_step(c).kind != Utf8Kind::character) {
    std::string out;
    for (const char byte : c) out += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
    return out;
  }
  const uint32_t code = utf8_decode(c);
  if (code < 0x100) return fmt::format("\\x{:02x}", code);
  return code < 0x10000 ? fmt::format("\\u{:04x}", code) : fmt::format("\\U{:08x}", code);
}

void add_quoted(Builder& out, std::string_view text) {
  const bool doubled = text.find('\'') != text.npos && text.find('"') == text.npos;
  const char quote = doubled ? '"' : '\'';
  const std::string_view mark(&quote, 1);
  out.add(mark);
  while (!text.empty() && !out.over()) {
    const std::string_view c = text.substr(0, utf8_step(text).n_bytes);
    text.remove_prefix(c.size());
    if (c.size() > 1) out.spend(1);
    const bool plain = c.size() == 1 ? c[0] >= 0x20 && c[0] < 0x7f : in_class(c, CharacterClass::printable);
    if (c == mark)
      out.add("\\").add(c);
    else if (plain && c != "\\")
      out.add(c);
    else
      out.add(escape_of(c));
  }
  out.add(mark);
}

void add_repr(Builder& out, const Value& value);

void add_list(Builder& out, const List& list) {
  const bool tuple = list.flavour == Flavour::tuple;
  out.add(tuple ? "(" : "[");
  for (size_t i = 0; i < list.items.size() && !out.over(); ++i) {
    if (i != 0) out.add(", ");
    add_repr(out, list.items[i]);
  }
  if (tuple && list.items.size() == 1) out.add(",");
  out.add(tuple ? ")" : "]");
}

void add_repr(Builder& out, const Value& value) {
  switch (value.kind()) {
    case Value::Kind::undefined:
      out.add("Undefined");
      break;
    case Value::Kind::none:
      out.add("None");
      break;
    case Value::Kind::boolean:
      out.add(value.boolean() ? "True" : "False");
      break;
    case Value::Kind::integer:
      out.add(std::to_string(value.whole()));
      break;
    case Value::Kind::real:
      out.add(float_text(value.number()));
      break;
    case Value::Kind::string:
      if (value.is_safe()) out.add("Markup(");
      add_quoted(out, value.text());
      if (value.is_safe()) out.add(")");
      break;
    case Value::Kind::list:
      add_list(out, value.list());
      break;
    case Value::Kind::dict: {
      out.add("{");
      const auto& items = value.dict().items;
      for (size_t i = 0; i < items.size() && !out.over(); ++i) {
        if (i != 0) out.add(", ");
        add_repr(out, items[i].first);
        out.add(": ");
        add_repr(out, items[i].second);
      }
      out.add("}");
      break;
    }
    case Value::Kind::object:
      out.add(fmt::format("<{}>", value.object()->type_name()));
      break;
  }
}

}  // namespace

Result<std::string> repr(Budget& budget, const Value& value) {
  Builder out(budget);
  add_repr(out, value);
  return out.take();
}

Result<std::string> str(Budget& budget, const Value& value) {
  if (value.is(Value::Kind::undefined)) return std::string();
  if (!value.is(Value::Kind::string)) return repr(budget, value);
  TRY(budget.spend_bytes(value.text().size()));
  return value.text();
}

}  // namespace sluice::text::jinja
