// Chat templates as model files bring them: Jinja, with the semantics of the Python engine that such templates are
// written for. Templates come from files, so they are bounded in time and memory. Thread-safe after create().
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "sluice/result.h"

namespace sluice {

struct ChatTemplateLimits {
  size_t template_bytes = 1u << 20;
  size_t output_bytes = 64u << 20;
  size_t memory_bytes = 256u << 20;  // values held at a time
  uint64_t steps = 20'000'000;       // expressions, statements and 64 bytes of text each count as one
  uint32_t depth = 600;              // expressions, statements and calls within each other
};

// The wall clock's time, for templates that write the date.
struct LocalTime {
  int year = 1970, month = 1, day = 1, hour = 0, minute = 0, second = 0;
};

// JSON texts. An empty one is not given to the template at all.
struct ChatInput {
  std::string_view messages;  // an array of messages: {"role": ..., "content": ...}
  std::string_view tools;     // an array of tools
  std::string_view extra;     // an object whose members become variables, such as {"enable_thinking": false}
  bool add_generation_prompt = true;
  LocalTime now;
};

class ChatTemplate {
 public:
  // `corrupt_file` with the line where `text` is no template. `bos` and `eos`: the texts that the template's bos_token
  // and eos_token stand for.
  static Result<ChatTemplate> create(std::string_view text, std::string_view bos = {}, std::string_view eos = {},
                                     const ChatTemplateLimits& limits = {});
  // The prompt. `invalid_argument` where the input is not the JSON it should be, `unsupported` where the template
  // refuses the conversation, fails, or passes a limit.
  Result<std::string> render(const ChatInput& input) const;

 private:
  struct Impl;
  explicit ChatTemplate(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

}  // namespace sluice
