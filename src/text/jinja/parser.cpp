#include "text/jinja/parser.h"

#include <algorithm>

#include "text/jinja/parser_base.h"

namespace sluice::text::jinja {
namespace {

using Kind = Token::Kind;

class Parser : public ExprParser {
 public:
  using ExprParser::ExprParser;

  Result<void> run() {
    ast_.body = TRY(body({}));
    return {};
  }

 private:
  using Made = Result<const Stmt*>;

  // Up to a block that begins with one of `ends`; its name is left to be read.
  Result<Body> body(std::initializer_list<std::string_view> ends) {
    const Nested nested(depth_);
    TRY(check_depth());
    Body out;
    for (;;) {
      const Token& t = peek();
      if (t.kind == Kind::end) {
        if (ends.size() != 0) return error(fmt::format("a block is open: expected {{% {} %}}", *std::prev(ends.end())));
        return out;
      }
      if (t.kind == Kind::data) {
        out.push_back(TRY(add({.kind = Stmt::Kind::text, .line = t.line, .text = t.text})));
        next();
      } else if (t.kind == Kind::print_begin) {
        next();
        const Expr* e = TRY(tuple_or_expression());
        out.push_back(TRY(add({.kind = Stmt::Kind::print, .line = t.line, .exprs = {e}})));
        TRY(expect(Kind::print_end, "}}"));
      } else {
        TRY(expect(Kind::block_begin, "{%"));
        if (std::any_of(ends.begin(), ends.end(), [&](std::string_view end) { return is_name(end); })) return out;
        TRY(statement(out));
      }
    }
  }

  Result<void> expect(Kind kind, std::string_view what) {
    if (peek().kind != kind) return unexpected(what);
    next();
    return {};
  }
  Result<void> end_of_block() { return expect(Kind::block_end, "%}"); }
  // The rest of a block up to its {% end %}.
  Result<Body> rest(std::string_view end) {
    TRY(end_of_block());
    Body out = TRY(body({end}));
    next();
    TRY(end_of_block());
    return out;
  }
  Made add(Stmt s) { return &ast_.stmts.emplace_back(std::move(s)); }

  Result<void> statement(Body& out) {
    const uint32_t line = peek().line;
    const std::string name = TRY(expect_name("a statement's name"));
    if (name == "generation") {  // marks what an assistant says; changes nothing
      const Body inside = TRY(rest("endgeneration"));
      out.insert(out.end(), inside.begin(), inside.end());
      return {};
    }
    Stmt s{.line = line};
    if (name == "if")
      TRY(branch(s));
    else if (name == "for")
      TRY(loop(s));
    else if (name == "set")
      TRY(set(s));
    else if (name == "macro")
      TRY(macro(s));
    else if (name == "call")
      TRY(call_block(s));
    else if (name == "filter")
      TRY(filter_block(s));
    else if (name == "with")
      TRY(with(s));
    else if (name == "break" || name == "continue")
      TRY(leave(s, name == "break"));
    else
      return syntax_error(line, fmt::format("there is no statement '{}'", printable(name, 40)));
    out.push_back(TRY(add(std::move(s))));
    return {};
  }

  Result<void> branch(Stmt& s) {
    s.kind = Stmt::Kind::branch;
    for (;;) {
      s.exprs.push_back(TRY(tuple_or_expression()));
      TRY(end_of_block());
      s.bodies.push_back(TRY(body({"elif", "else", "endif"})));
      if (!skip_name("elif")) break;
    }
    if (skip_name("else")) {
      TRY(end_of_block());
      s.bodies.push_back(TRY(body({"endif"})));
    }
    next();
    return end_of_block();
  }

