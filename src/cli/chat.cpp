// sluice chat
#include <algorithm>
#include <utility>

#include "base/file_io.h"
#include "base/interrupt.h"
#include "base/text.h"
#include "cli/chat_form.h"
#include "cli/commands.h"
#include "cli/generate.h"
#include "cli/json_writer.h"
#include "cli/model.h"
#include "cli/options.h"
#include "cli/output.h"

namespace sluice::cli {
namespace {

constexpr std::string_view kHelp =
    "/clear  forget everything    /undo  forget the last turn    /system TEXT  new system message, and /clear\n"
    "/exit   leave (or Ctrl-D)    Ctrl-C  stops an answer\n";

// Lines of stdin. Ctrl-C ends a pipe's; in a terminal, whose driver drops the line at it, only the second in a row
// does.
class Lines {
 public:
  // Without its end; none at the end of input.
  Result<std::optional<std::string>> next() {
    prompt();
    for (;;) {
      const size_t end = held_.find('\n', searched_);
      if (end != std::string::npos) return take(end, end + 1);
      searched_ = held_.size();
      if (held_.size() > kMaxText)
        return Error{Code::unsupported, fmt::format("a line of stdin holds more than {} MiB, the most that is read; "
                                                    "give shorter lines",
                                                    kMaxText >> 20)};
      char buffer[1 << 12];
      const Result<size_t> n = input_.read(buffer);
      if (!n) {
        if (n.error().code != Code::cancelled || !interactive() || asked_to_end() || said_hint_) return n.error();
        clear_interrupt();
        held_.clear();
        searched_ = 0;
        said_hint_ = true;
        say_line("\n(Ctrl-C again, Ctrl-D or /exit leaves)");
        prompt();
        continue;
      }
      if (*n == 0) return held_.empty() ? std::optional<std::string>() : take(held_.size(), held_.size());
      held_.append(buffer, *n);
    }
  }
  bool interactive() const { return interactive_; }

 private:
  void prompt() const {
    if (interactive_) write_all(Stream::err, "> ");
  }
  std::optional<std::string> take(size_t end, size_t next) {
    std::string line = held_.substr(0, end);
    if (line.ends_with('\r')) line.pop_back();
    held_.erase(0, next);
    searched_ = 0;
    said_hint_ = false;
    return line;
  }

  const InputStream input_ = InputStream::standard_input();
  const bool interactive_ = is_terminal(Stream::in);
  std::string held_;
  size_t searched_ = 0;
  bool said_hint_ = false;
};

struct Turn {
  std::string user, answer, stop;
  size_t begin = 0;  // where it starts in the tokens of plain text
};

class Chat {
 public:
  struct Speculation {
    bool on = false, tell = false;
  };
  Chat(LoadedModel& model, Sequence& sequence, ChatForm form, const SamplingParams& params, const PromptOptions& prompt,
       bool json, Speculation speculation)
      : model_(model),
        sequence_(sequence),
        form_(std::move(form)),
        params_(params),
        prompt_(prompt),
        system_(prompt.system),
        json_(json),
        speculation_(speculation) {}

  // Said once.
  void note_system() {
    if (form_.plain() && !std::exchange(system_noted_, true)) note("a system prompt has no effect on plain completion");
  }
  const ChatForm& form() const { return form_; }
  const std::vector<Turn>& turns() const { return turns_; }

  Result<void> answer(const std::string& line) {
    if (form_.plain() && !line.empty()) clear();  // every line starts a text of its own
    if (line.empty() && (!form_.plain() || ids_.empty())) return {};
    const size_t begin = ids_.size();
    TRY(form_.plain() ? add_text(line) : add_turn(line));
    TRY(go_back());
    Sampler sampler(params_);
    for (const Token id : std::span(ids_).first(kept_)) sampler.accept(id);
    bool line_open = false;
    GenerateOptions options{
        .n_predict = prompt_.n_predict, .show_special = prompt_.special, .speculate = speculation_.on};
    options.on_text = [&](std::string_view piece) -> Result<void> {
      line_open = piece.back() != '\n';
      return json_ ? Result<void>() : put_text(piece);
    };
    Result<Generation> g =
        generate(*model_.engine, sequence_, std::span<const Token>(ids_).subspan(kept_), sampler, options);
    clear_interrupt();
    if (line_open && !json_ && !closed_pipe()) TRY(put("\n"));
    if (!g) {
      form_.plain() ? ids_.resize(begin) : forget_ids();
      return g.error();
    }
    ids_.insert(ids_.end(), g->tokens.begin(), g->tokens.end());
    text_ += valid_text(g->text);
    turns_.push_back({line, valid_text(g->text), g->stop, begin});
    if (asked_to_end()) return interrupted_error();
    if (speculation_.on && speculation_.tell) say("{}", speculation_text(*g));
    if (g->stop == "interrupted") note("stopped");
    if (g->stop == "context")
      note("the context of {} positions is full; /clear starts anew, -c asks for more", model_.engine->info().n_ctx);
    ++params_.seed;  // another draw for the next answer
    return {};
  }

  // False: leave.
  Result<bool> command(const std::string& line) {
    if (line == "/exit" || line == "/quit") return false;
    if (line == "/clear") {
      clear();
    } else if (line == "/undo") {
      if (!turns_.empty()) {
        form_.plain() ? ids_.resize(turns_.back().begin) : forget_ids();
        turns_.pop_back();
      }
    } else if (line == "/system" || line == "/system ") {
      note("/system needs a text, as in: /system Answer in one sentence.");
    } else if (line.starts_with("/system ")) {
      system_ = line.substr(8);
      clear();
      note_system();
    } else {
      if (line != "/help") note("there is no command {}", printable(line));
      say_line(kHelp);
    }
    return true;
  }

