// Methods of strings, dicts and lists, and the global functions.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "text/jinja/builtins.h"
#include "text/jinja/python_text.h"
#include "text/jinja/renderer.h"
#include "text/utf8.h"

namespace sluice::text::jinja {
namespace {

using Kind = Value::Kind;
using Table = std::map<std::string_view, Builtin>;

Result<Value> stripped(Renderer& r, const Value& self, const Arguments& args, bool left, bool right) {
  const Params p = TRY(Params::bind("strip", args, {"chars"}));
  const bool given = p[0] != nullptr && !p[0]->is(Kind::none);
  const std::string chars = given ? TRY(p.text(0, "")) : std::string();
  TRY(r.budget().spend_bytes(self.text().size() * (1 + chars.size())));
  return r.text(std::string(strip(self.text(), given ? &chars : nullptr, left, right)), self.is_safe());
}
Result<Value> strip_both(Renderer& r, const Value& self, Arguments& args) {
  return stripped(r, self, args, true, true);
}
Result<Value> strip_left(Renderer& r, const Value& self, Arguments& args) {
  return stripped(r, self, args, true, false);
}
Result<Value> strip_right(Renderer& r, const Value& self, Arguments& args) {
  return stripped(r, self, args, false, true);
}

template <Case kCase>
Result<Value> in_one_case(Renderer& r, const Value& self, Arguments&) {
  return r.text(TRY(counted_in_case(r.budget(), self.text(), kCase)));
}
Result<Value> capitalize(Renderer& r, const Value& self, Arguments&) {
  return r.text(TRY(capitalized(r.budget(), self.text())));
}

// Every run of letters begins with an upper case one.
Result<Value> title(Renderer& r, const Value& self, Arguments&) {
  std::string out;
  bool inside = false;
  for (const std::string_view c : TRY(counted_characters(r.budget(), self.text()))) {
    out += in_case(c, inside ? Case::lower : Case::upper);
    inside = in_class(c, CharacterClass::letter);
  }
  return r.text(std::move(out));
}

Result<Value> pieces(Renderer& r, const std::vector<std::string_view>& parts) {
  TRY(r.budget().spend(parts.size()));
  TRY(r.budget().room(parts.size() * (sizeof(Text) + sizeof(Value))));
  std::vector<Value> out;
  out.reserve(parts.size());
  for (const std::string_view part : parts) out.push_back(r.text(std::string(part)));
  return r.list(std::move(out));
}

// What lies between runs of white space, split at most so many times; the rest keeps its outer white space.
std::vector<std::string_view> words(std::string_view text, uint64_t most, bool from_right) {
  std::vector<std::string_view> out;
  for (std::string_view rest = strip(text, nullptr, true, true); !rest.empty();) {
    size_t n = 0;
    for (size_t step = 0; n < rest.size(); n += step) {
      step = utf8_step(rest.substr(n)).n_bytes;
      if (is_space(rest.substr(n, step))) break;
    }
    out.push_back(rest.substr(0, n));
    rest = strip(rest.substr(n), nullptr, true, false);
  }
  if (out.size() <= most) return out;
  const auto at = [&](const char* place) { return static_cast<size_t>(place - text.data()); };
  if (from_right) {
    const std::string_view last = out[out.size() - most - 1];
    const std::string_view rest = text.substr(0, at(last.data()) + last.size());
    out.erase(out.begin(), out.end() - static_cast<std::ptrdiff_t>(most));
    out.insert(out.begin(), rest);
  } else {
    out[most] = text.substr(at(out[most].data()));
    out.resize(most + 1);
  }
  return out;
}

Result<Value> split_at(Renderer& r, const Value& self, const Arguments& args, bool from_right) {
  const Params p = TRY(Params::bind("split", args, {"sep", "maxsplit"}));
  const int64_t limit = TRY(p.whole(1, -1));
  const uint64_t most = limit < 0 ? UINT64_MAX : static_cast<uint64_t>(limit);
  std::string_view text = self.text();
  TRY(r.budget().spend_bytes(text.size() * 4));
  if (p[0] == nullptr || p[0]->is(Kind::none)) return pieces(r, words(text, most, from_right));
  const std::string separator = TRY(p.text(0, ""));
  if (separator.empty()) return failure("empty separator");
  TRY(r.budget().spend_search(text.size(), separator.size()));
  std::vector<std::string_view> parts;
  while (parts.size() < most) {
    const size_t at = from_right ? text.rfind(separator) : text.find(separator);
    if (at == text.npos) break;
    const std::string_view left = text.substr(0, at), right = text.substr(at + separator.size());
    parts.push_back(from_right ? right : left);
    text = from_right ? left : right;
  }
  parts.push_back(text);
  if (from_right) std::reverse(parts.begin(), parts.end());
  return pieces(r, parts);
}
Result<Value> split(Renderer& r, const Value& self, Arguments& args) { return split_at(r, self, args, false); }
Result<Value> rsplit(Renderer& r, const Value& self, Arguments& args) { return split_at(r, self, args, true); }

Result<Value> splitlines(Renderer& r, const Value& self, Arguments& args) {
  const bool keep = TRY(Params::bind("splitlines", args, {"keepends"})).flag(0, false);
  std::vector<std::string_view> parts;
  for (std::string_view text = self.text(); !text.empty();) {
    const size_t end = std::min(text.find_first_of("\n\r\v\f\x1c\x1d\x1e"), text.size());
    const size_t next = std::min(text.size(), end + (text.substr(end).starts_with("\r\n") ? 2 : 1));
    parts.push_back(text.substr(0, keep ? next : end));
    text.remove_prefix(next);
  }
  return pieces(r, parts);
}

Result<Value> partitioned(Renderer& r, const Value& self, const Arguments& args, bool from_right) {
  const std::string separator = TRY(only_text("partition", args, "sep"));
  if (separator.empty()) return failure("empty separator");
  const std::string_view text = self.text();
  TRY(r.budget().spend_search(text.size(), separator.size()));
  const size_t at = from_right ? text.rfind(separator) : text.find(separator);
  const bool found = at != text.npos;
  const std::string_view head = found ? text.substr(0, at) : from_right ? std::string_view() : text;
  const std::string_view tail = found ? text.substr(at + separator.size()) : from_right ? text : std::string_view();
  return r.list({r.text(std::string(head)), r.text(found ? separator : ""), r.text(std::string(tail))}, Flavour::tuple);
}
Result<Value> partition(Renderer& r, const Value& self, Arguments& args) { return partitioned(r, self, args, false); }
Result<Value> rpartition(Renderer& r, const Value& self, Arguments& args) { return partitioned(r, self, args, true); }

// One string or a tuple of them.
Result<Value> begins_or_ends(const Value& self, const Arguments& args, bool begins) {
  const std::string_view name = begins ? "startswith" : "endswith";
  const Params p = TRY(Params::bind(name, args, {"prefix"}));
  if (p[0] == nullptr) return failure(fmt::format("{}() takes an argument", name));
  const auto one = [&](const Value& v) -> Result<bool> {
    const std::string_view part = TRY(text_of(v, name));
    return begins ? self.text().starts_with(part) : self.text().ends_with(part);
  };
  if (!p[0]->is(Kind::list)) return Value(TRY(one(*p[0])));
  for (const Value& v : p[0]->list().items)
    if (TRY(one(v))) return Value(true);
  return Value(false);
}
Result<Value> startswith(Renderer&, const Value& self, Arguments& args) { return begins_or_ends(self, args, true); }
Result<Value> endswith(Renderer&, const Value& self, Arguments& args) { return begins_or_ends(self, args, false); }

Result<Value> removeprefix(Renderer& r, const Value& self, Arguments& args) {
  const std::string part = TRY(only_text("removeprefix", args, "prefix"));
  return self.text().starts_with(part) ? r.text(self.text().substr(part.size())) : self;
}
Result<Value> removesuffix(Renderer& r, const Value& self, Arguments& args) {
  const std::string part = TRY(only_text("removesuffix", args, "suffix"));
  return self.text().ends_with(part) ? r.text(self.text().substr(0, self.text().size() - part.size())) : self;
}

Result<Value> replace(Renderer& r, const Value& self, Arguments& args) {
  const Params p = TRY(Params::bind("replace", args, {"old", "new", "count"}));
  if (p[0] == nullptr || p[1] == nullptr) return failure("replace() takes at least 2 arguments");
  const std::string from = TRY(p.text(0, "")), to = TRY(p.text(1, ""));
  const int64_t count = TRY(p.whole(2, -1));
  return r.text(TRY(replaced(r.budget(), self.text(), from, to, count)));
}

// Positions count characters.
Result<Value> found_at(Renderer& r, const Value& self, const Arguments& args, bool from_right, bool must) {
  const std::string part = TRY(only_text("find", args, "sub"));
  TRY(r.budget().spend_search(self.text().size(), part.size()));
  const size_t at = from_right ? self.text().rfind(part) : self.text().find(part);
  if (at == std::string::npos && must) return failure("substring not found");
  if (at == std::string::npos) return Value(int64_t{-1});
  return Value(static_cast<int64_t>(n_characters(std::string_view(self.text()).substr(0, at))));
}
Result<Value> find(Renderer& r, const Value& self, Arguments& args) { return found_at(r, self, args, false, false); }
Result<Value> rfind(Renderer& r, const Value& self, Arguments& args) { return found_at(r, self, args, true, false); }
Result<Value> index(Renderer& r, const Value& self, Arguments& args) { return found_at(r, self, args, false, true); }

Result<Value> count(Renderer& r, const Value& self, Arguments& args) {
  const std::string part = TRY(only_text("count", args, "sub"));
  TRY(r.budget().spend_search(self.text().size(), part.size()));
  if (part.empty()) return Value(static_cast<int64_t>(n_characters(self.text()) + 1));
  int64_t n = 0;
  for (size_t at = self.text().find(part); at != std::string::npos; at = self.text().find(part, at + part.size())) ++n;
  return Value(n);
}

Result<Value> join(Renderer& r, const Value& self, Arguments& args) {
  const Params p = TRY(Params::bind("join", args, {"iterable"}));
  if (p[0] == nullptr) return failure("join() takes an argument");
  const auto items = TRY(r.items_of(*p[0]));
  Builder out(r.budget());
  for (size_t i = 0; i < items->items.size(); ++i) {
    if (i != 0) out.add(self.text());
    out.add(TRY(text_of(items->items[i], "join")));
  }
  return r.text(TRY(out.take()));
}

template <CharacterClass kOne, CharacterClass kOther>
Result<Value> all_of_class(Renderer& r, const Value& self, Arguments&) {
  const auto chars = TRY(counted_characters(r.budget(), self.text()));
  return Value(!chars.empty() && std::all_of(chars.begin(), chars.end(), [](std::string_view c) {
    return in_class(c, kOne) || in_class(c, kOther);
  }));
}
Result<Value> isspace(Renderer& r, const Value& self, Arguments&) {
  TRY(r.budget().spend_bytes(self.text().size()));
  return Value(!self.text().empty() && strip(self.text(), nullptr, true, false).empty());
}
Result<Value> islower(Renderer& r, const Value& self, Arguments& args) { return find_test("lower")(r, self, args); }
Result<Value> isupper(Renderer& r, const Value& self, Arguments& args) { return find_test("upper")(r, self, args); }

enum class Side : uint8_t { left, right, both };
template <Side kSide>
Result<Value> justified(Renderer& r, const Value& self, Arguments& args) {
  const Params p = TRY(Params::bind("ljust", args, {"width", "fillchar"}));
  const std::string fill = TRY(p.text(1, " "));
  const int64_t width = TRY(p.whole(0, 0)), n = static_cast<int64_t>(n_characters(self.text()));
  if (n_characters(fill) != 1) return failure("the fill character must be exactly one character long");
  if (width <= n) return self;
  TRY(r.budget().room(static_cast<size_t>(width)));
  const size_t more = static_cast<size_t>(width - n);
  const size_t odd = more & static_cast<size_t>(width) & 1;
  const size_t before = kSide == Side::left ? 0 : kSide == Side::right ? more : more / 2 + odd;
  std::string out;
  for (size_t i = 0; i < before; ++i) out += fill;
  out += self.text();
  for (size_t i = before; i < more; ++i) out += fill;
  return r.text(std::move(out));
}
Result<Value> zfill(Renderer& r, const Value& self, Arguments& args) {
  const Params p = TRY(Params::bind("zfill", args, {"width"}));
  const int64_t width = TRY(p.whole(0, 0));
  const int64_t n = static_cast<int64_t>(n_characters(self.text()));
  if (width <= n) return self;
  TRY(r.budget().room(static_cast<size_t>(width)));
  const size_t sign = self.text().starts_with('-') || self.text().starts_with('+') ? 1 : 0;
  return r.text(self.text().substr(0, sign) + std::string(static_cast<size_t>(width - n), '0') +
                self.text().substr(sign));
}

Result<Value> dict_items(Renderer& r, const Value& self, Arguments&) {
  TRY(r.budget().spend(self.dict().items.size()));
  std::vector<Value> out;
  for (const auto& [key, value] : self.dict().items) out.push_back(TRY(r.list({key, value}, Flavour::tuple)));
  return r.list(std::move(out), Flavour::view);
}
Result<Value> dict_keys(Renderer& r, const Value& self, Arguments&) {
  std::vector<Value> out;
  out.reserve(self.dict().items.size());
  for (const auto& item : self.dict().items) out.push_back(item.first);
  TRY(r.budget().spend(out.size()));
  return r.list(std::move(out), Flavour::view);
}
Result<Value> dict_values(Renderer& r, const Value& self, Arguments&) {
  std::vector<Value> out;
  out.reserve(self.dict().items.size());
  for (const auto& item : self.dict().items) out.push_back(item.second);
  TRY(r.budget().spend(out.size()));
  return r.list(std::move(out), Flavour::view);
}
Result<Value> dict_copy(Renderer&, const Value& self, Arguments&) { return self; }
Result<Value> dict_get(Renderer&, const Value& self, Arguments& args) {
  const Params p = TRY(Params::bind("get", args, {"key", "default"}));
  if (p[0] == nullptr) return failure("get() takes a key");
  if (const Value* found = TRY(self.dict().find(*p[0]))) return *found;
  return p[1] == nullptr ? Value(None{}) : *p[1];
}

Result<Value> list_count(Renderer& r, const Value& self, Arguments& args) {
  const Params p = TRY(Params::bind("count", args, {"value"}));
  int64_t n = 0;
  for (const Value& v : self.list().items) n += p[0] != nullptr && TRY(equal(r.budget(), v, *p[0])) ? 1 : 0;
  return Value(n);
}
Result<Value> list_index(Renderer& r, const Value& self, Arguments& args) {
  const Params p = TRY(Params::bind("index", args, {"value"}));
  for (size_t i = 0; p[0] != nullptr && i < self.list().items.size(); ++i)
    if (TRY(equal(r.budget(), self.list().items[i], *p[0]))) return Value(static_cast<int64_t>(i));
  return failure("the value is not in the list");
}

const Table& text_methods() {
  using C = CharacterClass;
  static const Table kTable = {
      {"strip", strip_both},
      {"lstrip", strip_left},
      {"rstrip", strip_right},
      {"upper", in_one_case<Case::upper>},
      {"lower", in_one_case<Case::lower>},
      {"casefold", in_one_case<Case::lower>},
      {"capitalize", capitalize},
      {"title", title},
      {"split", split},
      {"rsplit", rsplit},
      {"splitlines", splitlines},
      {"partition", partition},
      {"rpartition", rpartition},
      {"startswith", startswith},
      {"endswith", endswith},
      {"removeprefix", removeprefix},
      {"removesuffix", removesuffix},
      {"replace", replace},
      {"find", find},
      {"rfind", rfind},
      {"index", index},
      {"count", count},
      {"join", join},
      {"format", brace_format},
      {"isalpha", all_of_class<C::letter, C::letter>},
      {"isdigit", all_of_class<C::digit, C::digit>},
      {"isdecimal", all_of_class<C::digit, C::digit>},
      {"isnumeric", all_of_class<C::digit, C::digit>},
      {"isalnum", all_of_class<C::letter, C::digit>},
      {"isspace", isspace},
      {"islower", islower},
      {"isupper", isupper},
      {"ljust", justified<Side::left>},
      {"rjust", justified<Side::right>},
      {"center", justified<Side::both>},
      {"zfill", zfill},
  };
  return kTable;
}

}  // namespace

Builtin find_method(const Value& self, std::string_view name) {
  static const Table kDict = {
      {"items", dict_items}, {"keys", dict_keys}, {"values", dict_values}, {"get", dict_get}, {"copy", dict_copy}};
  static const Table kList = {{"count", list_count}, {"index", list_index}};
  const Table* table = self.is(Kind::string) ? &text_methods() : self.is(Kind::dict) ? &kDict : nullptr;
  if (self.is(Kind::list) && (self.list().flavour == Flavour::list || self.list().flavour == Flavour::tuple))
    table = &kList;
  if (table == nullptr) return nullptr;
  const auto at = table->find(name);
  return at == table->end() ? nullptr : at->second;
}

bool is_mutator(const Value& self, std::string_view name) {
  constexpr std::string_view kOfDict[] = {"clear", "pop", "popitem", "setdefault", "update"};
  constexpr std::string_view kOfList[] = {"append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort"};
  if (self.is(Kind::dict)) return std::find(std::begin(kOfDict), std::end(kOfDict), name) != std::end(kOfDict);
  return self.is(Kind::list) && std::find(std::begin(kOfList), std::end(kOfList), name) != std::end(kOfList);
}

}  // namespace sluice::text::jinja
