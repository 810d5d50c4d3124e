// "{:>5}".format(x), "%5s" % x, and dates.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "text/jinja/builtins.h"
#include "text/jinja/python_text.h"
#include "text/jinja/renderer.h"
#include "text/utf8.h"

namespace sluice::text::jinja {
namespace {

using Kind = Value::Kind;

constexpr int kMaxWidth = 10'000;

struct Spec {
  std::string_view fill = " ";
  char align = '\0';  // < > ^ or =, between sign and digits
  bool plus = false, blank = false, comma = false, prefix = false;
  int width = 0, precision = -1;
  char type = '\0';
};

bool is_one_of(char c, std::string_view set) { return set.find(c) != set.npos; }

Error bad_format(std::string_view what) { return failure(fmt::format("a format is not valid: {}", what)); }

// Digits at text[at], `otherwise` where there are none.
Result<int> read_digits(std::string_view text, size_t& at, int otherwise) {
  if (at >= text.size() || !is_one_of(text[at], "0123456789")) return otherwise;
  int n = 0;
  for (; at < text.size() && is_one_of(text[at], "0123456789"); ++at) {
    n = n * 10 + (text[at] - '0');
    if (n > kMaxWidth) return bad_format("it is too wide");
  }
  return n;
}

Result<Spec> read_spec(std::string_view text) {
  Spec spec;
  size_t at = 0;
  const size_t first = text.empty() ? 0 : utf8_step(text).n_bytes;
  if (first < text.size() && is_one_of(text[first], "<>^=")) {
    spec.fill = text.substr(0, first);
    spec.align = text[first];
    at = first + 1;
  } else if (!text.empty() && is_one_of(text[0], "<>^=")) {
    spec.align = text[0];
    at = 1;
  }
  const auto skip = [&](char c) { return at < text.size() && text[at] == c && (++at, true); };
  if (skip('+'))
    spec.plus = true;
  else if (skip(' '))
    spec.blank = true;
  else
    skip('-');
  spec.prefix = skip('#');
  if (skip('0') && spec.align == '\0') spec.fill = "0", spec.align = '=';
  spec.width = TRY(read_digits(text, at, 0));
  spec.comma = skip(',');
  if (skip('.')) spec.precision = TRY(read_digits(text, at, -1));
  if (at < text.size()) spec.type = text[at++];
  if (at != text.size()) return bad_format("what stands behind its type is not known");
  return spec;
}

void add_commas(std::string& digits) {
  size_t end = digits.find_first_not_of("0123456789");
  if (end == digits.npos) end = digits.size();
  for (size_t i = end; i > 3; i -= 3) digits.insert(i - 3, ",");
}

std::string whole_text(int64_t value, const Spec& spec) {
  const uint64_t size = value < 0 ? uint64_t{0} - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  switch (spec.type) {
    case 'x':
      return (spec.prefix ? "0x" : "") + fmt::format("{:x}", size);
    case 'X':
      return (spec.prefix ? "0X" : "") + fmt::format("{:X}", size);
    case 'o':
      return (spec.prefix ? "0o" : "") + fmt::format("{:o}", size);
    case 'b':
      return (spec.prefix ? "0b" : "") + fmt::format("{:b}", size);
    default:
      return std::to_string(size);
  }
}

std::string real_text(double value, const Spec& spec) {
  const int precision = spec.precision < 0 ? 6 : spec.precision;
  switch (spec.type) {
    case 'e':
      return fmt::format("{:.{}e}", value, precision);
    case 'E':
      return fmt::format("{:.{}E}", value, precision);
    case 'f':
    case 'F':
      return fmt::format("{:.{}f}", value, precision);
    case '%':
      return fmt::format("{:.{}f}%", value * 100, precision);
    case 'g':
      return fmt::format("{:.{}g}", value, std::max(precision, 1));
    default:
      return spec.precision < 0 ? float_text(value) : fmt::format("{:.{}g}", value, std::max(precision, 1));
  }
}

std::string padded(std::string_view sign, std::string_view body, const Spec& spec, char default_align) {
  const char align = spec.align == '\0' ? default_align : spec.align;
  const size_t n = n_characters(body) + sign.size(), width = static_cast<size_t>(spec.width);
  const size_t more = width > n ? width - n : 0;
  const size_t before = align == '<' ? 0 : align == '^' ? more / 2 : more;
  std::string out;
  if (align == '=') out += sign;
  for (size_t i = 0; i < before; ++i) out += spec.fill;
  if (align != '=') out += sign;
  out += body;
  for (size_t i = before; i < more; ++i) out += spec.fill;
  return out;
}

Result<std::string> formatted(Renderer& r, const Value& value, const Spec& spec) {
  const bool as_text = spec.type == 's' || (spec.type == '\0' && !value.is(Kind::integer) && !value.is(Kind::real));
  if (as_text) {
    const std::string all = TRY(str(r.budget(), value));
    std::string_view body = all;
    if (spec.precision >= 0) {
      size_t end = 0;
      for (int i = 0; i < spec.precision && end < body.size(); ++i) end += utf8_step(body.substr(end)).n_bytes;
      body = body.substr(0, end);
    }
    return padded("", body, spec, '<');
  }
  if (!value.is_number()) return bad_format(fmt::format("'{}' is no number", value.type_name()));
  const bool real_type = is_one_of(spec.type, "eEfFg%") && spec.type != '\0';
  if (!real_type && !is_one_of(spec.type, "dxXob") && spec.type != '\0') return bad_format("its type is not known");
  if (!real_type && spec.type != '\0' && !value.is_whole()) return bad_format("its type wants a whole number");
  const bool negative = value.is_whole() ? value.whole() < 0 : std::signbit(value.number());
  std::string body =
      value.is_whole() && !real_type ? whole_text(value.whole(), spec) : real_text(std::abs(value.number()), spec);
  if (spec.comma) add_commas(body);
  return padded(negative ? "-" : spec.plus ? "+" : spec.blank ? " " : "", body, spec, '>');
}

}  // namespace

Result<Value> percent_format(Renderer& r, const Value& format, const std::vector<Value>& values) {
  const std::string_view text = format.text();
  Builder out(r.budget());
  size_t used = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t next = std::min(text.find('%', at), text.size());
    out.add(text.substr(at, next - at));
    if (next == text.size()) break;
    at = next + 1;
    Spec spec;
    for (; at < text.size() && is_one_of(text[at], "-+ #0"); ++at) {
      if (text[at] == '-') spec.align = '<';
      if (text[at] == '+') spec.plus = true;
      if (text[at] == ' ') spec.blank = true;
      if (text[at] == '#') spec.prefix = true;
      if (text[at] == '0' && spec.align == '\0') spec.fill = "0", spec.align = '=';
    }
    spec.width = TRY(read_digits(text, at, 0));
    if (at < text.size() && text[at] == '.') spec.precision = TRY(read_digits(text, ++at, 0));
    if (at >= text.size()) return bad_format("it ends within a %");
    const char type = text[at++];
    if (type == '%') {
      out.add("%");
      continue;
    }
    if (used >= values.size()) return failure("not enough arguments for format string");
    const Value& value = values[used++];
    TRY(r.budget().spend(1 + static_cast<uint64_t>(spec.width)));
    if (spec.align == '\0') spec.align = '>';
    if (type == 'r' || type == 's') {
      spec.type = 's';
      if (spec.align == '=') spec.align = '>', spec.fill = " ";
      const Value shown = type == 'r' ? r.text(TRY(repr(r.budget(), value))) : value;
      out.add(TRY(formatted(r, shown, spec)));
    } else {
      spec.type = type == 'i' || type == 'u' ? 'd' : type;
      const bool cut = spec.type == 'd' && value.is(Kind::real);
      if (cut && !(std::abs(value.number()) < 9e18)) return bad_format("a number is too large");
      out.add(TRY(formatted(r, cut ? Value(static_cast<int64_t>(value.number())) : value, spec)));
    }
  }
  if (used < values.size() && !(values.size() == 1 && values[0].is(Kind::dict)))
    return failure("not all arguments converted during string formatting");
  return r.text(TRY(out.take()));
}

