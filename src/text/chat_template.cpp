#include "sluice/chat_template.h"

#include <fmt/format.h>

#include "base/text.h"
#include "text/jinja/json.h"
#include "text/jinja/parser.h"
#include "text/jinja/renderer.h"

namespace sluice {
namespace {

using text::jinja::Value;
using Variables = std::vector<std::pair<std::string_view, Value>>;

constexpr size_t kMaxMessage = 400;

Result<Value> read_list(text::jinja::Budget& budget, std::string_view json, std::string_view what) {
  Value value = TRY(text::jinja::read_json(budget, json, what));
  if (value.is(Value::Kind::list)) return value;
  return Error{Code::invalid_argument, fmt::format("the {} are no JSON array", what)};
}

// On one line, its quotes as they are.
std::string one_line(std::string_view message) {
  std::string out = printable(message, kMaxMessage);
  for (const std::string_view quote : {"\\'", "\\\""})
    for (size_t at = out.find(quote); at != out.npos; at = out.find(quote, at)) out.erase(at, 1);
  return out;
}

}  // namespace

struct ChatTemplate::Impl {
  std::unique_ptr<const text::jinja::Ast> ast;
  std::string bos, eos;
  ChatTemplateLimits limits;
};

Result<ChatTemplate> ChatTemplate::create(std::string_view text, std::string_view bos, std::string_view eos,
                                          const ChatTemplateLimits& limits) {
  if (text.size() > limits.template_bytes)
    return Error{Code::unsupported, fmt::format("the chat template holds {} bytes, more than the {} that are read; "
                                                "give another template",
                                                text.size(), limits.template_bytes)};
  auto ast = text::jinja::parse(text);
  if (!ast)
    return Error{ast.error().code, fmt::format("the chat template cannot be read: {}; give another template",
                                               one_line(ast.error().message))};
  return ChatTemplate(std::make_shared<const Impl>(
      Impl{.ast = std::move(*ast), .bos = std::string(bos), .eos = std::string(eos), .limits = limits}));
}

Result<std::string> ChatTemplate::render(const ChatInput& input) const {
  text::jinja::Renderer renderer(*impl_->ast, impl_->limits, input.now);
  text::jinja::Budget& memory = renderer.budget();
  Variables variables = {{"bos_token", make_text(memory, impl_->bos)},
                         {"eos_token", make_text(memory, impl_->eos)},
                         {"add_generation_prompt", Value(input.add_generation_prompt)}};
  if (!input.messages.empty()) variables.emplace_back("messages", TRY(read_list(memory, input.messages, "messages")));
  if (!input.tools.empty()) variables.emplace_back("tools", TRY(read_list(memory, input.tools, "tools")));
  Value extra;
  if (!input.extra.empty()) {
    extra = TRY(text::jinja::read_json(memory, input.extra, "extra variables"));
    if (!extra.is(Value::Kind::dict)) return Error{Code::invalid_argument, "the extra variables are no JSON object"};
    for (const auto& [name, value] : extra.dict().items) variables.emplace_back(name.text(), value);
  }
  auto rendered = renderer.run(variables);
  if (rendered) return rendered;
  return Error{rendered.error().code,
               fmt::format("the chat template {}: {}", renderer.refused() ? "refuses the messages" : "fails",
                           one_line(rendered.error().message))};
}

}  // namespace sluice
