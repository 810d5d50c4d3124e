// Arithmetic, membership and slices.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "text/jinja/ast.h"
#include "text/jinja/builtins.h"
#include "text/jinja/python_text.h"
#include "text/jinja/renderer.h"
#include "text/utf8.h"

namespace sluice::text::jinja {
namespace {

using Kind = Value::Kind;

Error no_operation(Op op, const Value& a, const Value& b) {
  constexpr std::string_view kNames[] = {"+", "-", "*", "/", "//", "%", "**"};
  const size_t i = static_cast<size_t>(op);
  return failure(
      fmt::format("no {} of '{}' and '{}'", i < std::size(kNames) ? kNames[i] : "sign", a.type_name(), b.type_name()));
}

Error too_large() { return failure("a whole number is too large"); }

int64_t floor_div(int64_t a, int64_t b) {
  const int64_t q = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

Result<Value> power(int64_t base, int64_t exponent) {
  if (exponent < 0) return Value(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  int64_t out = 1;
  for (; exponent != 0; exponent >>= 1) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(out, base, &out)) return too_large();
    if (exponent > 1 && __builtin_mul_overflow(base, base, &base)) return too_large();
  }
  return Value(out);
}

Result<Value> whole_arithmetic(Op op, int64_t a, int64_t b) {
  int64_t out = 0;
  switch (op) {
    case Op::add:
      return __builtin_add_overflow(a, b, &out) ? Result<Value>(too_large()) : Value(out);
    case Op::sub:
      return __builtin_sub_overflow(a, b, &out) ? Result<Value>(too_large()) : Value(out);
    case Op::mul:
      return __builtin_mul_overflow(a, b, &out) ? Result<Value>(too_large()) : Value(out);
    case Op::pow:
      return power(a, b);
    default:
      break;
  }
  if (b == 0) return failure("division by zero");
  if (op == Op::div) return Value(static_cast<double>(a) / static_cast<double>(b));
  if (b == -1) return op == Op::mod ? Value(int64_t{0}) : whole_arithmetic(Op::sub, 0, a);
  return Value(op == Op::mod ? a - floor_div(a, b) * b : floor_div(a, b));
}

Result<Value> real_arithmetic(Op op, double a, double b) {
  switch (op) {
    case Op::add:
      return Value(a + b);
    case Op::sub:
      return Value(a - b);
    case Op::mul:
      return Value(a * b);
    case Op::pow:
      return Value(std::pow(a, b));
    default:
      break;
  }
  if (b == 0) return failure("division by zero");
  if (op == Op::div) return Value(a / b);
  double rest = std::fmod(a, b);
  if (rest != 0 && (rest < 0) != (b < 0)) rest += b;
  return Value(op == Op::mod ? rest : std::floor((a - rest) / b + 0.5));
}

Result<Value> sum_of_texts(Renderer& r, const Value& a, const Value& b) {
  TRY(r.budget().spend_bytes(a.text().size() + b.text().size()));
  if (a.is_safe() == b.is_safe()) return r.text(a.text() + b.text(), a.is_safe());
  return r.text(a.is_safe() ? a.text() + html_escaped(b.text()) : html_escaped(a.text()) + b.text(), true);
}

Result<Value> sum_of_lists(Renderer& r, const Value& a, const Value& b) {
  std::vector<Value> items = a.list().items;
  TRY(r.budget().spend(items.size() + b.list().items.size()));
  items.insert(items.end(), b.list().items.begin(), b.list().items.end());
  return r.list(std::move(items), a.list().flavour);
}

Result<Value> repeated(Renderer& r, const Value& value, int64_t times) {
  const size_t n = times < 0 ? 0 : static_cast<size_t>(times);
  const bool is_text = value.is(Kind::string);
  const size_t n_bytes = is_text ? value.text().size() : value.list().items.size() * sizeof(Value);
  size_t total = 0;
  if (__builtin_mul_overflow(n, n_bytes, &total)) total = SIZE_MAX;
  TRY(r.budget().room(total));
  TRY(r.budget().spend_bytes(total));
  if (n_bytes == 0) return value;
  if (is_text) {
    std::string out;
    out.reserve(total);
    for (size_t i = 0; i < n; ++i) out += value.text();
    return r.text(std::move(out), value.is_safe());
  }
  std::vector<Value> items;
  for (size_t i = 0; i < n; ++i) items.insert(items.end(), value.list().items.begin(), value.list().items.end());
  return r.list(std::move(items), value.list().flavour);
}

bool is_sequence(const Value& v) {
  return v.is(Kind::string) ||
         (v.is(Kind::list) && (v.list().flavour == Flavour::list || v.list().flavour == Flavour::tuple));
}

}  // namespace

Result<Value> arithmetic(Renderer& r, uint8_t code, const Value& a, const Value& b) {
  const Op op = static_cast<Op>(code);
  if (op == Op::neg || op == Op::pos) {
    if (!a.is_number()) return no_operation(op, a, a);
    if (op == Op::neg) return a.is_whole() ? whole_arithmetic(Op::sub, 0, a.whole()) : Value(-a.number());
    return a.is_whole() ? Value(a.whole()) : a;
  }
  if (a.is_number() && b.is_number()) {
    if (a.is_whole() && b.is_whole()) return whole_arithmetic(op, a.whole(), b.whole());
    return real_arithmetic(op, a.number(), b.number());
  }
  if (op == Op::add && a.is(Kind::string) && b.is(Kind::string)) return sum_of_texts(r, a, b);
  if (op == Op::add && is_sequence(a) && is_sequence(b) && a.is(Kind::list) && b.is(Kind::list) &&
      a.list().flavour == b.list().flavour)
    return sum_of_lists(r, a, b);
  if (op == Op::mul && is_sequence(a) && b.is_whole()) return repeated(r, a, b.whole());
  if (op == Op::mul && is_sequence(b) && a.is_whole()) return repeated(r, b, a.whole());
  if (op == Op::mod && a.is(Kind::string)) {
    const bool tuple = b.is(Kind::list) && b.list().flavour == Flavour::tuple;
    return percent_format(r, a, tuple ? b.list().items : std::vector<Value>{b});
  }
  return no_operation(op, a, b);
}

Result<bool> contains(Renderer& r, const Value& item, const Value& container) {
  switch (container.kind()) {
    case Kind::undefined:
      return false;
    case Kind::string:
      if (!item.is(Kind::string))
        return failure(fmt::format("'in' a string wants a string, not '{}'", item.type_name()));
      TRY(r.budget().spend_search(container.text().size(), item.text().size()));
      return container.text().find(item.text()) != std::string::npos;
    case Kind::dict:
      return TRY(container.dict().find(item)) != nullptr;
    case Kind::list:
      for (const Value& each : container.list().items)
        if (TRY(equal(r.budget(), each, item))) return true;
      return false;
    default:
      return failure(fmt::format("'{}' object is not iterable", container.type_name()));
  }
}

namespace {

struct Bounds {
  int64_t first, end, by;

