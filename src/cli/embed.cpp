// sluice embed
#include "sluice/embedding.h"

#include "base/interrupt.h"
#include "cli/commands.h"
#include "cli/generate.h"
#include "cli/json_input.h"
#include "cli/json_writer.h"
#include "cli/model.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/output_files.h"
#include "sluice/npy.h"

namespace sluice::cli {
namespace {

struct Options {
  OutputOptions output;
  ModelOptions model;
  PromptOptions text;
  std::optional<std::string> texts;
  std::optional<Pooling> pooling;
  std::string out;
  bool no_normalise = false;
};

Result<bool> read_options(Arguments argv, Options& o, Strings& rest) {
  Args args(
      "embed [MODEL] [OPTIONS] TEXT",
      "Turns texts into vectors: the model's final states, pooled and brought to length 1. A text of '-', or none\n"
      "with a pipe, reads stdin.\n\n"
      "  sluice embed -m model.gguf \"some text\"\n"
      "  sluice embed -m model.gguf --texts texts.json --out vectors.npy");
  args.group("Text");
  o.text.for_chat_models = false;
  const auto path = [&args](const char* names, const char* value, const char* help, std::optional<std::string>& to) {
    args.option(names, value, help, [&to](std::string_view v) -> Result<void> {
      to = v;
      return {};
    });
  };
  path("-f,--file", "FILE", "the text of a file", o.text.file);
  path("-p,--prompt", "TEXT", "the text", o.text.text);
  path("--texts", "F.json", "an array of strings, each a text of its own", o.texts);
  args.flag("--special", o.text.special, "texts of control tokens become them");
  args.group("Vectors");
  args.option("--pooling", "none|mean|cls|last",
              "what becomes of the tokens' states (default: as the file says, else last); none: one vector per token",
              [&o](std::string_view v) -> Result<void> {
                o.pooling = TRY(parse_pooling(v));
                return {};
              });
  args.flag("--no-normalize", o.no_normalise, "leave the vectors as long as they are");
  args.text("--out", "E.npy", o.out, "write them as float32 [n_vectors][n_embd]");
  add_model_options(args, o.model);
  add_output_options(args, o.output);
  if (!TRY(parse(args, argv, o.output))) return false;
  rest = std::move(args.rest());
  return true;
}

Result<std::vector<float>> embed_all(const Options& o, Engine& engine, const std::vector<std::string>& texts) {
  EmbedOptions options{.normalise = !o.no_normalise};
  options.pooling = o.pooling ? *o.pooling : TRY(default_pooling(engine.model()));
  Sequence sequence = TRY(engine.new_sequence());
  std::vector<std::vector<Token>> tokens;
  uint64_t total = 0, before = 0;
  for (const std::string& text : texts) {
    tokens.push_back(engine.tokenizer()->encode(text, {.add_bos = true, .parse_special = o.text.special}));
    if (tokens.back().empty()) return Error{Code::unsupported, "an empty text has no vector; give some text"};
    TRY(check_fits(engine, sequence, tokens.back().size()));
    total += tokens.back().size();
  }
  ProgressBar bar("embed", total, "tokens", bar_options());
  options.on_progress = [&](uint64_t done, uint64_t) {
    bar.update(before + done);
    return !interrupted();
  };
  std::vector<float> all;
  for (const auto& ids : tokens) {
    const std::vector<float> rows = TRY(embed(engine, sequence, ids, options));
    all.insert(all.end(), rows.begin(), rows.end());
    before += ids.size();
  }
  bar.finish();
  return all;
}

Result<void> write_vectors(const Options& o, std::span<const float> all, size_t n_embd) {
  if (!o.out.empty()) {
    const uint64_t shape[] = {all.size() / n_embd, n_embd};
    NpyWriter file = TRY(file_result(NpyWriter::create(o.out, NpyType::f32, shape)));
    TRY(file.write(all));
    TRY(file.finish());
  }
  if (o.output.json) {
    JsonWriter json;
    json.open('{').field("n_embd", n_embd).key("embeddings").open('[');
    for (size_t at = 0; at < all.size(); at += n_embd) json.list(all.subspan(at, n_embd));
    return put(json.close().close().take());
  }
  if (!o.out.empty()) return {};
  std::string lines;
  for (size_t i = 0; i < all.size(); ++i) lines += fmt::format("{}{}", all[i], (i + 1) % n_embd == 0 ? '\n' : ' ');
  return put(lines);
}

}  // namespace

Result<int> embed_command(Arguments argv) {
  Options o;
  Strings rest;
  if (!TRY(read_options(argv, o, rest))) return kExitDone;
  TRY(take_model(rest, o.model));
  std::vector<std::string> texts;
  if (o.texts) {
    TRY(expect_no_more(rest));
    if (o.text.text || o.text.file) return usage_error("--texts and another text do not go together; choose one");
    texts = TRY(read_strings(*o.texts));
    if (texts.empty()) return usage_error("--texts holds no text; give at least one");
  } else {
    Prompt text = TRY(take_prompt(rest, o.text));
    if (!text.given) return usage_error("no text is given; try: sluice embed \"some text\"");
    texts.push_back(std::move(text.text));
  }
  Strings inputs = model_files(TRY(model_path(o.model)));
  if (o.texts) inputs.push_back(*o.texts);
  if (o.text.file) inputs.push_back(*o.text.file);
  TRY(check_outputs(inputs, {{"--out", o.out}}));
  const LoadedModel model = TRY(load_model(o.model, true, o.output.verbose));
  const std::vector<float> all = TRY(embed_all(o, *model.engine, texts));
  TRY(write_vectors(o, all, model.engine->model().n_embd));
  return kExitDone;
}

}  // namespace sluice::cli
