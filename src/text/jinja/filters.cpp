// Filters on strings, numbers and single values.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "text/jinja/builtins.h"
#include "text/jinja/filters.h"
#include "text/jinja/json.h"
#include "text/jinja/python_text.h"
#include "text/jinja/renderer.h"

namespace sluice::text::jinja {
namespace {

using Kind = Value::Kind;

// The method of the same name on str(value).
template <const char* kName>
Result<Value> as_method(Renderer& r, const Value& v, Arguments& args) {
  const Value text = v.is(Kind::string) ? v : r.text(TRY(str(r.budget(), v)));
  return find_method(text, kName)(r, text, args);
}
constexpr char kUpper[] = "upper", kLower[] = "lower", kCapitalize[] = "capitalize", kTrim[] = "strip";

Result<Value> default_filter(Renderer& r, const Value& v, Arguments& args) {
  const Params p = TRY(Params::bind("default", args, {"default_value", "boolean"}));
  if (!v.is(Kind::undefined) && (!p.flag(1, false) || v.truth())) return v;
  return p[0] == nullptr ? r.text("") : *p[0];
}

Result<Value> string_filter(Renderer& r, const Value& v, Arguments&) {
  return v.is(Kind::string) ? v : r.text(TRY(str(r.budget(), v)));
}
Result<Value> safe(Renderer& r, const Value& v, Arguments&) { return r.text(TRY(str(r.budget(), v)), true); }
Result<Value> escape(Renderer& r, const Value& v, Arguments&) {
  if (v.is_safe()) return v;
  const std::string text = TRY(str(r.budget(), v));
  TRY(r.budget().room(text.size() * 5));
  return r.text(html_escaped(text), true);
}

Result<Value> title(Renderer& r, const Value& v, Arguments&) {
  std::string out;
  bool inside = false;
  const std::string text = TRY(str(r.budget(), v));
  TRY(r.budget().spend(text.size() / 8));
  for (const char c : text) {  // words begin behind white space, hyphens and opening brackets
    const char one[] = {c, '\0'};
    out += in_case(one, inside ? Case::lower : Case::upper);
    inside = std::string_view("-([{< \t\n\r\v\f").find(c) == std::string_view::npos;
  }
  return r.text(std::move(out));
}

Result<Value> replace(Renderer& r, const Value& v, Arguments& args) {
  const Params p = TRY(Params::bind("replace", args, {"old", "new", "count"}));
  if (p[0] == nullptr || p[1] == nullptr) return failure("replace takes at least 2 arguments");
  const std::string from = TRY(str(r.budget(), *p[0])), to = TRY(str(r.budget(), *p[1]));
  const int64_t count = p[2] == nullptr || p[2]->is(Kind::none) ? -1 : TRY(p.whole(2, -1));
  const std::string text = TRY(str(r.budget(), v));
  return r.text(TRY(replaced(r.budget(), text, from, to, count)));
}

Result<Value> indent(Renderer& r, const Value& v, Arguments& args) {
  const Params p = TRY(Params::bind("indent", args, {"width", "first", "blank"}));
  const bool by_text = p[0] != nullptr && p[0]->is(Kind::string);
  const int64_t width = by_text ? 0 : TRY(p.whole(0, 4));
  if (width > 0) TRY(r.budget().room(static_cast<size_t>(width)));
  const std::string before =
      by_text ? p[0]->text() : std::string(static_cast<size_t>(std::max<int64_t>(width, 0)), ' ');
  const std::string text = TRY(str(r.budget(), v));
  Builder out(r.budget());
  bool first = true;
  for (std::string_view rest = text;; first = false) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    if (first ? p.flag(1, false) : p.flag(2, false) || !line.empty()) out.add(before);
    out.add(line);
    if (end == rest.size() || out.over()) break;
    out.add("\n");
    rest.remove_prefix(end + 1);
  }
  return r.text(TRY(out.take()), v.is_safe());
}

Result<Value> truncate(Renderer& r, const Value& v, Arguments& args) {
  const Params p = TRY(Params::bind("truncate", args, {"length", "killwords", "end", "leeway"}));
  const std::string text = TRY(str(r.budget(), v)), end = TRY(p.text(2, "..."));
  const int64_t n = static_cast<int64_t>(n_characters(text)), length = TRY(p.whole(0, 255));
  const int64_t room = length - static_cast<int64_t>(n_characters(end));
  if (room < 0) return failure("truncate's length is shorter than its end");
  if (n <= length || n - length <= TRY(p.whole(3, 5))) return r.text(text);
  const Value cut_at = room;
  const Value cut = TRY(slice_of(r, r.text(text), nullptr, &cut_at, nullptr));
  std::string_view kept = cut.text();
  if (!p.flag(1, false)) kept = kept.substr(0, kept.rfind(' '));
  return r.text(std::string(kept) + end);
}

Result<Value> center(Renderer& r, const Value& v, Arguments& args) {
  const Params p = TRY(Params::bind("center", args, {"width"}));
  Arguments given{.values = {Value(TRY(p.whole(0, 80)))}, .named = {}};
  const Value text = r.text(TRY(str(r.budget(), v)));
  return find_method(text, "center")(r, text, given);
}

Result<Value> format_filter(Renderer& r, const Value& v, Arguments& args) {
  return percent_format(r, r.text(TRY(str(r.budget(), v))), args.values);
}

Result<Value> wordcount(Renderer& r, const Value& v, Arguments&) {
  const Value text = r.text(TRY(str(r.budget(), v)));
  Arguments none;
  return Value(static_cast<int64_t>(TRY(find_method(text, "split")(r, text, none)).list().items.size()));
}

Result<Value> urlencode(Renderer& r, const Value& v, Arguments&) {
  const std::string text = TRY(str(r.budget(), v));
  TRY(r.budget().room(text.size() * 3));
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-~/";
  std::string out;
  for (const char c : text) {
    if (kPlain.find(c) != kPlain.npos)
      out += c;
    else
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return r.text(std::move(out));
}

Result<Value> abs_filter(Renderer&, const Value& v, Arguments&) {
  if (!v.is_number()) return failure(fmt::format("abs wants a number, not '{}'", v.type_name()));
  if (!v.is_whole()) return Value(std::abs(v.number()));
  if (v.whole() == INT64_MIN) return failure("a whole number is too large");
  return Value(std::abs(v.whole()));
}

Result<Value> int_filter(Renderer& r, const Value& v, Arguments& args) {
  const Params p = TRY(Params::bind("int", args, {"default", "base"}));
  const Value otherwise = p[0] == nullptr ? Value(int64_t{0}) : *p[0];
  if (v.is(Kind::undefined)) return r.attribute(v, "__int__");
  if (v.is_whole()) return Value(v.whole());
  double real = 0;
  int64_t whole = 0;
  if (v.is(Kind::string) && TRY(p.whole(1, 10)) != 10) return failure("int knows base 10 alone");
  if (v.is(Kind::string) && read_whole(v.text(), whole)) return Value(whole);
  if (v.is(Kind::real))
    real = v.number();
  else if (!v.is(Kind::string) || !read_real(v.text(), real))
    return otherwise;
  return std::abs(real) < 9e18 ? Value(static_cast<int64_t>(real)) : otherwise;
}

Result<Value> float_filter(Renderer&, const Value& v, Arguments& args) {
  const Params p = TRY(Params::bind("float", args, {"default"}));
  double real = 0;
  if (v.is_number()) return Value(v.number());
  if (v.is(Kind::string) && read_real(v.text(), real)) return Value(real);
  return p[0] == nullptr ? Value(0.0) : *p[0];
}

Result<Value> round_filter(Renderer&, const Value& v, Arguments& args) {
  const Params p = TRY(Params::bind("round", args, {"precision", "method"}));
  const int64_t precision = TRY(p.whole(0, 0));
  const std::string method = TRY(p.text(1, "common"));
  if (!v.is_number()) return failure(fmt::format("round wants a number, not '{}'", v.type_name()));
  if (precision < -300 || precision > 300) return failure("round's precision is too large");
  if (v.is_whole() && method == "common" && precision >= 0) return Value(v.whole());
  const double scale = std::pow(10.0, static_cast<double>(precision)), x = v.number() * scale;
  if (method == "ceil") return Value(std::ceil(x) / scale);
  if (method == "floor") return Value(std::floor(x) / scale);
  if (method != "common") return failure("round knows the methods common, ceil and floor");
  if (precision < 0) return Value(std::nearbyint(x) / scale);
  // The nearest decimal number of so many digits, exact halves to the even one: what printing does.
  double rounded = 0;
  read_real(fmt::format("{:.{}f}", v.number(), precision), rounded);
  return Value(rounded);
}

Result<Value> tojson(Renderer& r, const Value& v, Arguments& args) {
  const Params p = TRY(Params::bind("tojson", args, {"ensure_ascii", "indent", "separators", "sort_keys"}));
  JsonStyle style{.ascii = p.flag(0, false), .sort_keys = p.flag(3, false), .indent = {}};
  if (p[1] != nullptr && !p[1]->is(Kind::none)) {
    const int64_t width = p[1]->is(Kind::string) ? 0 : TRY(p.whole(1, 0));
    if (width > 0) TRY(r.budget().room(static_cast<size_t>(width)));
    style.indent =
        p[1]->is(Kind::string) ? p[1]->text() : std::string(static_cast<size_t>(std::max<int64_t>(width, 0)), ' ');
  }
  if (p[2] != nullptr && !p[2]->is(Kind::none)) {
    const auto both = TRY(r.items_of(*p[2]));
    if (both->items.size() != 2) return failure("tojson's separators are two strings");
    style.item_separator = std::string(TRY(text_of(both->items[0], "tojson")));
    style.key_separator = std::string(TRY(text_of(both->items[1], "tojson")));
  }
  return r.text(TRY(write_json(r.budget(), v, style)));
}

Result<Value> attr(Renderer& r, const Value& v, Arguments& args) {
  const Params p = TRY(Params::bind("attr", args, {"name"}));
  const std::string name = TRY(p.text(0, ""));
  if (v.is(Kind::dict) && find_method(v, name) == nullptr)
    return Value::missing(fmt::format("'dict' has no attribute '{}'", name));
  return r.attribute(v, name);
}

std::string_view number_text(std::string_view text) {
  text = strip(text, nullptr, true, true);
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  return text;
}

}  // namespace

bool read_whole(std::string_view text, int64_t& out) {
  text = number_text(text);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size();
}

bool read_real(std::string_view text, double& out) {
  text = number_text(text);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size();
}

Builtin find_filter(std::string_view name) {
  static const std::map<std::string_view, Builtin> kFilters = {
      {"upper", as_method<kUpper>},
      {"lower", as_method<kLower>},
      {"capitalize", as_method<kCapitalize>},
      {"trim", as_method<kTrim>},
      {"title", title},
      {"default", default_filter},
      {"d", default_filter},
      {"string", string_filter},
      {"safe", safe},
      {"escape", escape},
      {"e", escape},
      {"forceescape", escape},
      {"replace", replace},
      {"indent", indent},
      {"truncate", truncate},
      {"center", center},
      {"format", format_filter},
      {"wordcount", wordcount},
      {"urlencode", urlencode},
      {"abs", abs_filter},
      {"int", int_filter},
      {"float", float_filter},
      {"round", round_filter},
      {"tojson", tojson},
      {"attr", attr},
  };
  const auto at = kFilters.find(name);
  return at == kFilters.end() ? find_list_filter(name) : at->second;
}

}  // namespace sluice::text::jinja
