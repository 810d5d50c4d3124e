// What the parsers of expressions and of statements share.
#pragma once
#include <fmt/format.h>

#include <initializer_list>
#include <utility>

#include "base/text.h"
#include "text/jinja/ast.h"
#include "text/jinja/lexer.h"

namespace sluice::text::jinja {

class ExprParser {
 public:
  ExprParser(std::vector<Token> tokens, Ast& ast) : tokens_(std::move(tokens)), ast_(ast) {}

  using Parsed = Result<const Expr*>;
  Parsed expression();
  // An expression, or several with commas between them: a tuple. Without a condition where `if` has another meaning.
  Parsed tuple_or_expression(bool conditions = true);
  // What a value is assigned to: a name, name.attribute, or several of them.
  Parsed target(bool attributes);
  // a | b | c from where the first filter's name stands; nullptr as what they are applied to.
  Parsed filter_chain();
  // What a macro takes, from ( to ).
  Result<std::vector<NamedExpr>> params();

 protected:
  // Counts how deep the parser is; an Error instead of the stack's end.
  class Nested {
   public:
    explicit Nested(uint32_t& depth) : depth_(++depth) {}
    ~Nested() { --depth_; }
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;

   private:
    uint32_t& depth_;
  };
  Result<void> check_depth() const;

  const Token& peek(size_t ahead = 0) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }
  const Token& next() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
  bool is_op(std::string_view op, size_t ahead = 0) const { return peek(ahead).is(Token::Kind::op, op); }
  bool is_name(std::string_view name, size_t ahead = 0) const { return peek(ahead).is(Token::Kind::name, name); }
  bool skip_op(std::string_view op) { return is_op(op) && (next(), true); }
  bool skip_name(std::string_view name) { return is_name(name) && (next(), true); }
  Result<void> expect_op(std::string_view op);
  Result<std::string> expect_name(std::string_view what);
  Error unexpected(std::string_view wanted) const;
  Error error(const std::string& what) const { return syntax_error(peek().line, what); }

  const std::vector<Token> tokens_;
  size_t at_ = 0;
  Ast& ast_;
  uint32_t depth_ = 0;
  bool saw_varargs_ = false, saw_kwargs_ = false, saw_caller_ = false;

 private:
  Parsed add(Expr e);
  Parsed constant(Value value);
  Parsed any();
  Parsed all();
  Parsed negation();
  Parsed comparison();
  Parsed binary(int level);
  Parsed concat();
  Parsed unary(bool with_filters);
  Parsed primary();
  Parsed number(const Token& token);
  Parsed list();
  Parsed dict();
  Parsed parenthesis();
  Parsed postfix(const Expr* e);
  Parsed filters(const Expr* e);
  Parsed attribute(const Expr* e);
  Parsed subscript(const Expr* e);
  Parsed call(const Expr* e);
  Parsed filter(const Expr* e);
  Parsed test(const Expr* e);
  Result<void> arguments(Expr& e);
};

}  // namespace sluice::text::jinja
