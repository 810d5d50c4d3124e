#include <algorithm>
#include <charconv>

#include "text/jinja/parser_base.h"

namespace sluice::text::jinja {
namespace {

constexpr uint32_t kMaxDepth = 200;    // of the parser
constexpr uint32_t kMaxHeight = 250;   // of an expression
constexpr size_t kMaxNodes = 200'000;  // of a template

using Kind = Token::Kind;

}  // namespace

Result<void> ExprParser::check_depth() const {
  if (depth_ <= kMaxDepth) return {};
  return error(fmt::format("expressions and blocks lie more than {} deep in each other", kMaxDepth));
}

Error ExprParser::unexpected(std::string_view wanted) const {
  const Token& t = peek();
  constexpr std::string_view kNames[] = {"text", "{%", "%}", "{{", "}}", "", "", "", "", "", "the end"};
  const std::string_view name = kNames[static_cast<size_t>(t.kind)];
  return error(fmt::format("expected {}, not '{}'", wanted, name.empty() ? printable(t.text, 40) : std::string(name)));
}

Result<void> ExprParser::expect_op(std::string_view op) {
  if (skip_op(op)) return {};
  return unexpected(fmt::format("'{}'", op));
}

Result<std::string> ExprParser::expect_name(std::string_view what) {
  if (peek().kind != Kind::name) return unexpected(what);
  return next().text;
}

ExprParser::Parsed ExprParser::add(Expr e) {
  const auto below = [&e](const Expr* part) {
    if (part != nullptr) e.height = std::max(e.height, part->height + 1);
  };
  for (const Expr* part : e.parts) below(part);
  for (const NamedExpr& n : e.named) below(n.value);
  below(e.star);
  below(e.star_star);
  if (e.height > kMaxHeight) return error("an expression is too long a chain");
  if (ast_.exprs.size() >= kMaxNodes) return error("the template is too large");
  return &ast_.exprs.emplace_back(std::move(e));
}

ExprParser::Parsed ExprParser::constant(Value value) {
  return add({.kind = Expr::Kind::constant, .value = std::move(value)});
}

ExprParser::Parsed ExprParser::expression() {
  const Nested nested(depth_);
  TRY(check_depth());
  const Expr* e = TRY(any());
  while (skip_name("if")) {
    const Expr* condition = TRY(any());
    const Expr* other = skip_name("else") ? TRY(expression()) : nullptr;
    e = TRY(add({.kind = Expr::Kind::condition, .parts = {e, condition, other}}));
  }
  return e;
}

ExprParser::Parsed ExprParser::tuple_or_expression(bool conditions) {
  const auto one = [&] { return conditions ? expression() : any(); };
  const Expr* first = TRY(one());
  if (!is_op(",")) return first;
  Expr tuple{.kind = Expr::Kind::tuple, .parts = {first}};
  while (skip_op(",")) {
    const Kind kind = peek().kind;
    if (kind == Kind::block_end || kind == Kind::print_end || is_op(")") || is_op("=") || is_name("in")) break;
    tuple.parts.push_back(TRY(one()));
  }
  return add(std::move(tuple));
}

ExprParser::Parsed ExprParser::target(bool attributes) {
  const Nested nested(depth_);
  TRY(check_depth());
  std::vector<const Expr*> parts;
  bool tuple = false;
  do {
    if (!parts.empty() && peek().kind != Kind::name && !is_op("(")) break;  // a comma at the end
    if (skip_op("(")) {
      parts.push_back(TRY(target(false)));
      TRY(expect_op(")"));
    } else {
      std::string text = TRY(expect_name("a name"));
      const Expr* name = TRY(add({.kind = Expr::Kind::name, .text = std::move(text)}));
      if (attributes && skip_op(".")) {
        std::string member = TRY(expect_name("a name"));
        name = TRY(add({.kind = Expr::Kind::attribute, .text = std::move(member), .parts = {name}}));
      }
      parts.push_back(name);
    }
    tuple = tuple || is_op(",");
  } while (skip_op(","));
  if (!tuple) return parts[0];
  return add({.kind = Expr::Kind::tuple, .parts = std::move(parts)});
}

ExprParser::Parsed ExprParser::any() {
  std::vector<const Expr*> parts{TRY(all())};
  while (skip_name("or")) parts.push_back(TRY(all()));
  if (parts.size() == 1) return parts[0];
  return add({.kind = Expr::Kind::any, .parts = std::move(parts)});
}

ExprParser::Parsed ExprParser::all() {
  std::vector<const Expr*> parts{TRY(negation())};
  while (skip_name("and")) parts.push_back(TRY(negation()));
  if (parts.size() == 1) return parts[0];
  return add({.kind = Expr::Kind::all, .parts = std::move(parts)});
}

ExprParser::Parsed ExprParser::negation() {
  bool negated = false, any = false;
  for (; skip_name("not"); any = true) negated = !negated;
  const Expr* e = TRY(comparison());
  if (any && !negated) e = TRY(add({.kind = Expr::Kind::negation, .parts = {e}}));
  return any ? add({.kind = Expr::Kind::negation, .parts = {e}}) : Parsed(e);
}

ExprParser::Parsed ExprParser::comparison() {
  constexpr std::pair<std::string_view, Op> kOps[] = {{"==", Op::eq}, {"!=", Op::ne}, {"<", Op::lt},
                                                      {"<=", Op::le}, {">", Op::gt},  {">=", Op::ge}};
  Expr e{.kind = Expr::Kind::compare, .parts = {TRY(binary(0))}};
  for (;;) {
    const auto op = std::find_if(std::begin(kOps), std::end(kOps), [&](const auto& o) { return is_op(o.first); });
    if (op != std::end(kOps)) {
      next();
      e.ops.push_back(op->second);
    } else if (skip_name("in")) {
      e.ops.push_back(Op::in);
    } else if (is_name("not") && is_name("in", 1)) {
      next();
      next();
      e.ops.push_back(Op::not_in);
    } else {
      break;
    }
    e.parts.push_back(TRY(binary(0)));
  }
  return e.ops.empty() ? Parsed(e.parts[0]) : add(std::move(e));
}

// Level 0: sums, 1: products, 2: powers.
ExprParser::Parsed ExprParser::binary(int level) {
  struct Row {
    std::string_view text;
    Op op;
    int level;
  };
  constexpr Row kOps[] = {{"+", Op::add, 0}, {"-", Op::sub, 0},        {"*", Op::mul, 1}, {"/", Op::div, 1},
                          {"%", Op::mod, 1}, {"//", Op::floor_div, 1}, {"**", Op::pow, 2}};
  const auto operand = [&] { return level == 0 ? concat() : level == 1 ? binary(2) : unary(true); };
  Expr e{.kind = Expr::Kind::binary, .parts = {TRY(operand())}};
  for (;;) {
    const auto op =
        std::find_if(std::begin(kOps), std::end(kOps), [&](const Row& o) { return o.level == level && is_op(o.text); });
    if (op == std::end(kOps)) break;
    next();
    e.ops.push_back(op->op);
    e.parts.push_back(TRY(operand()));
  }
  return e.ops.empty() ? Parsed(e.parts[0]) : add(std::move(e));
}

ExprParser::Parsed ExprParser::concat() {
  std::vector<const Expr*> parts{TRY(binary(1))};
  while (skip_op("~")) parts.push_back(TRY(binary(1)));
  if (parts.size() == 1) return parts[0];
  return add({.kind = Expr::Kind::concat, .parts = std::move(parts)});
}

ExprParser::Parsed ExprParser::unary(bool with_filters) {
  const Nested nested(depth_);
  TRY(check_depth());
  const Expr* e = nullptr;
  if (is_op("-") || is_op("+")) {
    const Op op = next().text == "-" ? Op::neg : Op::pos;
    const Expr* operand = TRY(unary(false));
    e = TRY(add({.kind = Expr::Kind::unary, .parts = {operand}, .ops = {op}}));
  } else {
    e = TRY(primary());
  }
  e = TRY(postfix(e));
  return with_filters ? filters(e) : Parsed(e);
}

ExprParser::Parsed ExprParser::number(const Token& token) {
  const std::string& t = token.text;
  if (token.kind == Kind::integer) {
    int64_t value = 0;
    if (std::from_chars(t.data(), t.data() + t.size(), value).ec != std::errc()) return error("a number is too large");
    return constant(value);
  }
  double value = 0;
  if (std::from_chars(t.data(), t.data() + t.size(), value).ec != std::errc()) return error("a number is out of range");
  return constant(value);
}

ExprParser::Parsed ExprParser::primary() {
  const Token& t = peek();
  if (t.kind == Kind::name) {
    next();
    if (t.text == "true" || t.text == "True") return constant(true);
    if (t.text == "false" || t.text == "False") return constant(false);
    if (t.text == "none" || t.text == "None") return constant(None{});
    saw_varargs_ = saw_varargs_ || t.text == "varargs";
    saw_kwargs_ = saw_kwargs_ || t.text == "kwargs";
    saw_caller_ = saw_caller_ || t.text == "caller";
    return add({.kind = Expr::Kind::name, .text = t.text});
  }
  if (t.kind == Kind::string) {
    std::string text;
    while (peek().kind == Kind::string) text += next().text;
    return constant(make_text(ast_.budget, std::move(text)));
  }
  if (t.kind == Kind::integer || t.kind == Kind::real) return number(next());
  if (skip_op("(")) return parenthesis();
  if (skip_op("[")) return list();
  if (skip_op("{")) return dict();
  return unexpected("an expression");
}

ExprParser::Parsed ExprParser::parenthesis() {
  if (skip_op(")")) return add({.kind = Expr::Kind::tuple});
  const Expr* e = TRY(tuple_or_expression());
  TRY(expect_op(")"));
  return e;
}

ExprParser::Parsed ExprParser::list() {
  Expr e{.kind = Expr::Kind::list};
  while (!skip_op("]")) {
    if (!e.parts.empty()) TRY(expect_op(","));
    if (skip_op("]")) break;
    e.parts.push_back(TRY(expression()));
  }
  return add(std::move(e));
}

ExprParser::Parsed ExprParser::dict() {
  Expr e{.kind = Expr::Kind::dict};
  while (!skip_op("}")) {
    if (!e.parts.empty()) TRY(expect_op(","));
    if (skip_op("}")) break;
    e.parts.push_back(TRY(expression()));
    TRY(expect_op(":"));
    e.parts.push_back(TRY(expression()));
  }
  return add(std::move(e));
}

ExprParser::Parsed ExprParser::postfix(const Expr* e) {
  for (;;) {
    if (skip_op("."))
      e = TRY(attribute(e));
    else if (skip_op("["))
      e = TRY(subscript(e));
    else if (is_op("("))
      e = TRY(call(e));
    else
      return e;
  }
}

ExprParser::Parsed ExprParser::filters(const Expr* e) {
  for (;;) {
    if (skip_op("|"))
      e = TRY(filter(e));
    else if (skip_name("is"))
      e = TRY(test(e));
    else if (is_op("("))
      e = TRY(call(e));
    else
      return e;
  }
}

ExprParser::Parsed ExprParser::attribute(const Expr* e) {
  if (peek().kind == Kind::integer) return add({.kind = Expr::Kind::item, .parts = {e, TRY(number(next()))}});
  return add({.kind = Expr::Kind::attribute, .text = TRY(expect_name("a name or number after '.'")), .parts = {e}});
}

ExprParser::Parsed ExprParser::subscript(const Expr* e) {
  Expr slice{.kind = Expr::Kind::slice, .parts = {e, nullptr, nullptr, nullptr}};
  size_t part = 1;
  for (bool sliced = false;; ++part) {
    if (!is_op(":") && !is_op("]")) slice.parts[part] = TRY(tuple_or_expression());
    if (skip_op("]")) {
      if (sliced) return add(std::move(slice));
      if (slice.parts[1] == nullptr) return unexpected("an expression");
      return add({.kind = Expr::Kind::item, .parts = {e, slice.parts[1]}});
    }
    if (part == 3) return unexpected("']'");
    TRY(expect_op(":"));
    sliced = true;
  }
}

Result<void> ExprParser::arguments(Expr& e) {
  TRY(expect_op("("));
  for (bool first = true; !skip_op(")"); first = false) {
    if (!first) TRY(expect_op(","));
    if (skip_op(")")) break;
    if (skip_op("**")) {
      e.star_star = TRY(expression());
    } else if (skip_op("*")) {
      e.star = TRY(expression());
    } else if (peek().kind == Kind::name && is_op("=", 1)) {
      std::string name = next().text;
      next();
      // Not within the braces: clang does not destroy what is half made when TRY leaves it.
      const Expr* value = TRY(expression());
      e.named.push_back({std::move(name), value});
    } else {
      if (!e.named.empty() || e.star != nullptr)
        return error("an argument without a name stands behind one with a name");
      e.parts.push_back(TRY(expression()));
    }
  }
  return {};
}

ExprParser::Parsed ExprParser::call(const Expr* e) {
  Expr c{.kind = Expr::Kind::call, .parts = {e}};
  TRY(arguments(c));
  return add(std::move(c));
}

ExprParser::Parsed ExprParser::filter(const Expr* e) {
  Expr f{.kind = Expr::Kind::filter, .text = TRY(expect_name("a filter's name")), .parts = {e}};
  if (is_op("(")) TRY(arguments(f));
  return add(std::move(f));
}

ExprParser::Parsed ExprParser::filter_chain() {
  const Expr* e = TRY(filter(nullptr));
  return filters(e);
}

ExprParser::Parsed ExprParser::test(const Expr* e) {
  const bool negated = skip_name("not");
  Expr t{.kind = Expr::Kind::test, .text = TRY(expect_name("a test's name")), .parts = {e}};
  const Kind kind = peek().kind;
  const bool word = is_name("else") || is_name("or") || is_name("and") || is_name("if") || is_name("is") ||
                    is_name("in") || is_name("not");
  if (is_op("(")) {
    TRY(arguments(t));
  } else if ((kind == Kind::name && !word) || kind == Kind::string || kind == Kind::integer || kind == Kind::real ||
             is_op("[") || is_op("{")) {
    const Expr* argument = TRY(primary());
    t.parts.push_back(TRY(postfix(argument)));
  }
  const Expr* tested = TRY(add(std::move(t)));
  return negated ? add({.kind = Expr::Kind::negation, .parts = {tested}}) : Parsed(tested);
}

Result<std::vector<NamedExpr>> ExprParser::params() {
  std::vector<NamedExpr> out;
  TRY(expect_op("("));
  while (!skip_op(")")) {
    if (!out.empty()) TRY(expect_op(","));
    if (skip_op(")")) break;
    std::string name = TRY(expect_name("a parameter's name"));
    const Expr* value = skip_op("=") ? TRY(expression()) : nullptr;
    if (value == nullptr && !out.empty() && out.back().value != nullptr)
      return error("a parameter without a default stands behind one with a default");
    out.push_back({std::move(name), value});
  }
  return out;
}

}  // namespace sluice::text::jinja
