#include "cli/options.h"

#include <algorithm>
#include <random>

#include "base/file_io.h"
#include "base/log.h"
#include "base/text.h"
#include "cli/hub_model.h"
#include "cli/model.h"
#include "cli/output.h"
#include "sluice/device.h"
#include "sluice/speculate.h"

namespace sluice::cli {
namespace {

constexpr uint32_t kMaxPositions = 1u << 24, kMaxUbatch = 1u << 14;  // as the engine has them

bool names_a_model(std::string_view argument) { return argument.ends_with(".gguf") || names_a_hub_model(argument); }

Args::Apply type_option(std::string name, Type& target) {
  return [name = std::move(name), &target](std::string_view v) -> Result<void> {
    if (v == "f16")
      target = Type::F16;
    else if (v == "f32")
      target = Type::F32;
    else if (v == "q8_0")
      target = Type::Q8_0;
    else
      return usage_error(fmt::format("{} is f16, f32 or q8_0, not '{}'; choose one of them", name, printable(v)));
    return {};
  };
}

Result<void> set_backend(EngineOptions& options, std::string_view v) {
  const Strings names = backend_names();
  if (v != "auto" && std::find(names.begin(), names.end(), v) == names.end()) {
    if (v == "vulkan")
      return usage_error(
          "the vulkan backend is not part of this build; configure it with -DSLUICE_VULKAN=ON, or use --backend cpu");
    if (v == "cuda") return usage_error("the cuda backend is not part of this version yet; use --backend cpu");
    return usage_error(
        fmt::format("there is no backend '{}'; choose auto or one of: {}", printable(v), fmt::join(names, ", ")));
  }
  options.backend = v;
  return {};
}

Result<void> set_isa(EngineOptions& options, std::string_view v) {
  if (v != "scalar" && v != "avx2" && v != "avx512" && v != "neon" && v != "neon_i8mm")
    return usage_error(
        fmt::format("there is no instruction set '{}'; choose scalar, avx2, avx512, neon or neon_i8mm", printable(v)));
  options.cpu_isa = v;
  return {};
}

// "FILE" or "FILE:SCALE"; a name that ends in a colon and a number needs a scale behind it.
Result<void> add_adapter(EngineOptions& options, std::string_view v) {
  AdapterOptions adapter{.path = std::string(v)};
  if (const size_t colon = v.rfind(':'); colon != v.npos && colon != 0) {
    if (const auto scale = parse_number<float>("--lora", v.substr(colon + 1), -1e6f, 1e6f)) {
      adapter.path = v.substr(0, colon);
      adapter.scale = *scale;
    }
  }
  if (adapter.path.empty()) return usage_error("--lora needs a file; give FILE or FILE:SCALE");
  options.adapters.push_back(std::move(adapter));
  return {};
}

// Floats of sampling options. The ranges are the sampler's; this only wants a finite number.
template <class T>
void add_optional(Args& args, std::string_view names, std::optional<T>& target, T min, T max, const std::string& help) {
  const std::string name(names.substr(names.rfind(',') + 1));
  args.option(names, "N", help, [&target, name, min, max](std::string_view v) -> Result<void> {
    target = TRY(parse_number<T>(name, v, min, max));
    return {};
  });
}

}  // namespace

void add_output_options(Args& args, OutputOptions& options) {
  args.group("Output");
  args.flag("--json", options.json, "print one JSON object");
  args.flag("-v,--verbose", options.verbose, "say more on stderr");
  args.flag("--quiet", options.quiet, "nothing on stderr but errors");
}

void add_model_options(Args& args, ModelOptions& options) {
  EngineOptions& e = options.engine;
  args.group("Model");
  args.text("-m,--model", "FILE", options.path,
            "the GGUF file (default: the story model that comes with sluice, or the one that SLUICE_STORY names), or "
            "hf:OWNER/REPO[:QUANT] for one of the hub");
  args.text("-hf,--hf-repo", "OWNER/REPO[:QUANT]", options.hub_name,
            "a model of the hub (QUANT: Q4_K_M by default), downloaded first where it is not in the cache");
  args.number<uint32_t>("-c,--ctx-size", "N", e.n_ctx, 0, kMaxPositions,
                        "positions of context; 0: the model's, or what fits in memory");
  args.number<uint32_t>("-t,--threads", "N", e.n_threads, 1, kMaxThreads,
                        "threads (default: the fast cores this process may use)");
  args.number<uint32_t>("-ub,--ubatch-size", "N", e.n_ubatch, 1, kMaxUbatch,
                        "tokens computed together at most (default 512, on a large GPU 2048)");
  args.option("-ctk,--cache-type-k", "TYPE", "type of the key cache: f16 (default), f32, q8_0",
              type_option("--cache-type-k", e.type_k));
  args.option("-ctv,--cache-type-v", "TYPE", "type of the value cache: f16 (default), f32, q8_0",
              type_option("--cache-type-v", e.type_v));
  args.option("--backend", "NAME", fmt::format("auto (default), {}", fmt::join(backend_names(), ", ")),
              [&e](std::string_view v) { return set_backend(e, v); });
  args.number<int32_t>("--device", "N", e.device, 0, 1023,
                       "the GPU with this number in 'sluice devices' (default: the best)");
  args.text("--device-limits", "LIST", e.device_limits, "");  // for tests: docs/add-a-backend.md
  args.option("--fit", "on|off",
              "on (default): experts that the GPU's memory does not hold lie in host memory, where it reads them in\n"
              "place, slower; off, or --no-fit: that is an error",
              [&e](std::string_view v) -> Result<void> {
                if (v != "on" && v != "off")
                  return usage_error(fmt::format("--fit is on or off, not '{}'; choose one", printable(v)));
                e.fit = v == "on";
                return {};
              });
  args.flag("--no-fit", options.no_fit, "");
  args.number<int32_t>("-ncmoe,--n-cpu-moe", "N", e.n_cpu_moe, 0, INT32_MAX,
                       "the experts of the first N layers that have any lie in host memory (default: as --fit)");
  args.option("--cpu-isa", "NAME", "force an instruction set: scalar, avx2, avx512, neon, neon_i8mm",
              [&e](std::string_view v) { return set_isa(e, v); });
  args.number<uint32_t>("--experts-used", "N", e.n_expert_used, 1, 1u << 16,
                        "experts used per token (default: as the model says)");
  args.option("--lora", "FILE[:SCALE]", "a LoRA adapter for this model; again for more than one",
              [&e](std::string_view v) { return add_adapter(e, v); });
  args.text("--pre-tokenizer", "NAME", e.pre_tokenizer, "use this pre-tokenizer instead of the file's");
  args.flag("--reference", e.reference, "plain F32 kernels and F32 cache only: slow, exact");
  args.flag("--no-mmap", options.no_mmap, "read the file instead of mapping it");
  args.flag("--no-repack", options.no_repack, "use the weights as the file has them: less memory, slower");
  args.option(
      "--spec-type", "TYPE",
      "none (default) or ngram: guess tokens from repetitions in the text and check several in one step, in run\n"
      "and chat; the output stays the same",
      [&options](std::string_view v) -> Result<void> {
        if (v != "none" && v != "ngram")
          return usage_error(fmt::format("--spec-type is none or ngram, not '{}'; choose one", printable(v)));
        options.speculate = v == "ngram";
        return {};
      });
  args.flag("--deterministic", e.deterministic,
            "equal results whatever the batch (on the CPU this always holds; slower prefill on a GPU)");
  add_foreign_options(args);
}

void add_sampling_options(Args& args, SamplingOptions& o) {
  args.group("Sampling (a file's own general.sampling.* keys replace these defaults)");
  add_optional<float>(args, "--temp", o.temperature, 0.0f, 1e6f,
                      "temperature (0.8); 0: always the most probable token");
  add_optional<int32_t>(args, "--top-k", o.top_k, 0, INT32_MAX, "keep the N most probable tokens (40); 0: all");
  add_optional<float>(args, "--top-p", o.top_p, 0.0f, 1e6f,
                      "keep the most probable tokens up to this sum (0.95); 1: all");
  add_optional<float>(args, "--min-p", o.min_p, 0.0f, 1.0f,
                      "keep tokens at least this probable, relative to the best (0.05)");
  add_optional<float>(args, "--repeat-penalty", o.repeat_penalty, 1e-6f, 1e6f,
                      "divide the logits of recent tokens (1.0: off)");
  add_optional<float>(args, "--presence-penalty", o.presence_penalty, -1e6f, 1e6f,
                      "subtract from the logits of recent tokens (0)");
  add_optional<float>(args, "--frequency-penalty", o.frequency_penalty, -1e6f, 1e6f,
                      "the same, for each time a token occurred (0)");
  add_optional<int32_t>(args, "--repeat-last-n", o.penalty_last_n, -1, INT32_MAX,
                        "tokens the penalties look back on (64); -1: all");
  args.option("-s,--seed", "N", "seed (default: random, printed on stderr)", [&o](std::string_view v) -> Result<void> {
    if (v == "-1")
      o.seed.reset();
    else
      o.seed = TRY(parse_number<uint64_t>("--seed", v, 0, UINT64_MAX));
    return {};
  });
}

namespace {

void add_template_options(Args& args, PromptOptions& o) {
  args.option("--chat-template", "TEXT", "use this chat template instead of the model's",
              [&o](std::string_view v) -> Result<void> {
                o.template_text = v;
                return {};
              });
  args.option("--chat-template-file", "FILE", "the same, from a file", [&o](std::string_view v) -> Result<void> {
    o.template_file = v;
    return {};
  });
  args.text("--chat-template-kwargs", "JSON", o.template_values,
            "variables for the chat template, as in {\"enable_thinking\": false}");
}

}  // namespace

void add_prompt_options(Args& args, PromptOptions& o) {
  args.group("Prompt");
  args.option("-p,--prompt", "TEXT", "the prompt", [&o](std::string_view v) -> Result<void> {
    o.text = v;
    return {};
  });
  args.option("-f,--file", "FILE", o.from_file ? "read the prompt from a file (a line end at its end is dropped)" : "",
              [&o](std::string_view v) -> Result<void> {
                o.file = v;
                return {};
              });
  if (o.for_chat_models) args.text("-sys,--system-prompt", "TEXT", o.system, "the system message of a chat model");
  args.number<int64_t>("-n,--n-predict", "N", o.n_predict, -1, INT32_MAX,
                       "tokens to generate at most (-1: until the model ends)");
  if (o.for_chat_models) args.flag("--raw", o.raw, "complete plain text even if the model has a chat template");
  if (o.for_chat_models) add_template_options(args, o);
  args.flag("--special", o.special,
            "control tokens: their texts in the prompt become them, and they are shown in the output");
}

void add_foreign_options(Args& args) {
  args.ignored("-ngl,--gpu-layers,--n-gpu-layers", true);
  args.ignored("-fa,--flash-attn", false, {"on", "off", "auto", "0", "1"});
  args.ignored("--jinja", false);
  for (const char* names : {"--grammar", "--grammar-file", "-j,--json-schema", "-jf,--json-schema-file", "--reasoning"})
    args.later(names, true);
}

Result<bool> parse(Args& args, std::span<const std::string> argv, const OutputOptions& output) {
  if (!TRY(args.parse(argv))) return false;
  set_quiet(output.quiet);
  log::set_sink(
      [](log::Level level, std::string_view message) {
        if (!quiet()) say_line(fmt::format("{}: {}", level >= log::Level::warn ? "warning" : "note", message));
      },
      output.verbose ? log::Level::debug : log::Level::warn);
  if (!args.given_ignored().empty())
    note("{} {} no effect here", fmt::join(args.given_ignored(), ", "),
         args.given_ignored().size() == 1 ? "has" : "have");
  return true;
}

Result<void> take_model(Strings& rest, ModelOptions& options) {
  options.engine.mmap = !options.no_mmap;
  options.engine.repack = !options.no_repack;
  if (options.no_fit) options.engine.fit = false;
  if (options.speculate) options.engine.n_rewind = SpeculationParams{}.n_most;
  if (!rest.empty() && names_a_model(rest[0]) && options.path.empty()) {
    options.path = rest[0];
    rest.erase(rest.begin());
  }
  if (names_a_hub_model(options.path) && options.hub_name.empty()) options.hub_name = std::exchange(options.path, {});
  if (options.hub_name.empty()) return {};
  if (!options.path.empty()) return usage_error("both a model of the hub and a file are named; choose one");
  TRY(hub::parse_name(options.hub_name));
  return {};
}

Result<void> expect_no_more(const Strings& rest) {
  if (rest.empty()) return {};
  return usage_error(fmt::format("'{}' is one argument too many; put texts with spaces in quotes", printable(rest[0])));
}

Result<Prompt> take_prompt(Strings& rest, const PromptOptions& options) {
  const size_t n_given = rest.size() + (options.text ? 1 : 0) + (options.file ? 1 : 0);
  if (n_given > 1)
    return usage_error("more than one prompt is given; put a text with spaces in quotes and use one of PROMPT, -p, -f");
  Prompt prompt;
  if (options.text) {
    prompt.text = *options.text;
  } else if (!rest.empty() && rest[0] != "-") {
    prompt.text = std::move(rest[0]);
  } else {
    if (rest.empty() && !options.file && is_terminal(Stream::in)) return Prompt{.text = {}, .given = false};
    prompt.text = options.file ? TRY(read_text_file(*options.file)) : TRY(read_stdin());
    if (!options.keep_line_end && prompt.text.ends_with('\n')) {
      prompt.text.pop_back();
      if (prompt.text.ends_with('\r')) prompt.text.pop_back();
    }
  }
  rest.clear();
  return prompt;
}

Result<SamplingParams> sampling_params(const SamplingOptions& o, const std::string& path) {
  const gguf::File file = TRY(file_result(gguf::File::open(path, {.metadata_only = true})));
  SamplingParams params = TRY(SamplingParams::from_file(file));
  params.temperature = o.temperature.value_or(params.temperature);
  params.top_k = o.top_k.value_or(params.top_k);
  params.top_p = o.top_p.value_or(params.top_p);
  params.min_p = o.min_p.value_or(params.min_p);
  params.repeat_penalty = o.repeat_penalty.value_or(params.repeat_penalty);
  params.presence_penalty = o.presence_penalty.value_or(params.presence_penalty);
  params.frequency_penalty = o.frequency_penalty.value_or(params.frequency_penalty);
  params.penalty_last_n = o.penalty_last_n.value_or(params.penalty_last_n);
  params.seed = o.seed ? *o.seed : std::random_device{}();
  TRY(params.check());
  return params;
}

Result<std::string> read_text_file(const std::string& path, uint64_t max_bytes) {
  if (path == "-") return read_stdin(max_bytes);
  const InputStream stream = TRY(InputStream::open(path));
  return stream.read_all(max_bytes);
}

Result<std::string> read_stdin(uint64_t max_bytes) { return InputStream::standard_input().read_all(max_bytes); }

}  // namespace sluice::cli
