// sluice logits
#include <fstream>
#include <memory>

#include "base/file_io.h"
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

struct LogitsOptions {
  OutputOptions output;
  ModelOptions model;
  std::string tokens, out, routing, routing_in, gate;
  uint32_t n_greedy = 0, chunk = 0;
};

// Logits of this many bytes are held at a time, unless --chunk says otherwise.
constexpr uint64_t kLogitsBytes = 256u << 20;

void append(Routing& all, const Routing& part) {
  all.n_used = part.n_used;
  all.n_expert = part.n_expert;
  for (const auto& [idx, layer] : part.layers) {
    Routing::Layer& to = all.layers[idx];
    to.n_used = layer.n_used;
    to.experts.insert(to.experts.end(), layer.experts.begin(), layer.experts.end());
    to.weights.insert(to.weights.end(), layer.weights.begin(), layer.weights.end());
    to.gate.insert(to.gate.end(), layer.gate.begin(), layer.gate.end());
  }
}

// Rows [first, first + n) of choices for all tokens.
Routing rows_of(const Routing& all, size_t first, size_t n) {
  Routing part{.n_used = all.n_used, .n_expert = all.n_expert};
  for (const auto& [idx, layer] : all.layers) {
    const auto from = layer.experts.begin() + static_cast<ptrdiff_t>(first * layer.n_used);
    part.layers[idx].n_used = layer.n_used;
    part.layers[idx].experts.assign(from, from + static_cast<ptrdiff_t>(n * layer.n_used));
  }
  return part;
}

std::string routing_json(const Routing& routing) {
  JsonWriter json;
  json.open('{').key("layers").open('{');
  for (const auto& [idx, layer] : routing.layers) {
    const std::span<const uint32_t> experts(layer.experts);
    const std::span<const float> weights(layer.weights);
    json.key(std::to_string(idx)).open('{').field("n_expert", routing.n_expert).field("n_used", layer.n_used);
    json.key("experts").open('[');
    for (size_t at = 0; at < experts.size(); at += layer.n_used) json.list(experts.subspan(at, layer.n_used));
    json.close().key("weights").open('[');
    for (size_t at = 0; at < weights.size(); at += layer.n_used) json.list(weights.subspan(at, layer.n_used));
    json.close().close();
  }
  return json.close().close().take();
}

class Dump {
 public:
  Dump(const LogitsOptions& options, Engine& engine, Sequence& sequence)
      : o_(options), engine_(engine), sequence_(sequence) {}

  Result<void> prompt(std::span<const Token> ids) {
    const uint64_t n_vocab = engine_.model().n_vocab;
    const bool all_rows = !o_.out.empty();
    if (all_rows) {
      const uint64_t shape[] = {ids.size(), n_vocab};
      out_ = std::make_unique<NpyWriter>(TRY(file_result(NpyWriter::create(o_.out, NpyType::f32, shape))));
    }
    Routing forced;
    if (!o_.routing_in.empty()) forced = TRY(read_routing(o_.routing_in, engine_.model(), ids.size()));
    const uint64_t fitting =
        all_rows ? std::max<uint64_t>(kLogitsBytes / (4 * std::max<uint64_t>(n_vocab, 1)), 1) : ids.size();
    const size_t n_ubatch = std::max(engine_.info().n_ubatch, 1u);
    const size_t chunk = o_.chunk != 0 ? o_.chunk : fitting >= n_ubatch ? fitting / n_ubatch * n_ubatch : fitting;
    ProgressBar bar("prefill", ids.size(), "tokens", bar_options());
    for (size_t at = 0; at < ids.size(); at += chunk) {
      const size_t n = std::min(chunk, ids.size() - at);
      const Routing part = rows_of(forced, at, n);
      StepOptions step{.routing = !o_.routing.empty() || !o_.gate.empty(),
                       .gate = !o_.gate.empty(),
                       .forced = o_.routing_in.empty() ? nullptr : &part};
      step.on_progress = [&](uint32_t done, uint32_t) {
        bar.update(at + done);
        return !interrupted();
      };
      const StepResult result = TRY(engine_.step(
          {{.sequence = &sequence_, .tokens = ids.subspan(at, n), .logits = all_rows ? Logits::all : Logits::last}},
          step));
      for (size_t row = 0; row < result.n_rows(); ++row) TRY(usable_row(result, row));
      if (all_rows) TRY(out_->write(std::span(result.logits)));
      const auto last = result.row(result.n_rows() - 1);
      last_.assign(last.begin(), last.end());
      append(routing_, result.routing);
    }
    return {};
  }

