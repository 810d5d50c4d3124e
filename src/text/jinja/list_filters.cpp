// Filters on lists and dicts.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "text/jinja/builtins.h"
#include "text/jinja/filters.h"
#include "text/jinja/python_text.h"
#include "text/jinja/renderer.h"
#include "text/jinja/sort.h"

namespace sluice::text::jinja {
namespace {

using Kind = Value::Kind;
using Items = std::vector<Value>;

Result<Value> length(Renderer& r, const Value& v, Arguments&) {
  const auto size = [](size_t n) { return Value(static_cast<int64_t>(n)); };
  if (v.is(Kind::undefined)) return size(0);
  if (v.is(Kind::dict)) return size(v.dict().items.size());
  if (v.is(Kind::list) && v.list().flavour != Flavour::generator) return size(v.list().items.size());
  if (!v.is(Kind::string)) return failure(fmt::format("object of type '{}' has no len()", v.type_name()));
  TRY(r.budget().spend_bytes(v.text().size()));
  return size(n_characters(v.text()));
}

Result<Value> first(Renderer& r, const Value& v, Arguments&) {
  const auto items = TRY(r.items_of(v));
  return items->items.empty() ? Value::missing("No first item, sequence was empty.") : items->items.front();
}
Result<Value> last(Renderer& r, const Value& v, Arguments&) {
  const auto items = TRY(r.items_of(v));
  return items->items.empty() ? Value::missing("No last item, sequence was empty.") : items->items.back();
}

Result<Value> list_filter(Renderer& r, const Value& v, Arguments&) {
  const auto items = TRY(r.items_of(v));
  TRY(r.budget().spend(items->items.size()));
  return r.list(items->items);
}

Result<Value> items_filter(Renderer& r, const Value& v, Arguments& args) {
  if (v.is(Kind::undefined)) return r.list({}, Flavour::generator);
  if (!v.is(Kind::dict)) return failure("Can only get item pairs from a mapping.");
  const Value items = TRY(find_method(v, "items")(r, v, args));
  return r.list(items.list().items, Flavour::generator);
}

Result<Value> reverse(Renderer& r, const Value& v, Arguments&) {
  const auto items = TRY(r.items_of(v));
  TRY(r.budget().spend(items->items.size()));
  Items out(items->items.rbegin(), items->items.rend());
  if (!v.is(Kind::string)) return r.list(std::move(out), Flavour::generator);
  std::string text;
  for (const Value& c : out) text += c.text();
  return r.text(std::move(text));
}

// "a.b.0": attribute by attribute.
Result<Value> by_path(Renderer& r, Value value, const Value& path) {
  if (!path.is(Kind::string)) return r.item(value, path);
  std::string_view rest = path.text();
  for (;;) {
    const size_t dot = std::min(rest.find('.'), rest.size());
    const std::string_view name = rest.substr(0, dot);
    int64_t index = 0;
    const bool whole =
        !name.empty() && std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; });
    value = TRY(r.item(value, whole && read_whole(name, index) ? Value(index) : r.text(std::string(name))));
    if (dot == rest.size()) return value;
    rest.remove_prefix(dot + 1);
  }
}

Result<Value> join(Renderer& r, const Value& v, Arguments& args) {
  const Params p = TRY(Params::bind("join", args, {"d", "attribute"}));
  const std::string separator = p[0] == nullptr ? std::string() : TRY(str(r.budget(), *p[0]));
  const auto items = TRY(r.items_of(v));
  Builder out(r.budget());
  for (size_t i = 0; i < items->items.size(); ++i) {
    TRY(r.budget().spend());
    if (i != 0) out.add(separator);
    const Value item = p[1] == nullptr ? items->items[i] : TRY(by_path(r, items->items[i], *p[1]));
    out.add(item.is(Kind::string) ? item.text() : TRY(str(r.budget(), item)));
  }
  return r.text(TRY(out.take()));
}

struct Keyed {
  Value key, value;
};

// Upper and lower case are alike unless asked for.
Result<Value> sort_key(Renderer& r, Value key, bool case_sensitive) {
  if (case_sensitive || !key.is(Kind::string)) return key;
  return r.text(TRY(counted_in_case(r.budget(), key.text(), Case::lower)));
}

