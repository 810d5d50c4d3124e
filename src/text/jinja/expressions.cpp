// Expressions.
#include <fmt/format.h>

#include "base/text.h"
#include "text/jinja/builtins.h"
#include "text/jinja/objects.h"
#include "text/jinja/python_text.h"
#include "text/jinja/renderer.h"

namespace sluice::text::jinja {
namespace {

using Kind = Value::Kind;

Error undefined_error(const Value& value) {
  return failure(value.undefined().why == nullptr ? std::string("a value is undefined") : *value.undefined().why);
}

}  // namespace

Result<Value> Renderer::eval(const Expr& e, const ScopePtr& scope) {
  const Depth depth(*this);
  TRY(check_depth());
  switch (e.kind) {
    case Expr::Kind::constant:
      return e.value;
    case Expr::Kind::name:
      return name(e, scope);
    case Expr::Kind::list:
    case Expr::Kind::tuple:
      return sequence(e, scope);
    case Expr::Kind::dict:
      return dict(e, scope);
    case Expr::Kind::attribute:
      return attribute(TRY(eval(*e.parts[0], scope)), e.text);
    case Expr::Kind::item:
      return item(TRY(eval(*e.parts[0], scope)), TRY(eval(*e.parts[1], scope)));
    case Expr::Kind::slice:
      return slice(e, scope);
    case Expr::Kind::call:
      return call_expr(e, scope);
    case Expr::Kind::filter:
      return filters(e, nullptr, scope);
    case Expr::Kind::test:
      return test_expr(e, scope);
    case Expr::Kind::unary:
    case Expr::Kind::binary:
      return binary(e, scope);
    case Expr::Kind::compare:
      return compare(e, scope);
    case Expr::Kind::concat:
      return concat(e, scope);
    case Expr::Kind::all:
    case Expr::Kind::any:
      return logic(e, scope);
    case Expr::Kind::negation:
      return Value(!TRY(eval(*e.parts[0], scope)).truth());
    case Expr::Kind::condition:
      return condition(e, scope);
  }
  return Value();
}

Result<Value> Renderer::name(const Expr& e, const ScopePtr& scope) const {
  for (const Scope* s = scope.get(); s != nullptr; s = s->parent.get()) {
    const auto at = s->names.find(e.text);
    if (at != s->names.end()) return at->second;
  }
  if (const Builtin function = find_global(e.text)) return make_function(function);
  return Value::missing(fmt::format("'{}' is undefined", e.text));
}

Result<Value> Renderer::sequence(const Expr& e, const ScopePtr& scope) {
  std::vector<Value> items;
  items.reserve(e.parts.size());
  for (const Expr* part : e.parts) items.push_back(TRY(eval(*part, scope)));
  return list(std::move(items), e.kind == Expr::Kind::tuple ? Flavour::tuple : Flavour::list);
}

Result<Value> Renderer::dict(const Expr& e, const ScopePtr& scope) {
  const auto made = std::make_shared<Dict>(budget_);
  for (size_t i = 0; i < e.parts.size(); i += 2) {
    const Value key = TRY(eval(*e.parts[i], scope));
    const Value value = TRY(eval(*e.parts[i + 1], scope));
    TRY(made->set(key, value));
  }
  return Value(std::shared_ptr<const Dict>(made));
}

Result<Value> Renderer::slice(const Expr& e, const ScopePtr& scope) {
  const Value value = TRY(eval(*e.parts[0], scope));
  Value bounds[3];
  const Value* given[3] = {};
  for (size_t i = 0; i < 3; ++i) {
    if (e.parts[i + 1] == nullptr) continue;
    bounds[i] = TRY(eval(*e.parts[i + 1], scope));
    if (!bounds[i].is(Kind::none)) given[i] = &bounds[i];
  }
  if (value.is(Kind::undefined)) return undefined_error(value);
  return slice_of(*this, value, given[0], given[1], given[2]);
}

Result<Value> Renderer::logic(const Expr& e, const ScopePtr& scope) {
  Value value;
  for (const Expr* part : e.parts) {
    value = TRY(eval(*part, scope));
    if (value.truth() == (e.kind == Expr::Kind::any)) break;
  }
  return value;
}

Result<Value> Renderer::binary(const Expr& e, const ScopePtr& scope) {
  Value value = TRY(eval(*e.parts[0], scope));
  if (e.kind == Expr::Kind::unary) {
    if (value.is(Kind::undefined)) return undefined_error(value);
    return arithmetic(*this, static_cast<uint8_t>(e.ops[0]), value, value);
  }
  for (size_t i = 0; i < e.ops.size(); ++i) {
    const Value right = TRY(eval(*e.parts[i + 1], scope));
    if (value.is(Kind::undefined)) return undefined_error(value);
    if (right.is(Kind::undefined)) return undefined_error(right);
    value = TRY(arithmetic(*this, static_cast<uint8_t>(e.ops[i]), value, right));
  }
  return value;
}

Result<Value> Renderer::compare(const Expr& e, const ScopePtr& scope) {
  Value left = TRY(eval(*e.parts[0], scope));
  for (size_t i = 0; i < e.ops.size(); ++i) {
    Value right = TRY(eval(*e.parts[i + 1], scope));
    const Op op = e.ops[i];
    bool holds = false;
    if (op == Op::eq || op == Op::ne) {
      holds = TRY(equal(budget_, left, right)) == (op == Op::eq);
    } else if (op == Op::in || op == Op::not_in) {
      holds = TRY(contains(*this, left, right)) == (op == Op::in);
    } else {
      if (left.is(Kind::undefined)) return undefined_error(left);
      if (right.is(Kind::undefined)) return undefined_error(right);
      const int o = TRY(order(budget_, left, right));
      holds = op == Op::lt ? o < 0 : op == Op::le ? o <= 0 : op == Op::gt ? o > 0 : o >= 0;
    }
    if (!holds) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

Result<Value> Renderer::concat(const Expr& e, const ScopePtr& scope) {
  Builder out(budget_);
  for (const Expr* part : e.parts) {
    const Value value = TRY(eval(*part, scope));
    out.add(value.is(Kind::string) ? value.text() : TRY(str(budget_, value)));
  }
  return text(TRY(out.take()));
}

Result<Value> Renderer::condition(const Expr& e, const ScopePtr& scope) {
  if (TRY(eval(*e.parts[1], scope)).truth()) return eval(*e.parts[0], scope);
  if (e.parts[2] != nullptr) return eval(*e.parts[2], scope);
  return Value::missing("a condition without else is false");
}

Result<Arguments> Renderer::arguments(const Expr& e, const ScopePtr& scope) {
  Arguments out;
  for (size_t i = 1; i < e.parts.size(); ++i) out.values.push_back(TRY(eval(*e.parts[i], scope)));
  if (e.star != nullptr) {
    const Value star = TRY(eval(*e.star, scope));
    const auto items = TRY(items_of(star));
    TRY(budget_.spend(items->items.size()));
    out.values.insert(out.values.end(), items->items.begin(), items->items.end());
  }
  for (const NamedExpr& n : e.named) out.named.emplace_back(n.name, TRY(eval(*n.value, scope)));
  if (e.star_star != nullptr) {
    const Value value = TRY(eval(*e.star_star, scope));
    if (!value.is(Kind::dict)) return failure("what stands after ** is no dict");
    TRY(budget_.spend(value.dict().items.size()));
    for (const auto& [key, v] : value.dict().items) out.named.emplace_back(TRY(str(budget_, key)), v);
  }
  return out;
}

Result<Value> Renderer::call_expr(const Expr& e, const ScopePtr& scope) {
  const Value callee = TRY(eval(*e.parts[0], scope));
  Arguments given = TRY(arguments(e, scope));
  return call(callee, given);
}

Result<Value> Renderer::call(const Value& callee, Arguments& given) {
  const Depth depth(*this);
  TRY(check_depth());
  if (callee.is(Kind::undefined)) return undefined_error(callee);
  if (!callee.is(Kind::object)) return failure(fmt::format("'{}' object is not callable", callee.type_name()));
  return callee.object()->call(*this, given);
}

Result<Value> Renderer::filters(const Expr& e, const Value* value, const ScopePtr& scope) {
  if (e.kind != Expr::Kind::filter) return eval(e, scope);
  const Depth depth(*this);
  TRY(check_depth());
  const Value subject = e.parts[0] == nullptr ? *value : TRY(filters(*e.parts[0], value, scope));
  Arguments given = TRY(arguments(e, scope));
  return filter(e.text, subject, given);
}

Result<Value> Renderer::test_expr(const Expr& e, const ScopePtr& scope) {
  const Value subject = TRY(eval(*e.parts[0], scope));
  Arguments given = TRY(arguments(e, scope));
  return Value(TRY(test(e.text, subject, given)));
}

Result<Value> Renderer::filter(std::string_view filter_name, const Value& value, Arguments& given) {
  const Builtin found = find_filter(filter_name);
  if (found == nullptr) return failure(fmt::format("there is no filter '{}'", printable(filter_name, 40)));
  return found(*this, value, given);
}

Result<bool> Renderer::test(std::string_view test_name, const Value& value, Arguments& given) {
  const Builtin found = find_test(test_name);
  if (found == nullptr) return failure(fmt::format("there is no test '{}'", printable(test_name, 40)));
  return TRY(found(*this, value, given)).truth();
}

Result<Value> Renderer::attribute(const Value& value, std::string_view attribute_name) {
  if (value.is(Kind::undefined)) return undefined_error(value);
  if (value.is(Kind::object)) return value.object()->attribute(*this, attribute_name);
  if (const Builtin method = find_method(value, attribute_name)) return make_function(method, value);
  if (is_mutator(value, attribute_name))
    return Value::missing(
        fmt::format("'{}' would change a {}, which is not allowed", attribute_name, value.type_name()));
  if (value.is(Kind::dict))
    if (const Value* found = value.dict().find(attribute_name)) return *found;
  return Value::missing(
      fmt::format("'{} object' has no attribute '{}'", value.type_name(), printable(attribute_name, 40)));
}

Result<Value> Renderer::item(const Value& value, const Value& key) {
  if (value.is(Kind::undefined)) return undefined_error(value);
  if (value.is(Kind::dict)) {
    if (const auto found = value.dict().find(key); found && *found != nullptr) return **found;
  } else if (key.is_whole() && value.is(Kind::list)) {
    const List& of = value.list();
    const int64_t n = static_cast<int64_t>(of.items.size());
    const int64_t i = key.whole() < 0 ? key.whole() + n : key.whole();
    const bool indexed = of.flavour == Flavour::list || of.flavour == Flavour::tuple;
    if (indexed && i >= 0 && i < n) return of.items[static_cast<size_t>(i)];
  } else if (key.is_whole() && value.is(Kind::string)) {
    const int64_t i = key.whole();
    const Value at = i, behind = i == INT64_MAX ? i : i + 1;
    const Value found = TRY(slice_of(*this, value, &at, i == -1 ? nullptr : &behind, nullptr));
    if (!found.text().empty()) return found;
  }
  if (key.is(Kind::string)) {
    // What a dict has under the name was looked for above: only a method may be left.
    if (!value.is(Kind::dict) || find_method(value, key.text()) != nullptr) return attribute(value, key.text());
    return Value::missing(fmt::format("'dict object' has no attribute '{}'", printable(key.text(), 40)));
  }
  return Value::missing(fmt::format("'{} object' has no such element", value.type_name()));
}

Result<std::shared_ptr<const List>> Renderer::items_of(const Value& value) {
  std::vector<Value> items;
  if (value.is(Kind::string)) {
    TRY(budget_.room(value.text().size() * (sizeof(Text) + sizeof(Value))));
    for (const std::string_view c : TRY(counted_characters(budget_, value.text())))
      items.push_back(text(std::string(c)));
  } else if (value.is(Kind::dict)) {
    TRY(budget_.spend(value.dict().items.size()));
    for (const auto& [key, v] : value.dict().items) items.push_back(key);
  } else if (!value.is(Kind::list) && !value.is(Kind::undefined)) {
    return failure(fmt::format("'{}' object is not iterable", value.type_name()));
  }
  const Value held = value.is(Kind::list) ? value : TRY(list(std::move(items)));
  return held.shared_list();
}

}  // namespace sluice::text::jinja
