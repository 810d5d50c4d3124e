// sluice run
#include "base/interrupt.h"
#include "cli/chat_form.h"
#include "cli/commands.h"
#include "cli/generate.h"
#include "cli/json_writer.h"
#include "cli/model.h"
#include "cli/options.h"
#include "cli/output.h"

namespace sluice::cli {
namespace {

struct RunOptions {
  OutputOptions output;
  ModelOptions model;
  PromptOptions prompt;
  SamplingOptions sampling;
  bool hide_prompt = false;
};

Result<bool> read_options(Arguments argv, RunOptions& o, Strings& rest) {
  Args args(
      "run [MODEL.gguf] [PROMPT] [OPTIONS]",
      "Completes a text or answers a prompt. A model with a chat template is asked through it; others, and the story\n"
      "model that is used when no model is named, go on from the prompt, which is printed first. A prompt of '-', or\n"
      "none with a pipe, reads stdin.\n"
      "Speeds and the seed are told on stderr. Ctrl-C stops.\n\n"
      "  sluice run \"Once upon a time\"\n"
      "  sluice run model.gguf --temp 0 -n 100 \"Name three rivers.\"");
  add_prompt_options(args, o.prompt);
  args.flag("--no-display-prompt", o.hide_prompt, "do not print the prompt before its completion");
  add_model_options(args, o.model);
  add_sampling_options(args, o.sampling);
  add_output_options(args, o.output);
  if (!TRY(parse(args, argv, o.output))) return false;
  rest = std::move(args.rest());
  return true;
}

// Chat models get the prompt as a user's message. Sets `plain` for the others.
Result<std::vector<Token>> prompt_tokens(const RunOptions& o, const LoadedModel& model, const std::string& text,
                                         bool& plain) {
  const Tokenizer& tokenizer = *model.engine->tokenizer();
  const ChatForm form = TRY(ChatForm::create(o.prompt, model, false));
  plain = form.plain();
  if (!plain) {
    note("asking through {}; --raw completes plain text", form.name());
    std::vector<ChatMessage> messages;
    if (!o.prompt.system.empty()) messages.push_back({"system", o.prompt.system});
    messages.push_back({"user", text});
    return form.tokens(TRY(form.text(messages)));
  }
  if (!o.prompt.system.empty()) note("a system prompt has no effect on plain completion");
  std::vector<Token> ids = tokenizer.encode(text, {.add_bos = true, .parse_special = o.prompt.special});
  if (ids.empty() && tokenizer.bos() >= 0) ids.push_back(tokenizer.bos());
  if (ids.empty()) return usage_error("the prompt is empty and the model has no token to begin with; give a prompt");
  return ids;
}

Result<void> report(const RunOptions& o, const LoadedModel& model, const Generation& g, uint64_t seed) {
  if (g.stop == "context" && !o.output.quiet)
    note("the context of {} positions is full; -c asks for more", model.engine->info().n_ctx);
  say("{}; {}; seed {}", speed_text("prefill", g.n_prefilled, g.prefill_seconds),
      speed_text("decode", g.n_decoded, g.decode_seconds), seed);
  if (o.model.speculate && o.output.verbose) say("{}", speculation_text(g));
  if (!o.output.json) return {};
  JsonWriter json;
  json.open('{').field("text", g.text).key("tokens").list(g.tokens);
  json.field("n_prompt", g.n_prompt).field("n_generated", g.tokens.size()).field("stop", g.stop).field("seed", seed);
  json.key("seconds").open('{').field("load", model.load_seconds).field("prefill", g.prefill_seconds);
  json.field("decode", g.decode_seconds).close();
  json.key("tokens_per_second").open('{').field("prefill", g.n_prefilled / g.prefill_seconds);
  json.field("decode", g.n_decoded / g.decode_seconds).close();
  if (o.model.speculate) {
    json.key("speculation").open('{').field("steps", g.speculation.n_steps);
    json.field("drafted", g.speculation.n_drafted).field("accepted", g.speculation.n_accepted).close();
  }
  json.field("model", model.path).close();
  return put(json.take());
}

Result<int> run(RunOptions& o, const std::string& text) {
  const std::string path = TRY(model_path(o.model));
  const SamplingParams params = TRY(sampling_params(o.sampling, path));
  const LoadedModel model = TRY(load_model(o.model, true, o.output.verbose));
  bool plain = true;
  const std::vector<Token> ids = TRY(prompt_tokens(o, model, text, plain));
  Sequence sequence = TRY(model.engine->new_sequence());
  TRY(check_fits(*model.engine, sequence, ids.size()));
  if (o.prompt.file || ids.size() > 64 || o.output.verbose) say("prompt of {} tokens", ids.size());

  bool line_open = false;
  GenerateOptions options{
      .n_predict = o.prompt.n_predict, .show_special = o.prompt.special, .speculate = o.model.speculate};
  const auto show = [&](std::string_view piece) -> Result<void> {
    if (o.output.json || piece.empty()) return {};
    line_open = piece.back() != '\n';
    return put_text(piece);
  };
  options.on_text = show;
  if (plain && !o.hide_prompt) TRY(show(text));
  Sampler sampler(params);
  Result<Generation> g = generate(*model.engine, sequence, ids, sampler, options);
  if (line_open && !closed_pipe()) TRY(put("\n"));
  if (!g) return g.error();
  TRY(report(o, model, *g, params.seed));
  return g->stop == "interrupted" ? interrupt_exit_code() : kExitDone;
}

}  // namespace

Result<int> run_command(Arguments argv) {
  RunOptions o;
  Strings rest;
  if (!TRY(read_options(argv, o, rest))) return kExitDone;
  TRY(take_model(rest, o.model));
  const Prompt prompt = TRY(take_prompt(rest, o.prompt));
  if (!prompt.given) return usage_error("no prompt is given; try: sluice run \"Once upon a time\"");
  return run(o, prompt.text);
}

}  // namespace sluice::cli