Result<Items> sorted(Renderer& r, std::vector<Keyed> keyed, bool reversed) {
  const auto before = [&](const Keyed& a, const Keyed& b) -> Result<bool> {
    const int o = TRY(order(r.budget(), a.key, b.key));
    return reversed ? o > 0 : o < 0;
  };
  TRY(merge_sort(keyed, before));
  Items out;
  for (Keyed& k : keyed) out.push_back(std::move(k.value));
  return out;
}

Result<std::vector<Keyed>> keyed_items(Renderer& r, const Value& v, const Value* attribute, bool case_sensitive) {
  std::vector<Keyed> out;
  const auto items = TRY(r.items_of(v));
  TRY(r.budget().spend(items->items.size()));
  for (const Value& item : items->items) {
    const bool by = attribute != nullptr && !attribute->is(Kind::none);
    const Value key = by ? TRY(by_path(r, item, *attribute)) : item;
    out.push_back({TRY(sort_key(r, key, case_sensitive)), item});
  }
  return out;
}

Result<Value> sort_filter(Renderer& r, const Value& v, Arguments& args) {
  const Params p = TRY(Params::bind("sort", args, {"reverse", "case_sensitive", "attribute"}));
  std::vector<Keyed> keyed = TRY(keyed_items(r, v, p[2], p.flag(1, false)));
  return r.list(TRY(sorted(r, std::move(keyed), p.flag(0, false))));
}

Result<Value> dictsort(Renderer& r, const Value& v, Arguments& args) {
  const Params p = TRY(Params::bind("dictsort", args, {"case_sensitive", "by", "reverse"}));
  if (!v.is(Kind::dict)) return failure(fmt::format("dictsort wants a dict, not '{}'", v.type_name()));
  const bool by_value = TRY(p.text(1, "key")) == "value";
  std::vector<Keyed> keyed;
  for (const auto& [key, value] : v.dict().items) {
    const Value pair = TRY(r.list({key, value}, Flavour::tuple));
    keyed.push_back({TRY(sort_key(r, by_value ? value : key, p.flag(0, false))), pair});
  }
  return r.list(TRY(sorted(r, std::move(keyed), p.flag(2, false))));
}

Result<Value> extreme(Renderer& r, const Value& v, const Arguments& args, int sign) {
  const Params p = TRY(Params::bind("min", args, {"case_sensitive", "attribute"}));
  const auto keyed = TRY(keyed_items(r, v, p[1], p.flag(0, false)));
  if (keyed.empty()) return Value::missing("No aggregated item, sequence was empty.");
  const Keyed* best = &keyed[0];
  for (const Keyed& k : keyed)
    if (TRY(order(r.budget(), k.key, best->key)) * sign > 0) best = &k;
  return best->value;
}
Result<Value> min(Renderer& r, const Value& v, Arguments& args) { return extreme(r, v, args, -1); }
Result<Value> max(Renderer& r, const Value& v, Arguments& args) { return extreme(r, v, args, 1); }

Result<Value> unique(Renderer& r, const Value& v, Arguments& args) {
  const Params p = TRY(Params::bind("unique", args, {"case_sensitive", "attribute"}));
  Items out;
  Dict seen(r.budget());
  for (const Keyed& k : TRY(keyed_items(r, v, p[1], p.flag(0, false)))) {
    if (TRY(seen.find(k.key)) != nullptr) continue;
    TRY(seen.set(k.key, Value(true)));
    out.push_back(k.value);
  }
  return r.list(std::move(out), Flavour::generator);
}

Result<Value> sum(Renderer& r, const Value& v, Arguments& args) {
  const Params p = TRY(Params::bind("sum", args, {"attribute", "start"}));
  Value total = p[1] == nullptr ? Value(int64_t{0}) : *p[1];
  const auto items = TRY(r.items_of(v));
  for (const Value& item : items->items) {
    const Value value = p[0] == nullptr || p[0]->is(Kind::none) ? item : TRY(by_path(r, item, *p[0]));
    total = TRY(arithmetic(r, 0, total, value));
  }
  return total;
}

// Of whatever is false, None too, these filters choose nothing.
Result<std::shared_ptr<const List>> items_or_none(Renderer& r, const Value& v) {
  return r.items_of(v.truth() ? v : Value());
}

// Without its first n arguments.
Arguments without(const Arguments& args, size_t n) {
  Arguments out = args;
  out.values.erase(out.values.begin(),
                   out.values.begin() + static_cast<std::ptrdiff_t>(std::min(n, out.values.size())));
  return out;
}

