// Statements.
#include "text/jinja/renderer.h"

#include <fmt/format.h>

#include "text/jinja/builtins.h"
#include "text/jinja/objects.h"
#include "text/jinja/python_text.h"

namespace sluice::text::jinja {

Renderer::Renderer(const Ast& ast, const ChatTemplateLimits& limits, const LocalTime& now)
    : budget_{.steps = limits.steps, .memory = limits.memory_bytes}, ast_(ast), limits_(limits), now_(now) {}

Renderer::~Renderer() {
  for (const auto& each : namespaces_) each->clear();
  for (const ScopePtr& scope : kept_) scope->names.clear();
  for (const ScopePtr& scope : kept_) scope->parent.reset();
}

Result<std::string> Renderer::run(const std::vector<std::pair<std::string_view, Value>>& variables) {
  const auto scope = std::make_shared<Scope>(nullptr);
  keep(scope);
  for (const auto& [name, value] : variables) scope->names[name] = value;
  std::string out;
  out_ = &out;
  TRY(run_body(ast_.body, scope));
  return out;
}

Error Renderer::refusal(std::string message) {
  refused_ = true;
  return failure(std::move(message));
}

void Renderer::keep(const ScopePtr& scope) {
  if (std::exchange(scope->kept, true)) return;
  kept_.push_back(scope);
  budget_.held += sizeof(Scope) + sizeof(ScopePtr);
}

Result<Value> Renderer::new_namespace(const std::vector<std::pair<std::string, Value>>& members) {
  const auto made = std::make_shared<Namespace>();
  namespaces_.push_back(made);
  budget_.held += sizeof(Namespace) + 64;
  for (const auto& [name, value] : members) TRY(made->set(name, value));
  return Value(std::shared_ptr<Object>(made));
}

Result<void> Renderer::check_depth() {
  TRY(budget_.spend());
  if (depth_ <= limits_.depth) return {};
  return failure("its calls, blocks and expressions lie too deep in each other");
}

Result<void> Renderer::emit(std::string_view text) {
  TRY(budget_.spend_bytes(text.size()));
  *out_ += text;
  budget_.held += text.size();
  if (out_->size() <= limits_.output_bytes) return {};
  return failure(fmt::format("it writes more than {} MiB", limits_.output_bytes >> 20));
}

template <class F>
Result<std::string> Renderer::capture(F&& run) {
  std::string text;
  std::string* const before = std::exchange(out_, &text);
  const auto done = run();
  out_ = before;
  budget_.held -= text.size();
  if (!done) return done.error();
  return text;
}

Result<std::string> Renderer::captured(const Body& body, const ScopePtr& scope) {
  return capture([&] { return run_body(body, scope); });
}

Result<std::string> Renderer::loop_text(const Stmt& s, const Value& iterable, const ScopePtr& scope, uint32_t level) {
  return capture([&] { return loop(s, iterable, scope, level); });
}

Result<Renderer::Flow> Renderer::run_body(const Body& body, const ScopePtr& scope) {
  for (const Stmt* s : body) {
    const Flow flow = TRY(exec(*s, scope));
    if (flow != Flow::on) return flow;
  }
  return Flow::on;
}

// Says the line of the innermost statement that failed.
Result<Renderer::Flow> Renderer::exec(const Stmt& s, const ScopePtr& scope) {
  const Depth depth(*this);
  TRY(check_depth());
  auto done = exec_here(s, scope);
  if (!done && !refused_ && !std::exchange(located_, true))
    done.error().message = fmt::format("line {}: {}", s.line, done.error().message);
  return done;
}

Result<Renderer::Flow> Renderer::exec_here(const Stmt& s, const ScopePtr& scope) {
  switch (s.kind) {
    case Stmt::Kind::text:
      TRY(emit(s.text));
      break;
    case Stmt::Kind::print:
      TRY(print(*s.exprs[0], scope));
      break;
    case Stmt::Kind::branch:
      return branch(s, scope);
    case Stmt::Kind::loop:
      return loop(s, TRY(eval(*s.exprs[1], scope)), scope, 1);
    case Stmt::Kind::set:
      TRY(set(s, scope));
      break;
    case Stmt::Kind::set_block:
      TRY(set_block(s, scope));
      break;
    case Stmt::Kind::macro:
      scope->names[s.text] = macro(s, scope);
      break;
    case Stmt::Kind::call_block:
      TRY(call_block(s, scope));
      break;
    case Stmt::Kind::filter_block:
      TRY(filter_block(s, scope));
      break;
    case Stmt::Kind::with:
      return with(s, scope);
    case Stmt::Kind::break_loop:
      return Flow::break_loop;
    case Stmt::Kind::continue_loop:
      return Flow::continue_loop;
  }
  return Flow::on;
}

Result<void> Renderer::print(const Expr& e, const ScopePtr& scope) {
  const Value value = TRY(eval(e, scope));
  if (value.is(Value::Kind::string)) return emit(value.text());
  return emit(TRY(str(budget_, value)));
}

Result<Renderer::Flow> Renderer::branch(const Stmt& s, const ScopePtr& scope) {
  for (size_t i = 0; i < s.exprs.size(); ++i)
    if (TRY(eval(*s.exprs[i], scope)).truth()) return run_body(s.bodies[i], scope);
  if (s.bodies.size() > s.exprs.size()) return run_body(s.bodies.back(), scope);
  return Flow::on;
}

Result<Renderer::Flow> Renderer::loop(const Stmt& s, const Value& iterable, const ScopePtr& scope, uint32_t level) {
  const bool holds_scope = s.recursive || s.exprs[2] != nullptr;
  if (holds_scope) keep(scope);
  const auto items = TRY(items_of(iterable));
  const auto state = std::make_shared<Loop>(s, items, holds_scope ? scope : nullptr, level);
  const Value loop_value = std::shared_ptr<Object>(state);
  bool any = false;
  for (ScopePtr inner; TRY(state->advance(*this)); any = true) {
    TRY(budget_.spend());
    if (inner != nullptr && inner.use_count() == 1)
      inner->names.clear();
    else
      inner = std::make_shared<Scope>(scope);
    inner->names["loop"] = loop_value;
    TRY(assign(*s.exprs[0], state->current(), inner));
    if (TRY(run_body(s.bodies[0], inner)) == Flow::break_loop) {
      any = true;
      break;
    }
  }
  if (any || s.bodies.size() < 2) return Flow::on;
  return run_body(s.bodies[1], std::make_shared<Scope>(scope));
}

Result<void> Renderer::assign(const Expr& target, const Value& value, const ScopePtr& scope) {
  if (target.kind == Expr::Kind::name) {
    scope->names[target.text] = value;
    return {};
  }
  if (target.kind == Expr::Kind::attribute) {
    const Value owner = TRY(eval(*target.parts[0], scope));
    const auto space = owner.is(Value::Kind::object) ? std::dynamic_pointer_cast<Namespace>(owner.object()) : nullptr;
    if (space == nullptr) return failure("only a namespace's attributes can be set");
    return space->set(target.text, value);
  }
  const auto items = TRY(items_of(value));
  if (items->items.size() != target.parts.size())
    return failure(fmt::format("{} names stand for {} values", target.parts.size(), items->items.size()));
  for (size_t i = 0; i < target.parts.size(); ++i) TRY(assign(*target.parts[i], items->items[i], scope));
  return {};
}

Result<void> Renderer::set(const Stmt& s, const ScopePtr& scope) {
  const Value value = TRY(eval(*s.exprs[1], scope));
  return assign(*s.exprs[0], value, scope);
}

Result<void> Renderer::filter_block(const Stmt& s, const ScopePtr& scope) {
  const Value body = text(TRY(captured(s.bodies[0], std::make_shared<Scope>(scope))));
  const Value filtered = TRY(filters(*s.exprs[0], &body, scope));
  return emit(TRY(str(budget_, filtered)));
}

Result<void> Renderer::set_block(const Stmt& s, const ScopePtr& scope) {
  Value value = text(TRY(captured(s.bodies[0], std::make_shared<Scope>(scope))));
  if (s.exprs[1] != nullptr) value = TRY(filters(*s.exprs[1], &value, scope));
  return assign(*s.exprs[0], value, scope);
}

Result<Renderer::Flow> Renderer::with(const Stmt& s, const ScopePtr& scope) {
  const auto inner = std::make_shared<Scope>(scope);
  for (size_t i = 0; i < s.exprs.size(); i += 2) {
    const Value value = TRY(eval(*s.exprs[i + 1], scope));
    TRY(assign(*s.exprs[i], value, inner));
  }
  return run_body(s.bodies[0], inner);
}

Value Renderer::macro(const Stmt& s, const ScopePtr& scope) {
  keep(scope);
  return std::shared_ptr<Object>(std::make_shared<Macro>(s, scope));
}

Result<void> Renderer::call_block(const Stmt& s, const ScopePtr& scope) {
  const Expr& e = *s.exprs[0];
  const Value callee = TRY(eval(*e.parts[0], scope));
  Arguments given = TRY(arguments(e, scope));
  given.named.emplace_back("caller", macro(s, scope));
  const Value called = TRY(call(callee, given));
  return emit(TRY(str(budget_, called)));
}

}  // namespace sluice::text::jinja
