// How a model is asked: through its chat template, in the ChatML form, or not at all (plain text is completed).
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/model.h"
#include "cli/options.h"
#include "sluice/chat_template.h"

namespace sluice::cli {

struct ChatMessage {
  std::string role, content;
};

// A prompt. Texts of control tokens in the `plain` ranges (first byte, length; in order) are only text.
struct ChatText {
  std::string text;
  std::vector<std::pair<size_t, size_t>> plain;
};

class ChatForm {
 public:
  // The template of the options, else the model's. Where the model's cannot be read, ChatML if the vocabulary knows
  // that, which is said; an Error where it does not. A model without a template is asked in ChatML where `needs_form`
  // and its vocabulary allow.
  static Result<ChatForm> create(const PromptOptions& options, const LoadedModel& model, bool needs_form);

  bool plain() const { return !template_; }
  // What the form is, for a note.
  const std::string& name() const { return name_; }
  // Up to where the assistant begins to speak. Not where plain(). Texts of control tokens that stand in the messages
  // themselves stay text, unless `special` was asked for.
  Result<ChatText> text(const std::vector<ChatMessage>& messages) const;
  std::vector<Token> tokens(const ChatText& text) const;
  // Of what stands from byte `from` on, after other tokens. Empty where that does not begin with a control token: the
  // two would then not be split as the whole would.
  std::vector<Token> tokens_from(const ChatText& text, size_t from) const;

 private:
  Result<std::string> render(const std::vector<ChatMessage>& messages) const;
  std::vector<std::pair<size_t, size_t>> plain_ranges(const std::vector<ChatMessage>& messages,
                                                      std::string_view text) const;
  std::vector<Token> encode(const ChatText& text, size_t from) const;

  std::shared_ptr<const Tokenizer> tokenizer_;
  std::optional<ChatTemplate> template_;
  std::string name_, extra_;
  bool special_ = false;
};

// What is not UTF-8 becomes U+FFFD, as it does in JSON.
std::string valid_text(std::string_view text);

// SLUICE_NOW (as 2026-03-14T15:09:26), else the clock's.
Result<LocalTime> local_time();

}  // namespace sluice::cli