// By a test's name and its arguments, or by truth; of an attribute where `by_attribute`.
Result<Value> chosen(Renderer& r, const Value& v, const Arguments& args, bool by_attribute, bool wanted) {
  const size_t skip = by_attribute ? 1 : 0;
  if (args.values.size() < skip) return failure("selectattr and rejectattr take an attribute");
  const bool has_test = args.values.size() > skip;
  const std::string_view name = has_test ? TRY(text_of(args.values[skip], "select")) : std::string_view();
  Items out;
  const auto items = TRY(items_or_none(r, v));
  for (const Value& item : items->items) {
    TRY(r.budget().spend());
    const Value subject = by_attribute ? TRY(by_path(r, item, args.values[0])) : item;
    Arguments rest = without(args, skip + 1);
    const bool holds = has_test ? TRY(r.test(name, subject, rest)) : subject.truth();
    if (holds == wanted) out.push_back(item);
  }
  return r.list(std::move(out), Flavour::generator);
}
Result<Value> select(Renderer& r, const Value& v, Arguments& args) { return chosen(r, v, args, false, true); }
Result<Value> reject(Renderer& r, const Value& v, Arguments& args) { return chosen(r, v, args, false, false); }
Result<Value> selectattr(Renderer& r, const Value& v, Arguments& args) { return chosen(r, v, args, true, true); }
Result<Value> rejectattr(Renderer& r, const Value& v, Arguments& args) { return chosen(r, v, args, true, false); }

Result<Value> map_filter(Renderer& r, const Value& v, Arguments& args) {
  Items out;
  const auto items = TRY(items_or_none(r, v));
  const bool by_attribute = args.values.empty();
  const Params p = by_attribute ? TRY(Params::bind("map", args, {"attribute", "default"})) : Params();
  if (by_attribute && p[0] == nullptr) return failure("map requires a filter argument");
  for (const Value& item : items->items) {
    TRY(r.budget().spend());
    if (by_attribute) {
      Value value = TRY(by_path(r, item, *p[0]));
      out.push_back(value.is(Kind::undefined) && p[1] != nullptr ? *p[1] : value);
    } else {
      Arguments rest = without(args, 1);
      const std::string_view name = TRY(text_of(args.values[0], "map"));
      out.push_back(TRY(r.filter(name, item, rest)));
    }
  }
  return r.list(std::move(out), Flavour::generator);
}

Result<Value> groupby(Renderer& r, const Value& v, Arguments& args) {
  const Params p = TRY(Params::bind("groupby", args, {"attribute", "default", "case_sensitive"}));
  if (p[0] == nullptr) return failure("groupby takes an attribute");
  std::vector<Keyed> keyed;
  const auto items = TRY(r.items_of(v));
  for (const Value& item : items->items) {
    Value key = TRY(by_path(r, item, *p[0]));
    if (key.is(Kind::undefined) && p[1] != nullptr) key = *p[1];
    const Value pair = TRY(r.list({key, item}));
    keyed.push_back({TRY(sort_key(r, key, p.flag(2, false))), pair});
  }
  Items out, group;
  Value name, folded;
  const auto close = [&]() -> Result<void> {
    if (group.empty()) return {};
    const Value members = TRY(r.list(std::exchange(group, {})));
    out.push_back(TRY(r.list({name, members}, Flavour::tuple)));
    return {};
  };
  for (const Value& pair : TRY(sorted(r, std::move(keyed), false))) {
    const Value key = TRY(sort_key(r, pair.list().items[0], p.flag(2, false)));
    if (group.empty() || !TRY(equal(r.budget(), key, folded))) {
      TRY(close());
      name = pair.list().items[0];
      folded = key;
    }
    group.push_back(pair.list().items[1]);
  }
  TRY(close());
  return r.list(std::move(out));
}

