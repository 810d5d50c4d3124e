// sluice pull, list, rm
#include <algorithm>

#include "base/text.h"
#include "cli/commands.h"
#include "cli/hub_model.h"
#include "cli/json_writer.h"
#include "cli/options.h"
#include "cli/output.h"

namespace sluice::cli {
namespace {

constexpr const char* kNameHelp =
    "NAME is OWNER/REPO, or OWNER/REPO:QUANT with a quantisation (Q8_0; Q4_K_M by default) or a file's name. The\n"
    "cache is the one that the hub's own tools use: HF_HUB_CACHE, HF_HOME/hub, or ~/.cache/huggingface/hub.";

void put_model(JsonWriter& json, const hub::Model& model) {
  json.open('{').field("name", model.name).field("bytes", model.n_bytes).field("path", model.path());
  json.key("files").list(model.files).close();
}

// The options of a command that takes one name; false after --help.
Result<bool> read_name(Arguments argv, Args& args, OutputOptions& output, std::string& name) {
  add_output_options(args, output);
  if (!TRY(parse(args, argv, output))) return false;
  if (args.rest().size() != 1)
    return usage_error(fmt::format("{} names given where one is wanted; write OWNER/REPO[:QUANT]", args.rest().size()));
  name = args.rest()[0];
  return true;
}

}  // namespace

Result<int> pull_command(Arguments argv) {
  OutputOptions output;
  std::string name;
  Args args("pull NAME",
            std::string("Downloads a model from the hub, or what the cache lacks of it, and prints its "
                        "path. An interrupted download goes\non where it stopped. HF_TOKEN gives access to "
                        "private models, HF_ENDPOINT names a mirror.\n\n") +
                kNameHelp + "\n\n  sluice pull unsloth/Qwen3-30B-A3B-GGUF:Q4_K_M");
  if (!TRY(read_name(argv, args, output, name))) return kExitDone;
  const hub::Model model = TRY(get_hub_model(name, true));
  if (output.json) {
    JsonWriter json;
    put_model(json, model);
    TRY(put(json.take()));
    return kExitDone;
  }
  say("{}: {}", model.name, bytes_text(double(model.n_bytes)));
  TRY(put(model.path() + "\n"));
  return kExitDone;
}

Result<int> list_command(Arguments argv) {
  OutputOptions output;
  Args args("list",
            "Shows the models in the hub's cache: name, size and the file that holds them, or the first of "
            "several.");
  add_output_options(args, output);
  if (!TRY(parse(args, argv, output))) return kExitDone;
  TRY(expect_no_more(args.rest()));
  const hub::Settings settings = TRY(hub_settings());
  const std::vector<hub::Model> models = TRY(hub::list(settings));
  if (output.json) {
    JsonWriter json;
    json.open('{').field("cache", settings.cache).key("models").open('[');
    for (const hub::Model& model : models) put_model(json, model);
    TRY(put(json.close().close().take()));
    return kExitDone;
  }
  if (models.empty()) note("no models in '{}'; get one with sluice pull OWNER/REPO", printable_path(settings.cache));
  size_t width = 0;
  for (const hub::Model& model : models) width = std::max(width, model.name.size());
  std::string lines;
  for (const hub::Model& model : models)
    lines += fmt::format("{:<{}}  {:>9}  {}\n", model.name, width, bytes_text(double(model.n_bytes)), model.path());
  TRY(put_text(lines));
  return kExitDone;
}

Result<int> rm_command(Arguments argv) {
  OutputOptions output;
  std::string name;
  Args args("rm NAME",
            std::string("Removes a model from the hub's cache, for the hub's other tools as well. What other "
                        "revisions share stays.\n\n") +
                kNameHelp);
  if (!TRY(read_name(argv, args, output, name))) return kExitDone;
  const hub::Name parsed = TRY(hub::parse_name(name));
  const hub::Settings settings = TRY(hub_settings());
  const hub::Removed removed = TRY(hub::remove(settings, parsed));
  if (output.json) {
    JsonWriter json;
    json.open('{').field("name", removed.name).field("bytes", removed.n_bytes);
    TRY(put(json.close().take()));
  } else {
    say("{}: removed, {} free again", removed.name, bytes_text(double(removed.n_bytes)));
  }
  return kExitDone;
}

}  // namespace sluice::cli
