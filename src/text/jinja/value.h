// Values as Python has them. Lists and dicts never change once made (the templates' own environment forbids it), so
// that the depth of a value is known; namespaces alone can change.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "sluice/result.h"

namespace sluice::text::jinja {

class Renderer;
class Value;
struct Arguments;

inline constexpr uint32_t kMaxValueDepth = 200;

inline Error failure(std::string message) { return {Code::unsupported, std::move(message)}; }

// What a rendering may still use.
struct Budget {
  uint64_t steps = UINT64_MAX;
  size_t memory = SIZE_MAX;  // bytes
  size_t held = 0;

  Result<void> spend(uint64_t n = 1);
  Result<void> spend_bytes(size_t n) { return spend(n / 64); }
  // For n bytes that are searched for m: what repeats itself may be compared again at every place.
  Result<void> spend_search(size_t n, size_t m) { return spend((n / 64 + 1) * (m / 16 + 1)); }
  // Whether n bytes more may be held: asked before much is made of little.
  Result<void> room(size_t n) const;
};

// A part of the memory, given back at the end.
class Share {
 public:
  Share(Budget& budget, size_t n) : budget_(budget), n_(n) { budget_.held += n_; }
  Share(const Share&) = delete;
  Share& operator=(const Share&) = delete;
  ~Share() { budget_.held -= n_; }

 private:
  Budget& budget_;
  size_t n_;
};

struct Undefined {
  std::shared_ptr<const std::string> why;  // for messages; may be null
};
struct None {};

struct Text {
  Text(Budget& budget, std::string t, bool is_safe)
      : text(std::move(t)), safe(is_safe), share(budget, text.capacity() + sizeof(Text)) {}
  std::string text;
  bool safe;  // marked as HTML: what is added to it gets escaped
  Share share;
};

// Views and generators iterate like lists but are neither indexed nor, generators, counted.
enum class Flavour : uint8_t { list, tuple, view, generator };

struct List {
  List(Budget& budget, std::vector<Value> v, Flavour f, uint32_t d);
  std::vector<Value> items;
  Flavour flavour;
  uint32_t depth;
  Share share;
};

struct Dict;

// What has a behaviour of its own: namespaces, loops, macros, functions.
class Object {
 public:
  virtual ~Object() = default;
  virtual std::string_view type_name() const = 0;
  virtual bool callable() const { return false; }
  virtual uint32_t depth() const { return 1; }
  virtual Result<Value> attribute(Renderer& renderer, std::string_view name);  // undefined where there is none
  virtual Result<Value> call(Renderer& renderer, Arguments& arguments);
};

class Value {
 public:
  enum class Kind : uint8_t { undefined, none, boolean, integer, real, string, list, dict, object };

  Value() = default;  // undefined
  Value(None none) : store_(none) {}
  Value(bool b) : store_(b) {}
  Value(int64_t i) : store_(i) {}
  Value(double d) : store_(d) {}
  Value(std::shared_ptr<const Text> s) : store_(std::move(s)) {}
  Value(std::shared_ptr<const List> l) : store_(std::move(l)) {}
  Value(std::shared_ptr<const Dict> d) : store_(std::move(d)) {}
  Value(std::shared_ptr<Object> o) : store_(std::move(o)) {}
  template <class T>
  Value(T*) = delete;  // would become a bool
  static Value missing(std::string why);

  Kind kind() const { return static_cast<Kind>(store_.index()); }
  bool is(Kind k) const { return kind() == k; }
  bool is_number() const { return is(Kind::boolean) || is(Kind::integer) || is(Kind::real); }
  bool is_whole() const { return is(Kind::boolean) || is(Kind::integer); }

  // Each only where kind() says so; whole() takes booleans too, number() all three.
  bool boolean() const { return *std::get_if<bool>(&store_); }
  int64_t whole() const;
  double number() const;
  const std::string& text() const { return (*std::get_if<std::shared_ptr<const Text>>(&store_))->text; }
  bool is_safe() const { return is(Kind::string) && (*std::get_if<std::shared_ptr<const Text>>(&store_))->safe; }
  const List& list() const { return **std::get_if<std::shared_ptr<const List>>(&store_); }
  std::shared_ptr<const List> shared_list() const { return *std::get_if<std::shared_ptr<const List>>(&store_); }
  const Dict& dict() const { return **std::get_if<std::shared_ptr<const Dict>>(&store_); }
  const std::shared_ptr<Object>& object() const { return *std::get_if<std::shared_ptr<Object>>(&store_); }
  const Undefined& undefined() const { return *std::get_if<Undefined>(&store_); }

  bool truth() const;
  uint32_t depth() const;
  std::string_view type_name() const;  // as Python's messages have it

 private:
  std::variant<Undefined, None, bool, int64_t, double, std::shared_ptr<const Text>, std::shared_ptr<const List>,
               std::shared_ptr<const Dict>, std::shared_ptr<Object>>
      store_;
};

struct Dict {
  explicit Dict(Budget& budget) : budget_(budget), share_(budget, sizeof(Dict)) {}
  ~Dict() { budget_.held -= held_; }
  Dict(const Dict&) = delete;
  Dict& operator=(const Dict&) = delete;

  // Replaces the value where the key is there. Only while the dict is being made.
  Result<void> set(const Value& key, const Value& value);
  const Value* find(std::string_view key) const;
  Result<const Value*> find(const Value& key) const;  // nullptr where it is not there

  std::vector<std::pair<Value, Value>> items;  // in the order they came
  uint32_t depth = 1;

 private:
  std::map<std::string, size_t, std::less<>> texts_, others_;  // index in items, by strings and by other keys
  Budget& budget_;
  size_t held_ = 0;
  Share share_;
};

struct Arguments {
  std::vector<Value> values;
  std::vector<std::pair<std::string, Value>> named;
};

// Filters, tests, methods and functions: `self` is what stands before | or is or the dot.
using Builtin = Result<Value> (*)(Renderer& renderer, const Value& self, Arguments& arguments);

Value make_text(Budget& budget, std::string text, bool safe = false);
Result<Value> make_list(Budget& budget, std::vector<Value> items, Flavour flavour = Flavour::list);

// Comparisons spend steps: values may share parts, which makes them larger than the memory they take.
Result<bool> equal(Budget& budget, const Value& a, const Value& b);
// -1, 0 or 1; NaN is equal to all. An Error where the types have no order.
Result<int> order(Budget& budget, const Value& a, const Value& b);

}  // namespace sluice::text::jinja