Result<Value> batch(Renderer& r, const Value& v, Arguments& args) {
  const Params p = TRY(Params::bind("batch", args, {"linecount", "fill_with"}));
  const int64_t n = TRY(p.whole(0, 0));
  if (n < 1) return failure("batch wants a size of at least 1");
  TRY(r.budget().room(static_cast<size_t>(std::min<int64_t>(n, INT64_MAX / 64)) * sizeof(Value)));
  Items out, line;
  const auto items = TRY(r.items_of(v));
  TRY(r.budget().spend(items->items.size()));
  for (const Value& item : items->items) {
    line.push_back(item);
    if (static_cast<int64_t>(line.size()) == n) out.push_back(TRY(r.list(std::exchange(line, {}))));
  }
  if (!line.empty() && p[1] != nullptr && !p[1]->is(Kind::none)) line.resize(static_cast<size_t>(n), *p[1]);
  if (!line.empty()) out.push_back(TRY(r.list(std::move(line))));
  return r.list(std::move(out), Flavour::generator);
}

Result<Value> range(Renderer& r, const Value&, Arguments& args) {
  const Params p = TRY(Params::bind("range", args, {"start", "stop", "step"}));
  const bool one = args.values.size() == 1;
  const int64_t start = one ? 0 : TRY(p.whole(0, 0)), stop = TRY(p.whole(one ? 0 : 1, 0)), step = TRY(p.whole(2, 1));
  if (args.values.empty() || step == 0)
    return failure("range() wants 1 to 3 whole numbers, and a step that is not zero");
  constexpr size_t kMost = 100'000;  // as the templates' own environment has it
  Items out;
  for (int64_t i = start; step > 0 ? i < stop : i > stop;) {
    if (out.size() == kMost) return failure(fmt::format("range() gives more than {} numbers", kMost));
    out.push_back(Value(i));
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  TRY(r.budget().spend(out.size()));
  return r.list(std::move(out));
}

Result<Value> namespace_function(Renderer& r, const Value&, Arguments& args) {
  std::vector<std::pair<std::string, Value>> members;
  for (const Value& v : args.values) {
    if (!v.is(Kind::dict)) return failure("namespace() wants dicts and named arguments");
    for (const auto& [key, value] : v.dict().items) members.emplace_back(TRY(str(r.budget(), key)), value);
  }
  members.insert(members.end(), args.named.begin(), args.named.end());
  TRY(r.budget().spend(members.size()));
  return r.new_namespace(members);
}

Result<Value> dict_function(Renderer& r, const Value&, Arguments& args) {
  const auto made = std::make_shared<Dict>(r.budget());
  for (const Value& v : args.values) {
    if (!v.is(Kind::dict)) return failure("dict() wants a dict and named arguments");
    for (const auto& [key, value] : v.dict().items) TRY(made->set(key, value));
  }
  for (const auto& [name, value] : args.named) TRY(made->set(r.text(name), value));
  TRY(r.budget().spend(made->items.size()));
  return Value(std::shared_ptr<const Dict>(made));
}

Result<Value> raise_exception(Renderer& r, const Value&, Arguments& args) {
  const Params p = TRY(Params::bind("raise_exception", args, {"message"}));
  return r.refusal(p[0] == nullptr ? std::string() : TRY(str(r.budget(), *p[0])));
}

Result<Value> strftime_now(Renderer& r, const Value&, Arguments& args) {
  const std::string format = TRY(only_text("strftime_now", args, "format"));
  return r.text(TRY(strftime_text(r, format)));
}

Builtin find_in(const std::map<std::string_view, Builtin>& table, std::string_view name) {
  const auto at = table.find(name);
  return at == table.end() ? nullptr : at->second;
}

}  // namespace

Builtin find_global(std::string_view name) {
  static const std::map<std::string_view, Builtin> kGlobals = {
      {"range", range},
      {"namespace", namespace_function},
      {"dict", dict_function},
      {"raise_exception", raise_exception},
      {"strftime_now", strftime_now},
  };
  return find_in(kGlobals, name);
}

Builtin find_list_filter(std::string_view name) {
  static const std::map<std::string_view, Builtin> kFilters = {
      {"length", length},
      {"count", length},
      {"first", first},
      {"last", last},
      {"list", list_filter},
      {"items", items_filter},
      {"reverse", reverse},
      {"join", join},
      {"sort", sort_filter},
      {"dictsort", dictsort},
      {"min", min},
      {"max", max},
      {"unique", unique},
      {"sum", sum},
      {"select", select},
      {"reject", reject},
      {"selectattr", selectattr},
      {"rejectattr", rejectattr},
      {"map", map_filter},
      {"groupby", groupby},
      {"batch", batch},
  };
  return find_in(kFilters, name);
}

}  // namespace sluice::text::jinja
