// A template as a tree. The nodes lie in lists of the tree and point to each other, so that no chain of them, however
// long, is destroyed by recursion.
#pragma once
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/value.h"

namespace sluice::text::jinja {

struct Expr;

struct NamedExpr {
  std::string name;
  const Expr* value;
};

enum class Op : uint8_t { add, sub, mul, div, floor_div, mod, pow, eq, ne, lt, le, gt, ge, in, not_in, neg, pos };

struct Expr {
  enum class Kind : uint8_t {
    constant,   // value
    name,       // text
    list,       // parts; also
    tuple,      //
    dict,       // parts: key, value, key, value ...
    attribute,  // parts[0].text
    item,       // parts[0][parts[1]]
    slice,      // parts[0][parts[1]:parts[2]:parts[3]], any but the first nullptr
    call,       // parts[0](...): the arguments are parts from 1 on, named, star, star_star
    filter,     // parts[0] | text(...), arguments likewise; parts[0] is nullptr for the body of a filter block
    test,       // parts[0] is text(...), likewise
    unary,      // ops[0] parts[0]
    binary,     // parts[0] ops[0] parts[1] ops[1] parts[2] ..., from the left
    compare,    // parts[0] ops[0] parts[1] and parts[1] ops[1] parts[2] ...
    concat,     // parts[0] ~ parts[1] ~ ...
    all,        // and
    any,        // or
    negation,   // not parts[0]
    condition,  // parts[0] if parts[1] else parts[2]; without else nullptr
  };
  Kind kind = Kind::constant;
  uint32_t height = 1;  // levels below and with it
  std::string text;
  Value value;
  std::vector<const Expr*> parts;
  std::vector<Op> ops;
  std::vector<NamedExpr> named;
  const Expr* star = nullptr;
  const Expr* star_star = nullptr;
};

struct Stmt;
using Body = std::vector<const Stmt*>;

struct Stmt {
  enum class Kind : uint8_t {
    text,          // text
    print,         // exprs[0]
    branch,        // if exprs[i] then bodies[i]; one body more is the else
    loop,          // for exprs[0] in exprs[1] if exprs[2] (may be nullptr): bodies[0], else bodies[1]
    set,           // exprs[0] = exprs[1]
    set_block,     // exprs[0] = bodies[0] through exprs[1] (filters; may be nullptr)
    macro,         // text(params): bodies[0]
    call_block,    // exprs[0] is the call; params and bodies[0] are the caller's
    filter_block,  // bodies[0] through exprs[0]
    with,          // exprs: target, value, target, value ...; bodies[0]
    break_loop,
    continue_loop,
  };
  Kind kind = Kind::text;
  uint32_t line = 0;
  bool recursive = false;                                // a loop that may be called
  bool varargs = false, kwargs = false, caller = false;  // what a macro's body names
  std::string text;
  std::vector<const Expr*> exprs;
  std::vector<Body> bodies;
  std::vector<NamedExpr> params;  // value: the default, may be nullptr
};

struct Ast {
  Budget budget;  // of the constants
  std::deque<Expr> exprs;
  std::deque<Stmt> stmts;
  Body body;
};

}  // namespace sluice::text::jinja
