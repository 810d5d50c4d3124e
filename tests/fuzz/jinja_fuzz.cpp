// Any bytes as a chat template: read or refused, rendered or failed, the same each time and within the limits.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "sluice/chat_template.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t n_bytes) {
  constexpr sluice::ChatTemplateLimits kLimits{
      .template_bytes = 1u << 16, .output_bytes = 1u << 16, .memory_bytes = 1u << 20, .steps = 20'000, .depth = 600};
  constexpr std::string_view kMessages =
      R"([{"role": "system", "content": "Be kind."}, {"role": "user", "content": [{"type": "text", "text": "é\n"}]},
          {"role": "assistant", "content": null, "tool_calls": [{"function": {"name": "f", "arguments": {"x": 1.5}}}]}])";
  const std::string_view text(reinterpret_cast<const char*>(data), n_bytes);
  const auto made = sluice::ChatTemplate::create(text, "<s>", "</s>", kLimits);
  if (!made) return 0;
  const sluice::ChatInput input{.messages = kMessages, .tools = "[]", .extra = "{}", .now = {2026, 3, 14, 15, 9, 26}};
  const auto first = made->render(input), second = made->render(input);
  if (first.has_value() != second.has_value()) std::abort();
  if (first && (*first != *second || first->size() > kLimits.output_bytes)) std::abort();
  return 0;
}