namespace {

// What stands between braces: [NUMBER or NAME][!r][:SPEC].
Result<std::string> field(Renderer& r, std::string_view text, const Arguments& arguments, size_t& next) {
  const size_t colon = std::min(text.find(':'), text.size());
  std::string_view name = text.substr(0, colon);
  const Spec spec = TRY(read_spec(text.substr(std::min(colon + 1, text.size()))));
  bool as_repr = false;
  if (name.size() >= 2 && name[name.size() - 2] == '!') {
    as_repr = name.back() == 'r';
    if (!as_repr && name.back() != 's') return bad_format("its conversion is not known");
    name.remove_suffix(2);
  }
  const Value* value = nullptr;
  size_t at = 0;
  const int index = name.empty() ? static_cast<int>(next++) : TRY(read_digits(name, at, -1));
  if (index >= 0 && at == name.size()) {
    if (static_cast<size_t>(index) < arguments.values.size()) value = &arguments.values[static_cast<size_t>(index)];
  } else {
    for (const auto& [key, named] : arguments.named)
      if (key == name) value = &named;
  }
  if (value == nullptr) return failure("a format names an argument that is not given");
  TRY(r.budget().spend(1 + static_cast<uint64_t>(spec.width) + arguments.named.size()));
  return formatted(r, as_repr ? r.text(TRY(repr(r.budget(), *value))) : *value, spec);
}

}  // namespace