  bool done(int64_t i) const { return by < 0 ? i <= end : i >= end; }
  // Compared before it is added to, so that no step overflows.
  int64_t next(int64_t i) const { return (by < 0 ? by <= end - i : by >= end - i) ? end : i + by; }
};

Result<Bounds> bounds(int64_t n, const Value* start, const Value* stop, const Value* step) {
  for (const Value* bound : {start, stop, step})
    if (bound != nullptr && !bound->is_whole()) return failure("a slice's bounds must be whole numbers");
  const int64_t by = step == nullptr ? 1 : step->whole();
  if (by == 0) return failure("a slice's step cannot be zero");
  const auto clamp = [&](const Value* bound, int64_t otherwise) {
    if (bound == nullptr) return otherwise;
    const int64_t i = bound->whole() >= 0 ? bound->whole() : bound->whole() < -n ? -1 : bound->whole() + n;
    return std::max<int64_t>(by < 0 ? -1 : 0, std::min(i, by < 0 ? n - 1 : n));
  };
  return Bounds{clamp(start, by < 0 ? n - 1 : 0), clamp(stop, by < 0 ? -1 : n), by};
}

// Where the n-th character begins.
size_t offset_of(std::string_view text, int64_t n) {
  size_t at = 0;
  for (; n > 0; --n) at += utf8_step(text.substr(at)).n_bytes;
  return at;
}

Result<Value> slice_of_text(Renderer& r, const Value& value, const Bounds& b) {
  const std::string_view text = value.text();
  if (b.by == 1) {
    const std::string_view rest = text.substr(offset_of(text, b.first));
    return r.text(std::string(rest.substr(0, offset_of(rest, b.end - b.first))), value.is_safe());
  }
  const auto chars = TRY(counted_characters(r.budget(), text));
  std::string out;
  for (int64_t i = b.first; !b.done(i); i = b.next(i)) out += chars[static_cast<size_t>(i)];
  return r.text(std::move(out), value.is_safe());
}

}  // namespace

Result<Value> slice_of(Renderer& r, const Value& value, const Value* start, const Value* stop, const Value* step) {
  if (!is_sequence(value)) return failure(fmt::format("'{}' object cannot be sliced", value.type_name()));
  if (value.is(Kind::string)) {
    TRY(r.budget().spend_bytes(value.text().size()));
    const int64_t n = static_cast<int64_t>(n_characters(value.text()));
    return slice_of_text(r, value, TRY(bounds(n, start, stop, step)));
  }
  const auto& items = value.list().items;
  const Bounds b = TRY(bounds(static_cast<int64_t>(items.size()), start, stop, step));
  std::vector<Value> out;
  for (int64_t i = b.first; !b.done(i); i = b.next(i)) out.push_back(items[static_cast<size_t>(i)]);
  TRY(r.budget().spend(out.size()));
  return r.list(std::move(out), value.list().flavour);
}

}  // namespace sluice::text::jinja
