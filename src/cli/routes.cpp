// sluice routes
#include "base/file_io.h"
#include "base/interrupt.h"
#include "cli/commands.h"
#include "cli/generate.h"
#include "cli/json_writer.h"
#include "cli/model.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/output_files.h"
#include "cli/route_counts.h"
#include "sluice/npy.h"
#include "sluice/perplexity.h"

namespace sluice::cli {
namespace {

struct RoutesOptions {
  OutputOptions output;
  ModelOptions model;
  PromptOptions prompt;
  SamplingOptions sampling;
  std::string svg, npz, separator;
};

Result<bool> read_options(Arguments argv, RoutesOptions& o, Strings& rest) {
  Args args(
      "routes [MODEL.gguf] [PROMPT | -f FILE] [OPTIONS]",
      "Shows which experts each layer used: a heat map, the entropy of the shares and the imbalance (the busiest\n"
      "expert over the mean). Counts the prompt's tokens and, with -n, those generated after it; a file longer than\n"
      "the context is cut into windows of it, each from an empty state.\n\n"
      "  sluice routes \"Once upon a time\" -n 200\n"
      "  sluice routes model.gguf -f book.txt --svg routes.svg");
  o.prompt.for_chat_models = false;  // texts are counted as they are
  add_prompt_options(args, o.prompt);
  args.text("--separator", "LINE", o.separator,
            "the file holds documents with this line between them, each begins with BOS");
  args.group("Files");
  args.text("--svg", "OUT.svg", o.svg, "write the heat map as an image");
  args.text("--npz", "OUT.npz", o.npz,
            "write the array counts, int64 [n_layer][n_expert] (layers without experts: zeros)");
  add_model_options(args, o.model);
  add_sampling_options(args, o.sampling);
  add_output_options(args, o.output);
  o.prompt.n_predict = 0;
  if (!TRY(parse(args, argv, o.output))) return false;
  rest = std::move(args.rest());
  return true;
}

Result<void> count_windows(Engine& engine, std::span<const Token> ids, RouteCounts& counts) {
  Sequence sequence = TRY(engine.new_sequence());
  ProgressBar bar("routes", ids.size(), "tokens", bar_options());
  const size_t n_window = engine.info().n_ctx;
  for (size_t at = 0; at < ids.size(); at += n_window) {
    TRY(sequence.truncate(0));
    StepOptions step{.routing = true};
    step.on_progress = [&](uint32_t done, uint32_t) {
      bar.update(at + done);
      return !interrupted();
    };
    const auto window = ids.subspan(at, std::min(n_window, ids.size() - at));
    const StepResult result =
        TRY(engine.step({{.sequence = &sequence, .tokens = window, .logits = Logits::none}}, step));
    counts.add(result.routing, window.size());
  }
  return {};
}

Result<void> count_generation(const RoutesOptions& o, const LoadedModel& model, std::span<const Token> ids,
                              RouteCounts& counts) {
  Sampler sampler(TRY(sampling_params(o.sampling, model.path)));
  Sequence sequence = TRY(model.engine->new_sequence());
  GenerateOptions options{.n_predict = o.prompt.n_predict, .routing = true};
  options.on_routing = [&](const Routing& routing) {
    if (routing.layers.empty() || routing.n_used == 0) return;
    const Routing::Layer& layer = routing.layers.begin()->second;
    counts.add(routing, layer.experts.size() / layer.n_used);
  };
  const Generation g = TRY(generate(*model.engine, sequence, ids, sampler, options));
  if (g.stop == "interrupted") return interrupted_error();
  return {};
}

Result<void> write_outputs(const RoutesOptions& o, const ModelInfo& model, const RouteCounts& counts) {
  if (!o.svg.empty()) {
    const std::string svg = counts.svg(model.name);
    TRY(file_result(write_file_atomically(o.svg, std::as_bytes(std::span(svg)))));
  }
  if (!o.npz.empty()) {
    std::vector<int64_t> all(size_t{model.n_layer} * model.n_expert);
    for (const auto& [idx, layer] : counts.layers())
      std::copy(layer.begin(), layer.end(), all.begin() + static_cast<ptrdiff_t>(size_t{idx} * model.n_expert));
    const uint64_t shape[] = {model.n_layer, model.n_expert};
    NpzWriter npz;
    npz.add("counts", shape, std::span<const int64_t>(all));
    TRY(file_result(npz.write(o.npz)));
  }
  if (o.output.json) return put(counts.json());
  return put(counts.text(terminal_width(Stream::out, 100), use_colour()));
}

}  // namespace

Result<int> routes_command(Arguments argv) {
  RoutesOptions o;
  Strings rest;
  if (!TRY(read_options(argv, o, rest))) return kExitDone;
  TRY(take_model(rest, o.model));
  if (!o.svg.empty() || !o.npz.empty()) {
    Strings inputs = model_files(TRY(model_path(o.model)));
    inputs.push_back(o.prompt.file.value_or("-"));
    TRY(check_outputs(inputs, {{"--svg", o.svg}, {"--npz", o.npz}}));
  }
  const Prompt prompt = TRY(take_prompt(rest, o.prompt));
  if (!prompt.given) return usage_error("no text is given; try: sluice routes \"Once upon a time\" -n 100");

  const LoadedModel model = TRY(load_model(o.model, true, o.output.verbose));
  const ModelInfo& info = model.engine->model();
  if (info.n_expert == 0) return Error{Code::unsupported, "the model has no experts; give a mixture-of-experts model"};
  const Tokenizer& tokenizer = *model.engine->tokenizer();
  std::vector<Token> ids =
      perplexity_tokens(tokenizer, prompt.text, {.parse_special = o.prompt.special, .separator = o.separator});
  if (ids.empty() && tokenizer.bos() >= 0) ids.push_back(tokenizer.bos());
  if (ids.empty()) return usage_error("the text is empty and the model has no token to begin with; give a text");
  RouteCounts counts(info.n_expert);
  if (o.prompt.n_predict == 0)
    TRY(count_windows(*model.engine, ids, counts));
  else
    TRY(count_generation(o, model, ids, counts));
  TRY(write_outputs(o, info, counts));
  return kExitDone;
}

}  // namespace sluice::cli
