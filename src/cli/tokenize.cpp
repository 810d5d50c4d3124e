// sluice tokenize
#include "base/text.h"
#include "cli/commands.h"
#include "cli/json_input.h"
#include "cli/json_writer.h"
#include "cli/model.h"
#include "cli/options.h"
#include "cli/output.h"

namespace sluice::cli {
namespace {

struct TokenizeOptions {
  OutputOptions output;
  ModelOptions model;
  PromptOptions text;
  bool no_bos = false;
  std::optional<std::string> ids, texts;
};

std::string hex(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) out += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return out;
}

Result<void> decode(const TokenizeOptions& o, const Tokenizer& tokenizer) {
  std::vector<Token> ids;
  for (const uint32_t id : TRY(parse_list("--decode", *o.ids, 0, tokenizer.n_vocab() - 1)))
    ids.push_back(static_cast<Token>(id));
  const std::string text = tokenizer.decode(ids, o.text.special);
  if (!o.output.json) return put_text(text + "\n");
  JsonWriter json;
  json.open('{').field("text", text).field("bytes_hex", hex(text));
  return put(json.close().take());
}

Result<void> encode_texts(const TokenizeOptions& o, const Tokenizer& tokenizer, const EncodeOptions& how) {
  JsonWriter json;
  json.open('[');
  for (const std::string& text : TRY(read_strings(*o.texts))) json.list(tokenizer.encode(text, how));
  return put(json.close().take());
}

Result<void> encode(const TokenizeOptions& o, const Tokenizer& tokenizer, const EncodeOptions& how,
                    std::string_view text) {
  const std::vector<Token> ids = tokenizer.encode(text, how);
  if (o.output.json) {
    JsonWriter json;
    json.open('{').key("ids").list(ids).key("pieces").open('[');
    for (const Token id : ids) json.value(tokenizer.piece(id, true));
    return put(json.close().close().take());
  }
  std::string out;
  for (const Token id : ids) out += fmt::format("{:>8}  '{}'\n", id, printable(tokenizer.piece(id, true)));
  return put(out);
}

}  // namespace

Result<int> tokenize_command(Arguments argv) {
  TokenizeOptions o;
  o.text.keep_line_end = true;
  Args args(
      "tokenize [-m FILE] [OPTIONS] TEXT",
      "Shows the token ids of a text, one a line with its piece, or the text of ids. Files that hold a vocabulary\n"
      "alone do. A text of '-', or none with a pipe, reads stdin.\n\n"
      "  sluice tokenize -m model.gguf \"Hello\"\n"
      "  sluice tokenize -m model.gguf --decode 9707,11");
  args.group("Text");
  args.text("-m,--model", "FILE", o.model.path, "the GGUF file (default: the story model), or hf:OWNER/REPO[:QUANT]");
  args.text("-hf,--hf-repo", "OWNER/REPO[:QUANT]", o.model.hub_name, "a model of the hub");
  args.option("-f,--file", "FILE", "the text of a file", [&](std::string_view v) -> Result<void> {
    o.text.file = v;
    return {};
  });
  args.option("-p,--prompt", "TEXT", "the text", [&](std::string_view v) -> Result<void> {
    o.text.text = v;
    return {};
  });
  args.option("--texts", "F.json", "an array of strings; prints an array of id arrays",
              [&](std::string_view v) -> Result<void> {
                o.texts = v;
                return {};
              });
  args.option("--decode", "IDS", "the text of ids, separated by commas", [&](std::string_view v) -> Result<void> {
    o.ids = v;
    return {};
  });
  args.flag("--no-bos", o.no_bos, "no BOS (and EOS), even if the model asks for it");
  args.flag("--special", o.text.special, "texts of control tokens become them; shown by --decode");
  args.text("--pre-tokenizer", "NAME", o.model.engine.pre_tokenizer, "use this pre-tokenizer instead of the file's");
  add_output_options(args, o.output);
  if (!TRY(parse(args, argv, o.output))) return kExitDone;
  TRY(take_model(args.rest(), o.model));
  if (o.ids && o.texts) return usage_error("--decode and --texts do not go together; choose one");
  Prompt text;
  if (o.ids || o.texts)
    TRY(expect_no_more(args.rest()));
  else
    text = TRY(take_prompt(args.rest(), o.text));
  if (!text.given) return usage_error("no text is given; try: sluice tokenize -m FILE \"some text\"");
  const std::string path = TRY(model_path(o.model));
  const gguf::File file = TRY(file_result(gguf::File::open(path, {.metadata_only = true})));
  const auto made = Tokenizer::create(file, o.model.engine.pre_tokenizer);
  if (!made) return tokenizer_error(made.error());
  const auto& tokenizer = *made;
  const EncodeOptions how{.add_bos = !o.no_bos, .parse_special = o.text.special};
  if (o.ids)
    TRY(decode(o, *tokenizer));
  else if (o.texts)
    TRY(encode_texts(o, *tokenizer, how));
  else
    TRY(encode(o, *tokenizer, how, text.text));
  return kExitDone;
}

}  // namespace sluice::cli
