// sluice pin
#include "base/counter_rng.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/json_input.h"
#include "cli/json_writer.h"
#include "cli/model.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/pin_compare.h"
#include "sluice/device.h"

namespace sluice::cli {
namespace {

constexpr uint32_t kGreedy = 9, kRandomTokens = 32, kPositions = 256;
constexpr std::string_view kText =
    "Once upon a time, in a small village by the sea, there lived a girl who liked to count the stars. Every night she "
    "climbed the hill and";

// Of the logits, with the same experts: a GPU computes in F32, the fast kernels of a CPU with activations of 8 bits.
double usual_bound(const EngineInfo& info) { return info.backend == "cpu" ? 1e-2 : 1e-5; }

struct PinOptions {
  OutputOptions output;
  ModelOptions model;
  std::string tokens;
  double max_nmse = 0;  // 0: usual_bound()
};

struct Pinned {
  std::string backend;
  std::string skipped;  // why; empty: it ran
  EngineInfo info;
  double max_nmse = 0;
  PinResult result;
  Strings faults;
};

Result<bool> read_options(Arguments argv, PinOptions& o, Strings& rest) {
  Args args(
      "pin [MODEL.gguf] [--tokens IDS.json] [--json] [OPTIONS]",
      "Compares every backend of this build, or that of --backend, with the plain F32 kernels of the CPU: gates of\n"
      "each layer, logits, choices of experts, host reads. All runs once with the reference's choices, so that no\n"
      "flip hides or makes an error, and once with the backend's own. A near tie is a token whose last choice hangs\n"
      "on less than the two differ; a flip that is no such tie is a fault. Ends with 1 where there is a fault.");
  args.text("--tokens", "IDS.json", o.tokens, "token ids, a JSON array (default: a sentence, or random ids)");
  args.number<double>("--max-nmse", "X", o.max_nmse, 0.0, 1e30,
                      "of the logits, with the reference's choices (CPU: 1e-2, GPU: 1e-5)");
  o.model.engine.type_k = o.model.engine.type_v = Type::F32;  // as the reference has it
  add_model_options(args, o.model);
  add_output_options(args, o.output);
  if (!TRY(parse(args, argv, o.output))) return false;
  rest = std::move(args.rest());
  return true;
}

std::vector<Token> usual_tokens(const Engine& engine) {
  if (const auto tokenizer = engine.tokenizer()) return tokenizer->encode(kText, {});
  std::vector<Token> ids;
  for (uint32_t i = 0; i < kRandomTokens; ++i)
    ids.push_back(static_cast<Token>(counter_uniform(1, i) * float(engine.model().n_vocab - 1)));
  return ids;
}

Result<Pinned> pin_backend(const PinOptions& o, ModelOptions model, const std::string& backend,
                           std::span<const Token> tokens, const PinRun& reference) {
  Pinned pinned{.backend = backend};
  model.engine.backend = backend;
  auto loaded = load_model(model, false, o.output.verbose);
  if (!loaded) {
    // One that was asked for must be there; of the others those that this machine has are taken.
    if (o.model.engine.backend != "auto" || loaded.error().code != Code::unsupported) return loaded.error();
    pinned.skipped = loaded.error().message;
    return pinned;
  }
  Engine& engine = *loaded->engine;
  pinned.info = engine.info();
  pinned.max_nmse = o.max_nmse > 0 ? o.max_nmse : usual_bound(pinned.info);
  const PinRun replayed =
      TRY(pin_run(engine, tokens, 0, reference.routing.layers.empty() ? nullptr : &reference.routing));
  const PinRun own = TRY(pin_run(engine, tokens, kGreedy, nullptr));
  pinned.result = pin_compare(reference, replayed, own);
  pinned.faults = pinned.result.faults(pinned.max_nmse);
  return pinned;
}

std::string as_text(const Pinned& p) {
  if (!p.skipped.empty()) return fmt::format("\n{}: skipped ({})\n", p.backend, p.skipped);
  const PinResult& r = p.result;
  const PinLayer sum = r.total();
  std::string out = fmt::format("\n{}: {}, {}\n", p.backend, printable(p.info.device), p.info.isa);
  if (!r.layers.empty())
    out +=
        "\n| layer |  gate NMSE | flips | unexplained | near ties |\n| ----: | ---------: | ----: | ----------: | "
        "--------: |\n";
  for (const PinLayer& l : r.layers)
    out += fmt::format("| {:>5} | {:>10.2e} | {:>5} | {:>11} | {:>9} |\n", l.layer, l.gate_nmse, l.n_flips,
                       l.n_unexplained, l.n_near_ties);
  out += fmt::format("\nlogits   NMSE {:.2e} with the reference's routing (at most {:.0e}), {:.2e} with its own\n",
                     r.replayed_nmse, p.max_nmse, r.free_nmse);
  if (!r.layers.empty())
    out += fmt::format("routing  {} of {} choices differ, {} of them unexplained; {} near ties\n", sum.n_flips,
                       r.n_choices, sum.n_unexplained, sum.n_near_ties);
  out += fmt::format("decode   {} of {} greedy tokens equal; {:.2f} host reads and {:.2f} submits per token\n",
                     r.n_greedy_equal, r.n_greedy, r.reads, r.submits);
  for (const std::string& fault : p.faults) out += fmt::format("FAULT    {}\n", fault);
  return out;
}

std::string as_json(const std::string& path, size_t n_tokens, std::span<const Pinned> all) {
  JsonWriter json;
  json.open('{').field("path", path).field("n_tokens", n_tokens).key("backends").open('[');
  for (const Pinned& p : all) {
    json.open('{').field("backend", p.backend);
    if (!p.skipped.empty()) {
      json.field("skipped", p.skipped).close();
      continue;
    }
    const PinResult& r = p.result;
    const PinLayer sum = r.total();
    json.field("device", p.info.device).field("isa", p.info.isa).field("max_nmse", p.max_nmse);
    json.field("nmse_replayed", r.replayed_nmse).field("nmse", r.free_nmse).field("choices", r.n_choices);
    json.field("flips", sum.n_flips).field("unexplained", sum.n_unexplained).field("near_ties", sum.n_near_ties);
    json.field("greedy_tokens", r.n_greedy).field("greedy_equal", r.n_greedy_equal);
    json.field("host_reads_per_token", r.reads).field("submits_per_token", r.submits).key("layers").open('[');
    for (const PinLayer& l : r.layers) {
      json.open('{').field("layer", l.layer).field("gate_nmse", l.gate_nmse).field("flips", l.n_flips);
      json.field("unexplained", l.n_unexplained).field("near_ties", l.n_near_ties).close();
    }
    json.close().key("faults").list(p.faults).close();
  }
  return json.close().close().take();
}

}  // namespace

Result<int> pin_command(Arguments argv) {
  PinOptions o;
  Strings rest;
  if (!TRY(read_options(argv, o, rest))) return kExitDone;
  TRY(take_model(rest, o.model));
  TRY(expect_no_more(rest));
  if (o.model.engine.reference)
    return usage_error("the reference is what all are compared with; leave --reference out");
  ModelOptions model = o.model;
  model.path = TRY(model_path(o.model));
  std::vector<Token> tokens;
  if (!o.tokens.empty()) tokens = TRY(read_ids(o.tokens, INT32_MAX));
  if (model.engine.n_ctx == 0)
    model.engine.n_ctx = std::max(kPositions, static_cast<uint32_t>(tokens.size()) + kGreedy);

  ModelOptions plain = model;
  plain.engine.backend = "cpu";
  plain.engine.device = -1;
  plain.engine.device_limits.clear();
  plain.engine.cpu_isa.clear();
  plain.engine.reference = true;
  PinRun reference;
  {
    const LoadedModel loaded = TRY(load_model(plain, false, o.output.verbose));
    if (tokens.empty()) tokens = usual_tokens(*loaded.engine);
    reference = TRY(pin_run(*loaded.engine, tokens, kGreedy, nullptr));
  }
  if (!o.output.json)
    TRY(put(fmt::format("{}, {} tokens; reference: plain F32 kernels of the CPU\n", printable(model.path, 400),
                        tokens.size())));
  const Strings names = model.engine.backend == "auto" ? backend_names() : Strings{model.engine.backend};
  std::vector<Pinned> all;
  bool failed = false;
  for (const std::string& name : names) {
    all.push_back(TRY(pin_backend(o, model, name, tokens, reference)));
    if (!o.output.json) TRY(put(as_text(all.back())));
    failed = failed || !all.back().faults.empty();
  }
  if (o.output.json) TRY(put(as_json(model.path, tokens.size(), all)));
  return failed ? kExitFailed : kExitDone;
}

}  // namespace sluice::cli
