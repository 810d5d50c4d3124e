#include "text/jinja/value.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace sluice::text::jinja {

Result<void> Budget::spend(uint64_t n) {
  if (n > steps) {
    steps = 0;
    return failure("it takes too many steps");
  }
  steps -= n;
  if (held > memory) return failure(fmt::format("it needs more than {} MiB of memory", memory >> 20));
  return {};
}

Result<void> Budget::room(size_t n) const {
  if (held <= memory && n <= memory - held) return {};
  return failure(fmt::format("it needs more than {} MiB of memory", memory >> 20));
}

List::List(Budget& budget, std::vector<Value> v, Flavour f, uint32_t d)
    : items(std::move(v)), flavour(f), depth(d), share(budget, sizeof(List) + items.capacity() * sizeof(Value)) {}

Value Value::missing(std::string why) {
  Value v;
  v.store_ = Undefined{std::make_shared<const std::string>(std::move(why))};
  return v;
}

int64_t Value::whole() const { return is(Kind::boolean) ? int64_t{boolean()} : *std::get_if<int64_t>(&store_); }

double Value::number() const { return is(Kind::real) ? *std::get_if<double>(&store_) : static_cast<double>(whole()); }

bool Value::truth() const {
  switch (kind()) {
    case Kind::undefined:
    case Kind::none:
      return false;
    case Kind::boolean:
    case Kind::integer:
      return whole() != 0;
    case Kind::real:
      return number() != 0;
    case Kind::string:
      return !text().empty();
    case Kind::list:
      return list().flavour == Flavour::generator || !list().items.empty();
    case Kind::dict:
      return !dict().items.empty();
    case Kind::object:
      break;
  }
  return true;
}

uint32_t Value::depth() const {
  switch (kind()) {
    case Kind::list:
      return list().depth;
    case Kind::dict:
      return dict().depth;
    case Kind::object:
      return object()->depth();
    default:
      return 0;
  }
}

std::string_view Value::type_name() const {
  constexpr std::string_view kNames[] = {"Undefined", "NoneType", "bool", "int", "float", "str", "list", "dict"};
  if (is(Kind::object)) return object()->type_name();
  if (is(Kind::list) && list().flavour == Flavour::tuple) return "tuple";
  if (is(Kind::list) && list().flavour == Flavour::view) return "view";
  if (is(Kind::list) && list().flavour == Flavour::generator) return "generator";
  return kNames[static_cast<size_t>(kind())];
}

Result<Value> Object::attribute(Renderer&, std::string_view name) {
  return Value::missing(fmt::format("'{} object' has no attribute '{}'", type_name(), name));
}

Result<Value> Object::call(Renderer&, Arguments&) {
  return failure(fmt::format("'{}' object is not callable", type_name()));
}

namespace {

Error too_deep() { return failure(fmt::format("lists and dicts lie more than {} deep in each other", kMaxValueDepth)); }

// Equal keys have equal texts, as 1, 1.0 and True are.
Result<std::string> key_text(const Value& key) {
  switch (key.kind()) {
    case Value::Kind::none:
      return std::string("none");
    case Value::Kind::boolean:
    case Value::Kind::integer:
      return std::to_string(key.whole());
    case Value::Kind::real:
      if (const double d = key.number(); std::trunc(d) == d && std::abs(d) < 9e18)
        return std::to_string(static_cast<int64_t>(d));
      return fmt::format("{}", key.number());
    default:
      return failure(fmt::format("unhashable type: '{}'", key.type_name()));
  }
}

}  // namespace