  Result<void> loop(Stmt& s) {
    s.kind = Stmt::Kind::loop;
    s.exprs.push_back(TRY(target(false)));
    if (!skip_name("in")) return unexpected("'in'");
    s.exprs.push_back(TRY(tuple_or_expression(false)));
    s.exprs.push_back(skip_name("if") ? TRY(expression()) : nullptr);
    s.recursive = skip_name("recursive");
    TRY(end_of_block());
    ++n_loops_;
    s.bodies.push_back(TRY(body({"else", "endfor"})));
    --n_loops_;
    if (skip_name("else")) {
      TRY(end_of_block());
      s.bodies.push_back(TRY(body({"endfor"})));
    }
    next();
    return end_of_block();
  }

  Result<void> set(Stmt& s) {
    s.exprs.push_back(TRY(target(true)));
    if (skip_op("=")) {
      s.kind = Stmt::Kind::set;
      s.exprs.push_back(TRY(tuple_or_expression()));
      return end_of_block();
    }
    s.kind = Stmt::Kind::set_block;
    s.exprs.push_back(skip_op("|") ? TRY(filter_chain()) : nullptr);
    s.bodies.push_back(TRY(rest("endset")));
    return {};
  }

  // A body of its own: what it names and the loops around it concern it alone.
  Result<Body> own_body(Stmt& s, std::string_view end) {
    const bool varargs = saw_varargs_, kwargs = saw_kwargs_, caller = saw_caller_;
    const uint32_t n_loops = n_loops_;
    saw_varargs_ = saw_kwargs_ = saw_caller_ = false;
    n_loops_ = 0;
    Body out = TRY(rest(end));
    s.varargs = std::exchange(saw_varargs_, varargs);
    s.kwargs = std::exchange(saw_kwargs_, kwargs);
    s.caller = std::exchange(saw_caller_, caller);
    n_loops_ = n_loops;
    return out;
  }

  Result<void> macro(Stmt& s) {
    s.kind = Stmt::Kind::macro;
    s.text = TRY(expect_name("a macro's name"));
    s.params = TRY(params());
    s.bodies.push_back(TRY(own_body(s, "endmacro")));
    return {};
  }

  Result<void> call_block(Stmt& s) {
    s.kind = Stmt::Kind::call_block;
    s.text = "caller";
    if (is_op("(")) s.params = TRY(params());
    s.exprs.push_back(TRY(expression()));
    if (s.exprs[0]->kind != Expr::Kind::call) return unexpected("a call");
    s.bodies.push_back(TRY(own_body(s, "endcall")));
    return {};
  }

  Result<void> filter_block(Stmt& s) {
    s.kind = Stmt::Kind::filter_block;
    s.exprs.push_back(TRY(filter_chain()));
    s.bodies.push_back(TRY(rest("endfilter")));
    return {};
  }

  Result<void> with(Stmt& s) {
    s.kind = Stmt::Kind::with;
    while (peek().kind != Kind::block_end) {
      if (!s.exprs.empty()) TRY(expect_op(","));
      s.exprs.push_back(TRY(target_name()));
      TRY(expect_op("="));
      s.exprs.push_back(TRY(expression()));
    }
    s.bodies.push_back(TRY(rest("endwith")));
    return {};
  }
  Parsed target_name() {
    return &ast_.exprs.emplace_back(Expr{.kind = Expr::Kind::name, .text = TRY(expect_name("a name"))});
  }

  Result<void> leave(Stmt& s, bool breaks) {
    s.kind = breaks ? Stmt::Kind::break_loop : Stmt::Kind::continue_loop;
    if (n_loops_ == 0) return error("'break' and 'continue' belong into a loop");
    return end_of_block();
  }

  uint32_t n_loops_ = 0;
};

}  // namespace

Result<std::unique_ptr<const Ast>> parse(std::string_view text) {
  auto ast = std::make_unique<Ast>();
  std::vector<Token> tokens = TRY(tokens_of(text));
  TRY(Parser(std::move(tokens), *ast).run());
  return std::unique_ptr<const Ast>(std::move(ast));
}

}  // namespace sluice::text::jinja
