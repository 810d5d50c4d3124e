#include "text/jinja/objects.h"

#include <fmt/format.h>

#include <algorithm>

namespace sluice::text::jinja {
namespace {

// `self`: how many items came before.
Result<Value> cycle(Renderer&, const Value& self, Arguments& arguments) {
  if (arguments.values.empty()) return failure("loop.cycle() has nothing to choose from");
  return arguments.values[static_cast<size_t>(self.whole()) % arguments.values.size()];
}

}  // namespace

Result<Value> Namespace::attribute(Renderer& renderer, std::string_view name) {
  const auto at = members_.find(name);
  return at == members_.end() ? Object::attribute(renderer, name) : at->second;
}

Result<void> Namespace::set(std::string_view name, const Value& value) {
  const uint32_t below = std::max(depth_, value.depth() + 1);
  if (below > kMaxValueDepth) return failure("namespaces and lists lie too deep in each other");
  depth_ = below;
  members_.insert_or_assign(std::string(name), value);
  return {};
}

Result<void> Loop::look_ahead(Renderer& renderer, size_t n) {
  while (has_condition() && passed_.size() < n && asked_ < items_->items.size()) {
    const Value& item = items_->items[asked_++];
    const auto inner = std::make_shared<Scope>(scope_);
    TRY(renderer.assign(*stmt_.exprs[0], item, inner));
    if (TRY(renderer.eval(*stmt_.exprs[2], inner)).truth()) passed_.push_back(item);
  }
  return {};
}

Result<bool> Loop::advance(Renderer& renderer) {
  TRY(look_ahead(renderer, at_ + 1));
  if (at_ >= n_passed()) return false;
  ++at_;
  return true;
}

Result<Value> Loop::attribute(Renderer& renderer, std::string_view name) {
  const auto whole = [](size_t n) { return Value(static_cast<int64_t>(n)); };
  if (name == "index") return whole(at_);
  if (name == "index0") return whole(at_ - 1);
  if (name == "first") return Value(at_ == 1);
  if (name == "depth") return whole(level_);
  if (name == "depth0") return whole(level_ - 1);
  if (name == "previtem") return at_ > 1 ? passed(at_ - 2) : Value::missing("there is no previous item");
  if (name == "last" || name == "nextitem") {
    TRY(look_ahead(renderer, at_ + 1));
    if (name == "last") return Value(at_ >= n_passed());
    return at_ < n_passed() ? passed(at_) : Value::missing("there is no next item");
  }
  if (name == "length" || name == "revindex" || name == "revindex0") {
    TRY(look_ahead(renderer, SIZE_MAX));
    return whole(name == "length" ? n_passed() : n_passed() - at_ + (name == "revindex" ? 1 : 0));
  }
  if (name == "cycle") return make_function(cycle, whole(at_ - 1));
  return Object::attribute(renderer, name);
}

Result<Value> Loop::call(Renderer& renderer, Arguments& arguments) {
  if (!stmt_.recursive) return failure("the loop is not marked 'recursive'");
  if (arguments.values.size() != 1) return failure("loop() takes one argument");
  return renderer.text(TRY(renderer.loop_text(stmt_, arguments.values[0], scope_, level_ + 1)));
}

Result<Value> Macro::attribute(Renderer& renderer, std::string_view name) {
  if (name == "name") return renderer.text(stmt_.text);
  if (name == "caller") return Value(stmt_.caller);
  if (name == "catch_varargs") return Value(stmt_.varargs);
  if (name == "catch_kwargs") return Value(stmt_.kwargs);
  if (name != "arguments") return Object::attribute(renderer, name);
  std::vector<Value> names;
  for (const NamedExpr& param : stmt_.params) names.push_back(renderer.text(param.name));
  return renderer.list(std::move(names), Flavour::tuple);
}

Result<Value> Macro::call(Renderer& renderer, Arguments& arguments) {
  const auto inner = std::make_shared<Scope>(scope_);
  TRY(bind(renderer, arguments, inner));
  return renderer.text(TRY(renderer.captured(stmt_.bodies[0], inner)));
}

Result<void> Macro::bind(Renderer& renderer, Arguments& arguments, const ScopePtr& scope) const {
  TRY(renderer.budget().spend(arguments.named.size() * stmt_.params.size()));
  for (size_t i = 0; i < stmt_.params.size(); ++i) {
    const NamedExpr& param = stmt_.params[i];
    const auto named = std::find_if(arguments.named.begin(), arguments.named.end(),
                                    [&](const auto& n) { return n.first == param.name; });
    Value value = Value::missing(fmt::format("parameter '{}' was not provided", param.name));
    if (i < arguments.values.size()) {
      if (named != arguments.named.end())
        return failure(fmt::format("macro '{}' got '{}' twice", stmt_.text, param.name));
      value = arguments.values[i];
    } else if (named != arguments.named.end()) {
      value = named->second;
      arguments.named.erase(named);
    } else if (param.value != nullptr) {
      value = TRY(renderer.eval(*param.value, scope));
    }
    scope->names[param.name] = value;
  }
  return bind_rest(renderer, arguments, scope);
}

Result<void> Macro::bind_rest(Renderer& renderer, Arguments& arguments, const ScopePtr& scope) const {
  const size_t n = stmt_.params.size();
  std::vector<Value> more;
  if (arguments.values.size() > n)
    more.assign(arguments.values.begin() + static_cast<std::ptrdiff_t>(n), arguments.values.end());
  if (!more.empty() && !stmt_.varargs)
    return failure(fmt::format("macro '{}' takes not more than {} argument(s)", stmt_.text, n));
  if (stmt_.varargs) scope->names["varargs"] = TRY(renderer.list(std::move(more), Flavour::tuple));
  if (stmt_.caller) scope->names["caller"] = Value::missing("No caller defined");
  const auto kwargs = std::make_shared<Dict>(renderer.budget());
  for (const auto& [name, value] : arguments.named) {
    if (stmt_.caller && name == "caller") {
      scope->names["caller"] = value;
      continue;
    }
    if (!stmt_.kwargs) return failure(fmt::format("macro '{}' takes no keyword argument '{}'", stmt_.text, name));
    TRY(kwargs->set(renderer.text(name), value));
  }
  if (stmt_.kwargs) scope->names["kwargs"] = Value(std::shared_ptr<const Dict>(kwargs));
  return {};
}

}  // namespace sluice::text::jinja
