// Small templates and what they give for two messages.
#pragma once
#include <gtest/gtest.h>

#include <span>
#include <string>
#include <string_view>

#include "sluice/chat_template.h"

namespace sluice::test {

struct TemplateCase {
  const char* text;
  const char* wanted;
};

constexpr std::string_view kTwoMessages =
    R"([{"role": "user", "content": "Hi \"é\" it's"}, {"role": "assistant", "content": "B"}])";

inline Result<std::string> rendered(std::string_view text, const ChatTemplateLimits& limits = {}) {
  const auto made = ChatTemplate::create(text, "<s>", "</s>", limits);
  if (!made) return made.error();
  return made->render({.messages = kTwoMessages, .now = {2026, 3, 14, 15, 9, 26}});
}

inline void expect_all(std::span<const TemplateCase> cases) {
  for (const TemplateCase& c : cases) {
    const auto got = rendered(c.text);
    if (got)
      EXPECT_EQ(*got, c.wanted) << c.text;
    else
      ADD_FAILURE() << c.text << ": " << got.error().message;
  }
}

}  // namespace sluice::test