Result<Value> brace_format(Renderer& r, const Value& format, Arguments& arguments) {
  const std::string_view text = format.text();
  Builder out(r.budget());
  size_t next = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t brace = std::min(text.find_first_of("{}", at), text.size());
    out.add(text.substr(at, brace - at));
    if (brace == text.size()) break;
    if (text.substr(brace + 1).starts_with(text[brace])) {
      out.add(text.substr(brace, 1));
      at = brace + 2;
      continue;
    }
    const size_t end = text.find('}', brace);
    if (text[brace] == '}' || end == text.npos) return bad_format("a brace stands alone");
    out.add(TRY(field(r, text.substr(brace + 1, end - brace - 1), arguments, next)));
    at = end + 1;
  }
  return r.text(TRY(out.take()));
}

namespace {

constexpr std::string_view kMonths[] = {"January", "February", "March",     "April",   "May",      "June",
                                        "July",    "August",   "September", "October", "November", "December"};
constexpr std::string_view kDays[] = {"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"};

// What %c stands for, without the leading zero where `plain`.
std::string date_part(char c, bool plain, const LocalTime& t, unsigned weekday, int day_of_year) {
  const auto two = [plain](int n) { return plain ? std::to_string(n) : fmt::format("{:02}", n); };
  const std::string_view month = kMonths[t.month - 1], day = kDays[weekday];
  const int hour12 = t.hour % 12 == 0 ? 12 : t.hour % 12;
  switch (c) {
    case 'Y':
      return std::to_string(t.year);
    case 'y':
      return two(t.year % 100);
    case 'm':
      return two(t.month);
    case 'd':
      return two(t.day);
    case 'e':
      return fmt::format("{:2}", t.day);
    case 'H':
      return two(t.hour);
    case 'I':
      return two(hour12);
    case 'M':
      return two(t.minute);
    case 'S':
      return two(t.second);
    case 'f':
      return "000000";
    case 'j':
      return plain ? std::to_string(day_of_year) : fmt::format("{:03}", day_of_year);
    case 'p':
      return t.hour < 12 ? "AM" : "PM";
    case 'B':
      return std::string(month);
    case 'b':
    case 'h':
      return std::string(month.substr(0, 3));
    case 'A':
      return std::string(day);
    case 'a':
      return std::string(day.substr(0, 3));
    case 'w':
      return std::to_string(weekday);
    case 'u':
      return std::to_string(weekday == 0 ? 7 : weekday);
    case 'F':
      return fmt::format("{}-{:02}-{:02}", t.year, t.month, t.day);
    case 'T':
    case 'X':
      return fmt::format("{:02}:{:02}:{:02}", t.hour, t.minute, t.second);
    case 'R':
      return fmt::format("{:02}:{:02}", t.hour, t.minute);
    case 'D':
    case 'x':
      return fmt::format("{:02}/{:02}/{:02}", t.month, t.day, t.year % 100);
    case 'c':
      return fmt::format("{} {} {:2} {:02}:{:02}:{:02} {}", day.substr(0, 3), month.substr(0, 3), t.day, t.hour,
                         t.minute, t.second, t.year);
    case 'n':
      return "\n";
    case 't':
      return "\t";
    case '%':
      return "%";
    case 'z':
    case 'Z':
      return "";  // local time without a zone
    default:
      return std::string("%") + c;
  }
}

}  // namespace

Result<std::string> strftime_text(Renderer& r, std::string_view format) {
  namespace ch = std::chrono;
  const LocalTime& t = r.now();
  const ch::year_month_day date{ch::year(t.year), ch::month(static_cast<unsigned>(t.month)),
                                ch::day(static_cast<unsigned>(t.day))};
  if (!date.ok() || t.year < 1 || t.year > 9999) return failure("the date is not valid");
  const ch::sys_days day = date;
  const unsigned weekday = ch::weekday(day).c_encoding();
  const int day_of_year = static_cast<int>((day - ch::sys_days(date.year() / 1 / 1)).count()) + 1;
  Builder out(r.budget());
  for (size_t at = 0; at < format.size(); ++at) {
    if (format[at] != '%' || at + 1 >= format.size()) {
      out.add(format.substr(at, 1));
      continue;
    }
    const bool plain = format[at + 1] == '-' && at + 2 < format.size();
    at += plain ? 2 : 1;
    out.add(date_part(format[at], plain, t, weekday, day_of_year));
  }
  return out.take();
}

}  // namespace sluice::text::jinja
