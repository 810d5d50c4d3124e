// sluice render
#include "base/terminal.h"
#include "cli/chat_form.h"
#include "cli/commands.h"
#include "cli/json_writer.h"
#include "cli/model.h"
#include "cli/options.h"
#include "cli/output.h"

namespace sluice::cli {
namespace {

struct RenderOptions {
  OutputOptions output;
  ModelOptions model;
  std::string template_file, messages;
  bool no_prompt = false;
};

// A template, and what its bos_token and eos_token stand for.
struct Source {
  std::string text, bos = "<s>", eos = "</s>";
};

Result<Source> read_source(RenderOptions& o) {
  Source source;
  if (!o.model.path.empty()) {
    const std::string path = TRY(model_path(o.model));
    const gguf::File file = TRY(file_result(gguf::File::open(path, {.metadata_only = true})));
    const auto made = Tokenizer::create(file, o.model.engine.pre_tokenizer);
    if (!made) return tokenizer_error(made.error());
    const Tokenizer& tokenizer = **made;
    source.text = tokenizer.chat_template();
    source.bos = tokenizer.bos() < 0 ? "" : tokenizer.piece(tokenizer.bos(), true);
    source.eos = tokenizer.eos() < 0 ? "" : tokenizer.piece(tokenizer.eos(), true);
    if (source.text.empty() && o.template_file.empty())
      return Error{Code::not_found, "the model has no chat template; give one with --template"};
  }
  if (!o.template_file.empty()) source.text = TRY(read_text_file(o.template_file));
  return source;
}

}  // namespace

Result<int> render_command(Arguments argv) {
  RenderOptions o;
  Args args(
      "render --template F.jinja --messages M.json [OPTIONS]",
      "Writes what a chat template makes of messages. M.json holds an array of messages, or an object with messages,\n"
      "tools and further variables, such as enable_thinking. Without a model bos_token is <s> and eos_token </s>,\n"
      "unless M.json says otherwise. The time that templates ask for is SLUICE_NOW, if that is set.\n\n"
      "  sluice render -m model.gguf --messages chat.json");
  args.group("Template");
  args.text("--template,--chat-template-file", "F.jinja", o.template_file, "the template (default: the model's)");
  args.text("-m,--model", "FILE", o.model.path, "a GGUF file: its template and the texts of its tokens");
  args.text("--messages", "M.json", o.messages, "the messages; '-' reads stdin");
  args.flag("--no-generation-prompt", o.no_prompt, "end behind the last message");
  args.text("--pre-tokenizer", "NAME", o.model.engine.pre_tokenizer, "use this pre-tokenizer instead of the file's");
  add_output_options(args, o.output);
  if (!TRY(parse(args, argv, o.output))) return kExitDone;
  TRY(take_model(args.rest(), o.model));
  TRY(expect_no_more(args.rest()));
  if (o.messages.empty()) return usage_error("no messages are given; use --messages M.json");
  if (o.template_file.empty() && o.model.path.empty())
    return usage_error("no template is given; use --template F.jinja, or -m FILE for a model's own");

  const Source source = TRY(read_source(o));
  const std::string messages = TRY(read_text_file(o.messages));
  const auto made = TRY(ChatTemplate::create(source.text, source.bos, source.eos));
  ChatInput input{.add_generation_prompt = !o.no_prompt, .now = TRY(local_time())};
  const size_t first = messages.find_first_not_of(" \t\r\n");
  const bool object = first != messages.npos && messages[first] == '{';
  (object ? input.extra : input.messages) = first == messages.npos ? "?" : std::string_view(messages);
  const std::string text = TRY(file_result(made.render(input)));
  if (o.output.json) {
    JsonWriter json;
    json.open('{').field("text", text);
    TRY(put(json.close().take()));
  } else {
    TRY(put_text(is_terminal(Stream::out) && !text.ends_with('\n') ? text + "\n" : text));
  }
  return kExitDone;
}

}  // namespace sluice::cli