  Result<void> write_files(size_t n_tokens) {
    if (out_ != nullptr) TRY(out_->finish());
    if (!o_.routing.empty()) {
      const std::string text = routing_json(routing_);
      TRY(file_result(write_file_atomically(o_.routing, std::as_bytes(std::span(text)))));
    }
    if (o_.gate.empty()) return {};
    NpzWriter gates;
    const uint64_t shape[] = {n_tokens, routing_.n_expert};
    for (const auto& [idx, layer] : routing_.layers)
      gates.add(std::to_string(idx), shape, std::span<const float>(layer.gate));
    return file_result(gates.write(o_.gate));
  }

  // One token at a time; an end token is no stop.
  Result<std::vector<Token>> greedy() {
    std::vector<Token> ids;
    ProgressBar bar("greedy", o_.n_greedy, "tokens", bar_options());
    while (ids.size() < o_.n_greedy) {
      const int64_t best = argmax(last_);
      if (best < 0) return unusable_numbers();
      ids.push_back(static_cast<Token>(best));
      if (ids.size() == o_.n_greedy) break;
      if (interrupted()) return interrupted_error();
      const StepResult result = TRY(engine_.step({{.sequence = &sequence_, .tokens = std::span(ids).last(1)}}));
      const auto row = TRY(usable_row(result, 0));
      last_.assign(row.begin(), row.end());
      bar.update(ids.size());
    }
    return ids;
  }

 private:
  const LogitsOptions& o_;
  Engine& engine_;
  Sequence& sequence_;
  std::unique_ptr<NpyWriter> out_;
  Routing routing_;
  std::vector<float> last_;
};

Result<bool> read_options(Arguments argv, LogitsOptions& o, Strings& rest) {
  Args args("logits [-m FILE] --tokens IDS.json [--out L.npy] [OPTIONS]",
            "Computes given tokens and writes what came out: logits of every position, expert choices, gate values.\n"
            "Works on files without a vocabulary.\n\n"
            "  sluice logits -m model.gguf --tokens ids.json --out logits.npy --routing routing.json");
  args.group("Input and output");
  args.text("--tokens", "IDS.json", o.tokens, "the token ids, a JSON array");
  args.text("--out", "L.npy", o.out, "logits, float32 [n_tokens][n_vocab]");
  args.text("--routing", "R.json", o.routing,
            "expert choices: {\"layers\": {\"LAYER\": {\"experts\": [n_tokens][n_used], \"weights\": the same}}}");
  args.text("--routing-in", "R.json", o.routing_in,
            "take these expert choices, in the form that --routing writes; only the ids are taken: their weights are "
            "computed "
            "by the model's own rule");
  args.text("--gate", "G.npz", o.gate,
            "gate logits, for each layer an array float32 [n_tokens][n_expert] of its number");
  args.number<uint32_t>("--greedy", "N", o.n_greedy, 0, 1u << 20,
                        "print {\"greedy\": [N ids]}, the continuation; an end token is no stop");
  args.number<uint32_t>("--chunk", "N", o.chunk, 1, 1u << 20, "tokens given to the engine at a time (default: all)");
  add_model_options(args, o.model);
  add_output_options(args, o.output);
  if (!TRY(parse(args, argv, o.output))) return false;
  rest = std::move(args.rest());
  return true;
}

}  // namespace

Result<int> logits_command(Arguments argv) {
  LogitsOptions o;
  Strings rest;
  if (!TRY(read_options(argv, o, rest))) return kExitDone;
  TRY(take_model(rest, o.model));
  TRY(expect_no_more(rest));
  if (o.tokens.empty()) return usage_error("no tokens are given; add --tokens IDS.json");
  if (o.out.empty() && o.routing.empty() && o.gate.empty() && o.n_greedy == 0)
    return usage_error("nothing is asked for; add --out L.npy, --routing R.json, --gate G.npz or --greedy N");

  Strings inputs = model_files(TRY(model_path(o.model)));
  inputs.insert(inputs.end(), {o.tokens, o.routing_in});
  TRY(check_outputs(inputs, {{"--out", o.out}, {"--routing", o.routing}, {"--gate", o.gate}}));
  const LoadedModel model = TRY(load_model(o.model, false, o.output.verbose));
  const std::vector<Token> ids = TRY(read_ids(o.tokens, model.engine->model().n_vocab));
  Sequence sequence = TRY(model.engine->new_sequence());
  TRY(check_fits(*model.engine, sequence, ids.size(), o.n_greedy == 0 ? 0 : o.n_greedy - 1));
  Dump dump(o, *model.engine, sequence);
  TRY(dump.prompt(ids));
  TRY(dump.write_files(ids.size()));
  JsonWriter json;
  json.open('{');
  if (o.output.json) json.field("n_tokens", ids.size()).field("n_vocab", model.engine->model().n_vocab);
  if (o.n_greedy > 0) {
    const std::vector<Token> greedy = TRY(dump.greedy());
    json.key("greedy").list(greedy);
  }
  json.close();
  if (o.n_greedy > 0 || o.output.json) TRY(put(json.take()));
  return kExitDone;
}

}  // namespace sluice::cli
