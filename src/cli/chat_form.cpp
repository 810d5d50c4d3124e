#include "cli/chat_form.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <ctime>

#include "base/text.h"
#include "cli/json_writer.h"
#include "cli/output.h"

namespace sluice::cli {
namespace {

constexpr std::string_view kChatMl =
    "{% for message in messages %}{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}"
    "{% endfor %}{{ '<|im_start|>assistant\\n' }}";

bool has_chatml(const Tokenizer& tokenizer) {
  return tokenizer.find("<|im_start|>") >= 0 && tokenizer.find("<|im_end|>") >= 0;
}

// Whether control tokens are written out in the text.
bool names_control_tokens(const Tokenizer& tokenizer, std::string_view text) {
  const auto ids = tokenizer.encode(text, {.add_bos = false, .parse_special = true});
  return std::any_of(ids.begin(), ids.end(), [&](Token id) { return tokenizer.is_control(id); });
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const size_t first = text.find_first_not_of(kBlanks);
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

}  // namespace

Result<ChatForm> ChatForm::create(const PromptOptions& options, const LoadedModel& model, bool needs_form) {
  ChatForm form;
  form.tokenizer_ = model.engine->tokenizer();
  form.special_ = options.special;
  form.extra_ = options.template_values;
  const Tokenizer& tokenizer = *form.tokenizer_;
  const bool own = options.template_text || options.template_file;
  if (options.raw || (model.tells_stories && !own)) return form;
  const auto piece = [&](Token id) { return id < 0 ? std::string() : tokenizer.piece(id, true); };
  const auto use = [&](std::string_view text, std::string name) -> Result<void> {
    form.template_ = TRY(ChatTemplate::create(text, piece(tokenizer.bos()), piece(tokenizer.eos())));
    form.name_ = std::move(name);
    return {};
  };
  if (own) {
    const std::string text =
        options.template_text ? *options.template_text : TRY(read_text_file(*options.template_file));
    TRY(use(text, "the given chat template"));
    return form;
  }
  if (tokenizer.chat_template().empty()) {
    if (needs_form && has_chatml(tokenizer)) TRY(use(kChatMl, "the ChatML form, for want of a chat template"));
    return form;
  }
  const Result<void> read = use(tokenizer.chat_template(), "its chat template");
  if (read) return form;
  if (!has_chatml(tokenizer))
    return Error{read.error().code, read.error().message + " with --chat-template-file, or complete text with --raw"};
  note("{}; asking in the ChatML form", read.error().message);
  TRY(use(kChatMl, "the ChatML form"));
  return form;
}

Result<std::string> ChatForm::render(const std::vector<ChatMessage>& messages) const {
  JsonWriter json;
  json.open('[');
  for (const ChatMessage& m : messages) json.open('{').field("role", m.role).field("content", m.content).close();
  const std::string list = json.close().take();
  return template_->render({.messages = list, .extra = extra_, .now = TRY(local_time())});
}

Result<ChatText> ChatForm::text(const std::vector<ChatMessage>& messages) const {
  ChatText out{.text = TRY(render(messages)), .plain = {}};
  if (!special_) out.plain = plain_ranges(messages, out.text);
  return out;
}

// Where a message stands is seen from a second rendering, with marks in the place of messages that name control
// tokens. A template that does more than to copy them, but for blanks, leaves no such place.
std::vector<std::pair<size_t, size_t>> ChatForm::plain_ranges(const std::vector<ChatMessage>& messages,
                                                              std::string_view text) const {
  std::vector<ChatMessage> marked = messages;
  std::vector<std::string> marks;
  std::vector<std::string_view> said;
  for (size_t i = 0; i < messages.size(); ++i) {
    if (!names_control_tokens(*tokenizer_, messages[i].content)) continue;
    said.push_back(trimmed(messages[i].content));
    marks.push_back(fmt::format("\uE000{}\uE001", i));
    marked[i].content.replace(marked[i].content.find(said.back()), said.back().size(), marks.back());
  }
  if (said.empty()) return {};
  const auto rendered = render(marked);
  if (!rendered) return {};
  std::string_view rest = *rendered;
  std::vector<std::pair<size_t, size_t>> ranges;
  size_t at = 0;
  for (size_t k = 0; k < said.size(); ++k) {
    const size_t before = rest.find(marks[k]);
    if (before == rest.npos || text.substr(at, before) != rest.substr(0, before)) return {};
    at += before;
    if (!text.substr(at).starts_with(said[k])) return {};
    ranges.emplace_back(at, said[k].size());
    at += said[k].size();
    rest.remove_prefix(before + marks[k].size());
  }
  if (text.substr(at) != rest) return {};
  return ranges;
}

std::vector<Token> ChatForm::encode(const ChatText& text, size_t from) const {
  std::vector<Token> ids;
  const auto add = [&](size_t end, bool control) {
    if (end <= from) return;
    const auto part = std::string_view(text.text).substr(from, end - from);
    const auto more = tokenizer_->encode(part, {.add_bos = false, .parse_special = control});
    ids.insert(ids.end(), more.begin(), more.end());
    from = end;
  };
  for (const auto& [first, n] : text.plain) {
    add(first, true);
    add(first + n, false);
  }
  add(text.text.size(), true);
  return ids;
}

std::vector<Token> ChatForm::tokens(const ChatText& text) const {
  std::vector<Token> ids = encode(text, 0);
  // Not by the tokenizer, which may end the text with EOS too. Many templates write BOS themselves.
  const Token bos = tokenizer_->bos();
  if (tokenizer_->adds_bos() && bos >= 0 && (ids.empty() || ids[0] != bos)) ids.insert(ids.begin(), bos);
  return ids;
}

std::vector<Token> ChatForm::tokens_from(const ChatText& text, size_t from) const {
  std::vector<Token> ids = encode(text, from);
  if (ids.empty() || !tokenizer_->is_control(ids[0])) ids.clear();
  return ids;
}

std::string valid_text(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t length = utf8_length(text, at);
    out += length == 0 ? std::string_view("\xEF\xBF\xBD") : text.substr(at, length);
    at += length == 0 ? 1 : length;
  }
  return out;
}

Result<LocalTime> local_time() {
  const char* given = std::getenv("SLUICE_NOW");
  if (given == nullptr || *given == '\0') {
    const std::time_t now = std::time(nullptr);
    std::tm t{};
    localtime_r(&now, &t);
    return LocalTime{t.tm_year + 1900, t.tm_mon + 1, t.tm_mday, t.tm_hour, t.tm_min, t.tm_sec};
  }
  const std::string_view text = given;
  LocalTime t{.hour = 0};
  int* const fields[] = {&t.year, &t.month, &t.day, &t.hour, &t.minute, &t.second};
  constexpr int kMost[] = {9999, 12, 31, 23, 59, 59};
  constexpr std::string_view kForm = "0000-00-00T00:00:00";
  bool good = text.size() == 10 || text.size() >= kForm.size();
  for (size_t i = 0, at = 0; good && i < 6 && at < text.size(); ++i) {
    const size_t n = i == 0 ? 4 : 2;
    const auto [end, error] = std::from_chars(text.data() + at, text.data() + at + n, *fields[i]);
    good =
        error == std::errc() && end == text.data() + at + n && *fields[i] >= (i < 3 ? 1 : 0) && *fields[i] <= kMost[i];
    at += n;
    good = good && (at >= text.size() || at >= kForm.size() || text[at] == kForm[at] || (at == 10 && text[at] == ' '));
    ++at;
  }
  if (good) return t;
  return usage_error(
      fmt::format("SLUICE_NOW is '{}'; give a time as 2026-03-14T15:09:26, or unset it", printable(text)));
}

}  // namespace sluice::cli
