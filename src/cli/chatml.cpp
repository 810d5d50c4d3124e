#include "cli/chatml.h"

#include <string>

namespace sluice::cli {
namespace {
constexpr std::string_view kStart = "<|im_start|>", kEnd = "<|im_end|>";
}

bool has_chatml(const Tokenizer& tokenizer) { return tokenizer.find(kStart) >= 0 && tokenizer.find(kEnd) >= 0; }

std::vector<Token> chatml_turn(const Tokenizer& tokenizer, bool first, std::string_view system, std::string_view user) {
  std::vector<Token> ids;
  const auto control = [&](std::string_view text) { ids.push_back(tokenizer.find(text)); };
  const auto text = [&](std::string_view part) {
    const auto more = tokenizer.encode(part, {.add_bos = false, .parse_special = false});
    ids.insert(ids.end(), more.begin(), more.end());
  };
  const auto message = [&](std::string_view role, std::string_view content) {
    control(kStart);
    text(std::string(role) + "\n" + std::string(content));
    control(kEnd);
    text("\n");
  };
  if (!first) {
    control(kEnd);
    text("\n");
  } else if (tokenizer.adds_bos() && tokenizer.bos() >= 0) {
    ids.push_back(tokenizer.bos());
  }
  if (first && !system.empty()) message("system", system);
  message("user", user);
  control(kStart);
  text("assistant\n");
  return ids;
}

}  // namespace sluice::cli
