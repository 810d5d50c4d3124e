// Runs a template's tree. One Renderer renders once.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/chat_template.h"
#include "text/jinja/ast.h"

namespace sluice::text::jinja {

// Names and what they stand for. Loops, macros and some blocks have one of their own inside the one around them.
struct Scope {
  explicit Scope(std::shared_ptr<Scope> around) : parent(std::move(around)) {}
  std::shared_ptr<Scope> parent;
  std::map<std::string_view, Value> names;
  bool kept = false;
};
using ScopePtr = std::shared_ptr<Scope>;

class Renderer {
 public:
  Renderer(const Ast& ast, const ChatTemplateLimits& limits, const LocalTime& now);
  ~Renderer();
  Renderer(const Renderer&) = delete;
  Renderer& operator=(const Renderer&) = delete;

  // `variables`: their names stay valid until the end.
  Result<std::string> run(const std::vector<std::pair<std::string_view, Value>>& variables);

  Budget& budget() { return budget_; }
  const LocalTime& now() const { return now_; }
  // The template itself refuses the conversation.
  Error refusal(std::string message);
  bool refused() const { return refused_; }

  Result<Value> call(const Value& callee, Arguments& arguments);
  Result<Value> filter(std::string_view name, const Value& value, Arguments& arguments);
  Result<bool> test(std::string_view name, const Value& value, Arguments& arguments);
  // value.name and value[key]: undefined where there is none.
  Result<Value> attribute(const Value& value, std::string_view name);
  Result<Value> item(const Value& value, const Value& key);
  // What a loop over the value runs through.
  Result<std::shared_ptr<const List>> items_of(const Value& value);

  Value text(std::string t, bool safe = false) { return make_text(budget_, std::move(t), safe); }
  Result<Value> list(std::vector<Value> items, Flavour flavour = Flavour::list) {
    return make_list(budget_, std::move(items), flavour);
  }
  // They may take part in cycles of references, which the end of the rendering breaks.
  Result<Value> new_namespace(const std::vector<std::pair<std::string, Value>>& members);
  void keep(const ScopePtr& scope);

  // For loops and macros.
  Result<Value> eval(const Expr& e, const ScopePtr& scope);
  Result<void> assign(const Expr& target, const Value& value, const ScopePtr& scope);
  Result<std::string> captured(const Body& body, const ScopePtr& scope);
  Result<std::string> loop_text(const Stmt& loop, const Value& iterable, const ScopePtr& scope, uint32_t level);

 private:
  enum class Flow : uint8_t { on, break_loop, continue_loop };
  class Depth {
   public:
    explicit Depth(Renderer& renderer) : renderer_(renderer) { ++renderer_.depth_; }
    ~Depth() { --renderer_.depth_; }
    Depth(const Depth&) = delete;
    Depth& operator=(const Depth&) = delete;

   private:
    Renderer& renderer_;
  };

  Result<void> check_depth();
  Result<void> emit(std::string_view text);
  template <class F>
  Result<std::string> capture(F&& run_body);

  Result<Flow> run_body(const Body& body, const ScopePtr& scope);
  Result<Flow> exec(const Stmt& s, const ScopePtr& scope);
  Result<Flow> exec_here(const Stmt& s, const ScopePtr& scope);
  Result<void> print(const Expr& e, const ScopePtr& scope);
  Result<Flow> branch(const Stmt& s, const ScopePtr& scope);
  Result<Flow> loop(const Stmt& s, const Value& iterable, const ScopePtr& scope, uint32_t level);
  Result<void> set(const Stmt& s, const ScopePtr& scope);
  Result<void> filter_block(const Stmt& s, const ScopePtr& scope);
  Result<void> set_block(const Stmt& s, const ScopePtr& scope);
  Result<Flow> with(const Stmt& s, const ScopePtr& scope);
  Value macro(const Stmt& s, const ScopePtr& scope);
  Result<void> call_block(const Stmt& s, const ScopePtr& scope);

  Result<Value> name(const Expr& e, const ScopePtr& scope) const;
  Result<Value> sequence(const Expr& e, const ScopePtr& scope);
  Result<Value> dict(const Expr& e, const ScopePtr& scope);
  Result<Value> slice(const Expr& e, const ScopePtr& scope);
  Result<Value> logic(const Expr& e, const ScopePtr& scope);
  Result<Value> binary(const Expr& e, const ScopePtr& scope);
  Result<Value> compare(const Expr& e, const ScopePtr& scope);
  Result<Value> concat(const Expr& e, const ScopePtr& scope);
  Result<Value> condition(const Expr& e, const ScopePtr& scope);
  Result<Value> call_expr(const Expr& e, const ScopePtr& scope);
  // `e` with the filters in it, from the innermost on, applied to `value`.
  Result<Value> filters(const Expr& e, const Value* value, const ScopePtr& scope);
  Result<Value> test_expr(const Expr& e, const ScopePtr& scope);
  Result<Arguments> arguments(const Expr& e, const ScopePtr& scope);

  Budget budget_;  // first: values give back to it
  const Ast& ast_;
  const ChatTemplateLimits limits_;
  const LocalTime now_;
  uint32_t depth_ = 0;
  bool refused_ = false, located_ = false;
  std::string* out_ = nullptr;
  std::vector<ScopePtr> kept_;
  std::vector<std::shared_ptr<class Namespace>> namespaces_;
};

}  // namespace sluice::text::jinja
