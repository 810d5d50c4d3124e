#include "text/jinja/json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "text/jinja/python_text.h"
#include "text/jinja/sort.h"
#include "text/utf8.h"

namespace sluice::text::jinja {
namespace {

// The parser calls these in turn and keeps no stack of its own frames, so that depth is bounded here alone.
class Reader {
 public:
  using number_integer_t = nlohmann::json::number_integer_t;
  using number_unsigned_t = nlohmann::json::number_unsigned_t;
  using number_float_t = nlohmann::json::number_float_t;
  using string_t = nlohmann::json::string_t;
  using binary_t = nlohmann::json::binary_t;

  explicit Reader(Budget& budget) : budget_(budget) {}

  bool null() { return put(None{}); }
  bool boolean(bool b) { return put(b); }
  bool number_integer(number_integer_t i) { return put(int64_t{i}); }
  bool number_unsigned(number_unsigned_t u) {
    return u > INT64_MAX ? put(static_cast<double>(u)) : put(static_cast<int64_t>(u));
  }
  bool number_float(number_float_t d, const string_t&) { return put(d); }
  bool string(string_t& s) { return put(make_text(budget_, std::move(s))); }
  bool binary(binary_t&) { return false; }
  bool key(string_t& s) {
    open_.back().keys.push_back(make_text(budget_, std::move(s)));
    return true;
  }
  bool start_object(size_t) { return open(true); }
  bool start_array(size_t) { return open(false); }
  bool end_object() {
    Open done = std::move(open_.back());
    open_.pop_back();
    n_open_ -= done.values.size();
    auto dict = std::make_shared<Dict>(budget_);
    for (size_t i = 0; i < done.keys.size(); ++i)
      if (!keep(dict->set(done.keys[i], done.values[i]))) return false;
    return put(Value(std::shared_ptr<const Dict>(std::move(dict))));
  }
  bool end_array() {
    Open done = std::move(open_.back());
    open_.pop_back();
    n_open_ -= done.values.size();
    auto list = make_list(budget_, std::move(done.values));
    return keep(list) && put(std::move(*list));
  }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception&) { return false; }

  Value root;
  std::optional<Error> error;

 private:
  struct Open {
    bool is_object;
    std::vector<Value> keys, values;
  };
  bool open(bool is_object) {
    open_.push_back({is_object, {}, {}});
    return open_.size() <= kMaxValueDepth || keep(Result<void>(failure("its lists and objects lie too deep")));
  }
  bool put(Value value) {
    (open_.empty() ? root : open_.back().values.emplace_back()) = std::move(value);
    return keep(budget_.room(++n_open_ * sizeof(Value)));
  }
  template <class T>
  bool keep(const Result<T>& result) {
    if (!result) error = result.error();
    return result.has_value();
  }

  Budget& budget_;
  std::vector<Open> open_;
  size_t n_open_ = 0;  // values that belong to no list or dict yet
};

class Writer {
 public:
  Writer(Budget& budget, const JsonStyle& style)
      : budget_(budget),
        style_(style),
        out_(budget),
        between_(style.item_separator.value_or(style.indent ? "," : ", ")),
        after_key_(style.key_separator.value_or(": ")) {}

  Result<void> put(const Value& value) {
    TRY(budget_.spend());
    if (out_.over()) return {};
    switch (value.kind()) {
      case Value::Kind::none:
        out_.add("null");
        return {};
      case Value::Kind::boolean:
        out_.add(value.boolean() ? "true" : "false");
        return {};
      case Value::Kind::integer:
        out_.add(std::to_string(value.whole()));
        return {};
      case Value::Kind::real:
        out_.add(number(value.number()));
        return {};
      case Value::Kind::string:
        quote(value.text());
        return {};
      case Value::Kind::list:
        return put_list(value.list());
      case Value::Kind::dict:
        return put_dict(value.dict());
      default:
        return failure(fmt::format("Object of type {} is not JSON serializable", value.type_name()));
    }
  }
  Result<std::string> take() { return out_.take(); }