Result<void> Dict::set(const Value& key, const Value& value) {
  const uint32_t below = std::max(depth, value.depth() + 1);
  if (below > kMaxValueDepth) return too_deep();
  auto& index = key.is(Value::Kind::string) ? texts_ : others_;
  std::string name = key.is(Value::Kind::string) ? key.text() : TRY(key_text(key));
  const size_t n_bytes = sizeof(items[0]) * 2 + 80 + name.size();
  const auto [at, is_new] = index.try_emplace(std::move(name), items.size());
  depth = below;
  if (!is_new) {
    items[at->second].second = value;
    return {};
  }
  items.emplace_back(key, value);
  held_ += n_bytes;
  budget_.held += n_bytes;
  return {};
}

const Value* Dict::find(std::string_view key) const {
  const auto at = texts_.find(key);
  return at == texts_.end() ? nullptr : &items[at->second].second;
}

Result<const Value*> Dict::find(const Value& key) const {
  if (key.is(Value::Kind::string)) return find(std::string_view(key.text()));
  const auto at = others_.find(TRY(key_text(key)));
  return at == others_.end() ? nullptr : &items[at->second].second;
}

Value make_text(Budget& budget, std::string text, bool safe) {
  return std::make_shared<const Text>(budget, std::move(text), safe);
}

Result<Value> make_list(Budget& budget, std::vector<Value> items, Flavour flavour) {
  uint32_t depth = 0;
  for (const Value& item : items) depth = std::max(depth, item.depth());
  if (depth >= kMaxValueDepth) return too_deep();
  return Value(std::make_shared<const List>(budget, std::move(items), flavour, depth + 1));
}

namespace {

Result<bool> equal_dicts(Budget& budget, const Dict& a, const Dict& b) {
  if (a.items.size() != b.items.size()) return false;
  for (const auto& [key, value] : a.items) {
    const Value* other = TRY(b.find(key));
    if (other == nullptr || !TRY(equal(budget, value, *other))) return false;
  }
  return true;
}

int sign_of(double a, double b) { return a < b ? -1 : a > b ? 1 : 0; }

}  // namespace

Result<bool> equal(Budget& budget, const Value& a, const Value& b) {
  using Kind = Value::Kind;
  TRY(budget.spend());
  if (a.is_number() && b.is_number())
    return a.is_whole() && b.is_whole() ? a.whole() == b.whole() : a.number() == b.number();
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::undefined:
    case Kind::none:
      return true;
    case Kind::string:
      TRY(budget.spend_bytes(std::min(a.text().size(), b.text().size())));
      return a.text() == b.text();
    case Kind::dict:
      return equal_dicts(budget, a.dict(), b.dict());
    case Kind::object:
      return a.object() == b.object();
    default:
      break;
  }
  const List &left = a.list(), &right = b.list();
  if (left.flavour != right.flavour || left.items.size() != right.items.size()) return false;
  for (size_t i = 0; i < left.items.size(); ++i)
    if (!TRY(equal(budget, left.items[i], right.items[i]))) return false;
  return true;
}

Result<int> order(Budget& budget, const Value& a, const Value& b) {
  using Kind = Value::Kind;
  TRY(budget.spend());
  if (a.is_whole() && b.is_whole()) return a.whole() < b.whole() ? -1 : int{a.whole() > b.whole()};
  if (a.is_number() && b.is_number()) return sign_of(a.number(), b.number());
  if (a.is(Kind::string) && b.is(Kind::string)) {
    TRY(budget.spend_bytes(std::min(a.text().size(), b.text().size())));
    const int c = a.text().compare(b.text());
    return c < 0 ? -1 : int{c > 0};
  }
  if (!a.is(Kind::list) || !b.is(Kind::list) || a.list().flavour != b.list().flavour)
    return failure(fmt::format("'{}' and '{}' have no order", a.type_name(), b.type_name()));
  const auto &left = a.list().items, &right = b.list().items;
  for (size_t i = 0; i < std::min(left.size(), right.size()); ++i) {
    if (TRY(equal(budget, left[i], right[i]))) continue;
    return order(budget, left[i], right[i]);
  }
  return left.size() < right.size() ? -1 : int{left.size() > right.size()};
}

}  // namespace sluice::text::jinja
