// What may stand behind `is`.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "text/jinja/builtins.h"
#include "text/jinja/python_text.h"
#include "text/jinja/renderer.h"

namespace sluice::text::jinja {
namespace {

using Kind = Value::Kind;

template <Kind kKind>
Result<Value> is_kind(Renderer&, const Value& v, Arguments&) {
  return Value(v.is(kKind));
}

Result<Value> is_defined(Renderer&, const Value& v, Arguments&) { return Value(!v.is(Kind::undefined)); }
Result<Value> is_true(Renderer&, const Value& v, Arguments&) { return Value(v.is(Kind::boolean) && v.boolean()); }
Result<Value> is_false(Renderer&, const Value& v, Arguments&) { return Value(v.is(Kind::boolean) && !v.boolean()); }
Result<Value> is_number(Renderer&, const Value& v, Arguments&) { return Value(v.is_number()); }
Result<Value> is_escaped(Renderer&, const Value& v, Arguments&) { return Value(v.is_safe()); }
Result<Value> is_callable(Renderer&, const Value& v, Arguments&) {
  return Value(v.is(Kind::object) && v.object()->callable());
}
Result<Value> is_iterable(Renderer&, const Value& v, Arguments&) {
  return Value(v.is(Kind::undefined) || v.is(Kind::string) || v.is(Kind::list) || v.is(Kind::dict));
}
Result<Value> is_sequence(Renderer&, const Value& v, Arguments&) {
  const bool list = v.is(Kind::list) && (v.list().flavour == Flavour::list || v.list().flavour == Flavour::tuple);
  return Value(v.is(Kind::undefined) || v.is(Kind::string) || v.is(Kind::dict) || list);
}

Result<Value> remainder_is(const Value& v, int64_t by, int64_t rest) {
  if (!v.is_whole()) return failure(fmt::format("'{}' is no whole number", v.type_name()));
  if (by == 0) return failure("division by zero");
  if (by == -1) return Value(true);
  return Value((v.whole() % by != 0) == (rest != 0));
}
Result<Value> is_even(Renderer&, const Value& v, Arguments&) { return remainder_is(v, 2, 0); }
Result<Value> is_odd(Renderer&, const Value& v, Arguments&) { return remainder_is(v, 2, 1); }
Result<Value> is_divisible(Renderer&, const Value& v, Arguments& args) {
  const Params p = TRY(Params::bind("divisibleby", args, {"num"}));
  return remainder_is(v, TRY(p.whole(0, 0)), 0);
}

// Every letter of one case, and at least one.
Result<Value> is_in_case(Renderer& r, const Value& v, CharacterClass wanted, CharacterClass other) {
  const std::string text = TRY(str(r.budget(), v));
  bool any = false;
  for (const std::string_view c : TRY(counted_characters(r.budget(), text))) {
    if (in_class(c, other)) return Value(false);
    any = any || in_class(c, wanted);
  }
  return Value(any);
}
Result<Value> is_lower(Renderer& r, const Value& v, Arguments&) {
  return is_in_case(r, v, CharacterClass::lower, CharacterClass::upper);
}
Result<Value> is_upper(Renderer& r, const Value& v, Arguments&) {
  return is_in_case(r, v, CharacterClass::upper, CharacterClass::lower);
}

Result<const Value*> only(const Arguments& args, std::string_view name) {
  if (args.values.size() == 1 && args.named.empty()) return &args.values[0];
  return failure(fmt::format("the test '{}' takes one argument", name));
}
Result<Value> is_equal(Renderer& r, const Value& v, Arguments& args) {
  const Value* other = TRY(only(args, "eq"));
  return Value(TRY(equal(r.budget(), v, *other)));
}
Result<Value> is_unequal(Renderer& r, const Value& v, Arguments& args) {
  const Value* other = TRY(only(args, "ne"));
  return Value(!TRY(equal(r.budget(), v, *other)));
}
Result<Value> is_less(Renderer& r, const Value& v, Arguments& args) {
  const Value* other = TRY(only(args, "lt"));
  return Value(TRY(order(r.budget(), v, *other)) < 0);
}
Result<Value> is_at_most(Renderer& r, const Value& v, Arguments& args) {
  const Value* other = TRY(only(args, "le"));
  return Value(TRY(order(r.budget(), v, *other)) <= 0);
}
Result<Value> is_greater(Renderer& r, const Value& v, Arguments& args) {
  const Value* other = TRY(only(args, "gt"));
  return Value(TRY(order(r.budget(), v, *other)) > 0);
}
Result<Value> is_at_least(Renderer& r, const Value& v, Arguments& args) {
  const Value* other = TRY(only(args, "ge"));
  return Value(TRY(order(r.budget(), v, *other)) >= 0);
}
Result<Value> is_in(Renderer& r, const Value& v, Arguments& args) {
  const Value* other = TRY(only(args, "in"));
  return Value(TRY(contains(r, v, *other)));
}
// The same object in Python: here singletons, numbers and what shares its storage.
Result<Value> is_same(Renderer& r, const Value& v, Arguments& args) {
  const Value& other = *TRY(only(args, "sameas"));
  return Value(v.kind() == other.kind() && TRY(equal(r.budget(), v, other)));
}
Result<Value> is_filter(Renderer& r, const Value& v, Arguments&) {
  return Value(find_filter(TRY(str(r.budget(), v))) != nullptr);
}
Result<Value> is_test(Renderer& r, const Value& v, Arguments&) {
  return Value(find_test(TRY(str(r.budget(), v))) != nullptr);
}

}  // namespace

Builtin find_test(std::string_view name) {
  static const std::map<std::string_view, Builtin> kTests = {
      {"defined", is_defined},
      {"undefined", is_kind<Kind::undefined>},
      {"none", is_kind<Kind::none>},
      {"boolean", is_kind<Kind::boolean>},
      {"integer", is_kind<Kind::integer>},
      {"float", is_kind<Kind::real>},
      {"string", is_kind<Kind::string>},
      {"mapping", is_kind<Kind::dict>},
      {"true", is_true},
      {"false", is_false},
      {"number", is_number},
      {"escaped", is_escaped},
      {"callable", is_callable},
      {"iterable", is_iterable},
      {"sequence", is_sequence},
      {"even", is_even},
      {"odd", is_odd},
      {"divisibleby", is_divisible},
      {"lower", is_lower},
      {"upper", is_upper},
      {"eq", is_equal},
      {"==", is_equal},
      {"equalto", is_equal},
      {"ne", is_unequal},
      {"!=", is_unequal},
      {"lt", is_less},
      {"<", is_less},
      {"lessthan", is_less},
      {"le", is_at_most},
      {"<=", is_at_most},
      {"gt", is_greater},
      {">", is_greater},
      {"greaterthan", is_greater},
      {"ge", is_at_least},
      {">=", is_at_least},
      {"in", is_in},
      {"sameas", is_same},
      {"filter", is_filter},
      {"test", is_test},
  };
  const auto at = kTests.find(name);
  return at == kTests.end() ? nullptr : at->second;
}

}  // namespace sluice::text::jinja