 private:
  static std::string number(double d) {
    const std::string text = float_text(d);
    return text == "nan" ? "NaN" : text == "inf" ? "Infinity" : text == "-inf" ? "-Infinity" : text;
  }
  void line() {
    if (!style_.indent) return;
    out_.add("\n");
    for (size_t i = 0; i < level_; ++i) out_.add(*style_.indent);
  }
  void escape(uint32_t code) {
    if (code >= 0x10000) {
      escape(0xd800 + ((code - 0x10000) >> 10));
      code = 0xdc00 + ((code - 0x10000) & 0x3ff);
    }
    out_.add(fmt::format("\\u{:04x}", code));
  }
  void quote(std::string_view text) {
    constexpr std::string_view kSpecial = "\"\\\n\r\t\f\b", kLetters = "\"\\nrtfb";
    out_.add("\"");
    while (!text.empty() && !out_.over()) {
      const Utf8Step step = utf8_step(text);
      const std::string_view c = text.substr(0, step.n_bytes);
      text.remove_prefix(c.size());
      const size_t at = kSpecial.find(c);
      if (at != kSpecial.npos)
        out_.add("\\").add(kLetters.substr(at, 1));
      else if (c.size() == 1 && static_cast<unsigned char>(c[0]) < 0x20)
        escape(static_cast<unsigned char>(c[0]));
      else if (style_.ascii && c.size() > 1 && step.kind == Utf8Kind::character)
        escape(utf8_decode(c));
      else
        out_.add(c);
    }
    out_.add("\"");
  }
  Result<void> put_list(const List& list) {
    if (list.flavour != Flavour::list && list.flavour != Flavour::tuple)
      return failure("a view or generator is not JSON serializable");
    out_.add("[");
    ++level_;
    for (size_t i = 0; i < list.items.size(); ++i) {
      if (i != 0) out_.add(between_);
      line();
      TRY(put(list.items[i]));
    }
    --level_;
    if (!list.items.empty()) line();
    out_.add("]");
    return {};
  }
  Result<std::string> key_text(const Value& key) {
    if (key.is(Value::Kind::string)) return key.text();
    if (key.is(Value::Kind::none)) return std::string("null");
    if (key.is(Value::Kind::boolean)) return std::string(key.boolean() ? "true" : "false");
    if (key.is(Value::Kind::real)) return number(key.number());
    return std::to_string(key.whole());
  }
  Result<void> put_dict(const Dict& dict) {
    std::vector<const std::pair<Value, Value>*> items;
    for (const auto& item : dict.items) items.push_back(&item);
    if (style_.sort_keys) {
      const auto before = [&](const auto* a, const auto* b) -> Result<bool> {
        return TRY(order(budget_, a->first, b->first)) < 0;
      };
      TRY(merge_sort(items, before));
    }
    out_.add("{");
    ++level_;
    for (size_t i = 0; i < items.size(); ++i) {
      if (i != 0) out_.add(between_);
      line();
      quote(TRY(key_text(items[i]->first)));
      out_.add(after_key_);
      TRY(put(items[i]->second));
    }
    --level_;
    if (!items.empty()) line();
    out_.add("}");
    return {};
  }

  Budget& budget_;
  const JsonStyle& style_;
  Builder out_;
  std::string between_, after_key_;
  size_t level_ = 0;
};

}  // namespace

Result<Value> read_json(Budget& budget, std::string_view text, std::string_view what) {
  Reader reader(budget);
  if (nlohmann::json::sax_parse(text.begin(), text.end(), &reader)) return reader.root;
  const std::string why =
      reader.error ? reader.error->message : "it is not valid JSON; check brackets, commas and quotes";
  return Error{Code::invalid_argument, fmt::format("{}: {}", what, why)};
}

Result<std::string> write_json(Budget& budget, const Value& value, const JsonStyle& style) {
  Writer writer(budget, style);
  TRY(writer.put(value));
  return writer.take();
}

}  // namespace sluice::text::jinja
