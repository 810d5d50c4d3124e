// Values with a behaviour: namespaces, loops, macros, functions and bound methods.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/renderer.h"

namespace sluice::text::jinja {

class Namespace final : public Object {
 public:
  std::string_view type_name() const override { return "Namespace"; }
  uint32_t depth() const override { return depth_; }
  Result<Value> attribute(Renderer& renderer, std::string_view name) override;
  Result<void> set(std::string_view name, const Value& value);
  void clear() { members_.clear(); }

 private:
  std::map<std::string, Value, std::less<>> members_;
  uint32_t depth_ = 1;
};

// The variable `loop`. Items behind the present one are looked at, and the loop's condition asked, no earlier than
// needed, since a body may change what the condition reads.
class Loop final : public Object {
 public:
  Loop(const Stmt& stmt, std::shared_ptr<const List> items, ScopePtr scope, uint32_t level)
      : stmt_(stmt), items_(std::move(items)), scope_(std::move(scope)), level_(level) {}
  std::string_view type_name() const override { return "LoopContext"; }
  bool callable() const override { return true; }
  uint32_t depth() const override { return items_->depth + 1; }
  Result<Value> attribute(Renderer& renderer, std::string_view name) override;
  Result<Value> call(Renderer& renderer, Arguments& arguments) override;

  // False: there is no further item.
  Result<bool> advance(Renderer& renderer);
  const Value& current() const { return passed(at_ - 1); }

 private:
  bool has_condition() const { return stmt_.exprs[2] != nullptr; }
  const Value& passed(size_t i) const { return has_condition() ? passed_[i] : items_->items[i]; }
  size_t n_passed() const { return has_condition() ? passed_.size() : items_->items.size(); }
  // Asks the condition until n items have passed or there are no more.
  Result<void> look_ahead(Renderer& renderer, size_t n);

  const Stmt& stmt_;
  const std::shared_ptr<const List> items_;
  const ScopePtr scope_;  // null where it is not needed
  const uint32_t level_;
  std::vector<Value> passed_;
  size_t asked_ = 0, at_ = 0;
};

class Macro final : public Object {
 public:
  Macro(const Stmt& stmt, ScopePtr scope) : stmt_(stmt), scope_(std::move(scope)) {}
  std::string_view type_name() const override { return "Macro"; }
  bool callable() const override { return true; }
  Result<Value> attribute(Renderer& renderer, std::string_view name) override;
  Result<Value> call(Renderer& renderer, Arguments& arguments) override;

 private:
  Result<void> bind(Renderer& renderer, Arguments& arguments, const ScopePtr& scope) const;
  Result<void> bind_rest(Renderer& renderer, Arguments& arguments, const ScopePtr& scope) const;

  const Stmt& stmt_;
  const ScopePtr scope_;
};

// A function, or a method of `self`.
class Function final : public Object {
 public:
  explicit Function(Builtin function, Value self = {}) : function_(function), self_(std::move(self)) {}
  std::string_view type_name() const override { return "function"; }
  bool callable() const override { return true; }
  uint32_t depth() const override { return self_.depth() + 1; }
  Result<Value> call(Renderer& renderer, Arguments& arguments) override {
    return function_(renderer, self_, arguments);
  }

 private:
  const Builtin function_;
  const Value self_;
};

inline Value make_function(Builtin function, Value self = {}) {
  return std::shared_ptr<Object>(std::make_shared<Function>(function, std::move(self)));
}

}  // namespace sluice::text::jinja
