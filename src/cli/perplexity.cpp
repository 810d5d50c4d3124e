// sluice perplexity
#include "sluice/perplexity.h"

#include "base/interrupt.h"
#include "cli/commands.h"
#include "cli/json_writer.h"
#include "cli/model.h"
#include "cli/options.h"
#include "cli/output.h"

namespace sluice::cli {
namespace {

struct Options {
  OutputOptions output;
  ModelOptions model;
  PerplexityText text;
  std::optional<std::string> file;
  bool score_all = false, no_bos = false;
};

Result<bool> read_options(Arguments argv, Options& o, Strings& rest) {
  Args args(
      "perplexity [-m FILE] -f TEXT [-c 512] [--score half|all] [OPTIONS]",
      "Measures how well a model predicts a text: windows of -c tokens, each from an empty state, with BOS as the\n"
      "first token where the model adds one. Prints the perplexity with its standard error.");
  args.group("Text");
  args.option("-f,--file", "TEXT", "the text, a file", [&o](std::string_view v) -> Result<void> {
    o.file = v;
    return {};
  });
  args.option("--score", "half|all",
              "half: whole windows, the second half of each (comparable with llama-perplexity; the default); "
              "all: every token but the first of a window, and the last window may be shorter",
              [&o](std::string_view v) -> Result<void> {
                if (v != "half" && v != "all") return usage_error("--score is half or all; choose one of them");
                o.score_all = v == "all";
                return {};
              });
  args.text(
      "--separator", "LINE", o.text.separator,
      "the text holds documents with this line between them: each begins with BOS, and windows get none of their own");
  args.flag("--no-bos", o.no_bos, "no BOS at all");
  args.flag("--special", o.text.parse_special, "texts of control tokens become them");
  o.model.engine.n_ctx = 512;
  add_model_options(args, o.model);
  add_output_options(args, o.output);
  if (!TRY(parse(args, argv, o.output))) return false;
  rest = std::move(args.rest());
  return true;
}

}  // namespace

Result<int> perplexity_command(Arguments argv) {
  Options o;
  Strings rest;
  if (!TRY(read_options(argv, o, rest))) return kExitDone;
  TRY(take_model(rest, o.model));
  TRY(expect_no_more(rest));
  if (!o.file) return usage_error("no text is given; add -f FILE");
  if (o.model.engine.n_ctx != 0 && o.model.engine.n_ctx < 4)
    return usage_error("a window of less than 4 tokens measures nothing; give -c 4 or more");
  const std::string text = TRY(read_text_file(*o.file));

  const LoadedModel model = TRY(load_model(o.model, true, o.output.verbose));
  const Tokenizer& tokenizer = *model.engine->tokenizer();
  o.text.add_bos = !o.no_bos;
  const std::vector<Token> tokens = perplexity_tokens(tokenizer, text, o.text);
  PerplexityOptions options{.n_window = o.model.engine.n_ctx == 0 ? model.engine->info().n_ctx : o.model.engine.n_ctx,
                            .score_all = o.score_all};
  if (!o.no_bos && o.text.separator.empty() && tokenizer.adds_bos()) options.window_bos = tokenizer.bos();
  ProgressBar bar("perplexity", tokens.size(), "tokens", bar_options());
  options.on_progress = [&](uint64_t done, uint64_t) {
    bar.update(done);
    return !interrupted();
  };
  const PerplexityResult result = TRY(perplexity(*model.engine, tokens, options));
  bar.finish();
  if (!o.output.json) {
    TRY(put(fmt::format("perplexity {:.4f} +/- {:.5f}, {} tokens scored in {} windows of {}\n", result.perplexity,
                        result.standard_error, result.n_tokens, result.n_windows, options.n_window)));
    return kExitDone;
  }
  JsonWriter json;
  json.open('{').field("perplexity", result.perplexity).field("nll", result.nll).field("stderr", result.standard_error);
  json.field("tokens", result.n_tokens).field("windows", result.n_windows).field("window", options.n_window);
  TRY(put(json.close().take()));
  return kExitDone;
}

}  // namespace sluice::cli