 private:
  void clear() {
    forget_ids();
    turns_.clear();
  }
  void forget_ids() {
    ids_.clear();
    text_.clear();
  }

  // The rest of a plain text.
  Result<void> add_text(const std::string& line) {
    if (line.empty()) return {};
    const auto more = model_.engine->tokenizer()->encode(line, {.parse_special = prompt_.special});
    ids_.insert(ids_.end(), more.begin(), more.end());
    return {};
  }

  // The whole talk anew, as the template has it: templates may leave out what they wrote a turn ago. Where it begins
  // with what the model has read and said, those very tokens stay.
  Result<void> add_turn(const std::string& line) {
    std::vector<ChatMessage> messages;
    if (!system_.empty()) messages.push_back({"system", system_});
    for (const Turn& turn : turns_) {
      messages.push_back({"user", turn.user});
      messages.push_back({"assistant", turn.answer});
    }
    messages.push_back({"user", line});
    ChatText prompt = TRY(form_.text(messages));
    std::vector<Token> more;
    if (!text_.empty() && prompt.text.starts_with(text_)) more = form_.tokens_from(prompt, text_.size());
    if (more.empty())
      ids_ = form_.tokens(prompt);
    else
      ids_.insert(ids_.end(), more.begin(), more.end());
    text_ = std::move(prompt.text);
    return {};
  }

  // The sequence keeps what it shares with ids_, but for the last token, whose logits are needed anew.
  Result<void> go_back() {
    const auto held = sequence_.tokens();
    const auto differ = std::mismatch(ids_.begin(), ids_.end(), held.begin(), held.end());
    kept_ = static_cast<size_t>(differ.first - ids_.begin());
    if (kept_ == ids_.size() && kept_ != 0) --kept_;
    if (sequence_.n_tokens() == kept_) return sequence_.checkpoint();
    if (!sequence_.truncate(static_cast<uint32_t>(kept_))) {
      kept_ = 0;
      TRY(sequence_.truncate(0));
    }
    return {};
  }

  LoadedModel& model_;
  Sequence& sequence_;
  const ChatForm form_;
  SamplingParams params_;
  const PromptOptions& prompt_;
  std::string system_;
  bool json_;
  Speculation speculation_;
  bool system_noted_ = false;
  std::vector<Token> ids_;  // all that the model is to have read
  std::string text_;        // and what they say, where a chat form is in use
  size_t kept_ = 0;         // of them are in the sequence already
  std::vector<Turn> turns_;
};

Result<void> converse(Chat& chat) {
  Lines lines;
  const bool interactive = lines.interactive();
  for (;;) {
    const std::optional<std::string> line = TRY(lines.next());
    if (!line) break;
    if (line->starts_with('/')) {
      if (!TRY(chat.command(*line))) break;
      continue;
    }
    const Result<void> answered = chat.answer(*line);
    if (answered) continue;
    // A turn that does not fit is said and forgotten; the talk goes on. A pipe of questions fails at once.
    if (!interactive || closed_pipe() || answered.error().code != Code::unsupported) return answered.error();
    say_line("error: " + answered.error().message);
  }
  if (interactive) say_line("");
  return {};
}

Result<void> put_turns(const Chat& chat) {
  JsonWriter out;
  out.open('{').key("turns").open('[');
  for (const Turn& turn : chat.turns())
    out.open('{').field("user", turn.user).field("answer", turn.answer).field("stop", turn.stop).close();
  return put(out.close().close().take());
}

}  // namespace

Result<int> chat_command(Arguments argv) {
  OutputOptions output;
  ModelOptions model_options;
  PromptOptions prompt;
  SamplingOptions sampling;
  Args args(
      "chat [MODEL.gguf] [OPTIONS]",
      "Talks with a model, line by line, and remembers what was said. A model with a chat template is asked through\n"
      "it; the story model and others go on from each line (an empty line: from where they stopped). Ctrl-C stops the\n"
      "answer, not the program; at the prompt a second one in a row leaves. /help lists the commands inside.\n"
      "A terminal cuts typed lines at 4095 bytes; lines from a pipe may be longer.");
  prompt.from_file = false;
  add_prompt_options(args, prompt);
  add_model_options(args, model_options);
  add_sampling_options(args, sampling);
  add_output_options(args, output);
  if (!TRY(parse(args, argv, output))) return kExitDone;
  TRY(take_model(args.rest(), model_options));
  TRY(expect_no_more(args.rest()));
  if (prompt.file) return usage_error("chat reads its lines from stdin; use sluice run for a file");

  const std::string path = TRY(model_path(model_options));
  const SamplingParams params = TRY(sampling_params(sampling, path));
  LoadedModel model = TRY(load_model(model_options, true, output.verbose));
  Sequence sequence = TRY(model.engine->new_sequence());
  Chat chat(model, sequence, TRY(ChatForm::create(prompt, model, true)), params, prompt, output.json,
            {model_options.speculate, output.verbose});
  say("{}, context of {} positions, seed {}; /help lists the commands", model.engine->model().name,
      model.engine->info().n_ctx, params.seed);
  note("{}",
       chat.form().plain() ? "plain completion: each line starts a text" : "asking through " + chat.form().name());
  if (!prompt.system.empty()) chat.note_system();
  Result<void> ended = prompt.text ? chat.answer(*prompt.text) : Result<void>();
  if (ended) ended = converse(chat);
  // What was said is not lost with Ctrl-C.
  if (output.json && (ended || ended.error().code == Code::cancelled)) TRY(put_turns(chat));
  TRY(std::move(ended));
  return kExitDone;
}

}  // namespace sluice::cli
