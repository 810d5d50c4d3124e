#include "cli/model.h"

#include <chrono>
#include <cstdlib>

#include "base/file_io.h"
#include "base/interrupt.h"
#include "base/paths.h"
#include "base/text.h"
#include "cli/hub_model.h"
#include "cli/output.h"
#include "cli/output_files.h"
#include "sluice/gguf.h"

namespace sluice::cli {

Result<std::string> model_path(ModelOptions& options) {
  if (!options.hub_name.empty()) {
    options.path = TRY(get_hub_model(options.hub_name, false)).path();
    options.hub_name.clear();
  }
  if (!options.path.empty()) {
    TRY(file_result(InputFile::open(options.path)));
    for (const std::string& part : model_files(options.path)) {
      const auto file = InputFile::open(part);
      // A part that is missing is told with the set.
      if (!file && file.error().code == Code::invalid_argument) return file_error(file.error());
    }
    return options.path;
  }
  const char* chosen = std::getenv("SLUICE_STORY");
  return find_story(chosen == nullptr ? "" : chosen);
}

Error tokenizer_error(Error error) {
  if (error.code == Code::unsupported && error.message.find("pre-tokenizer") != std::string::npos)
    error.message += "; choose it with --pre-tokenizer NAME";
  return error;
}

namespace {

// The engine calls wrong options and wrong files alike: where the file alone cannot be opened, it is to blame.
Error load_error(const std::string& path, Error error) {
  if (error.code != Code::invalid_argument) return tokenizer_error(std::move(error));
  const auto file = gguf::File::open(path);
  return file ? error : file_error(std::move(error));
}

// What the header tells: whether the file is the story model, and that a pre-tokenizer given by hand is a known one
// even where text is not needed.
Result<void> read_header(const ModelOptions& options, bool need_tokenizer, LoadedModel& loaded) {
  const bool unchecked = !options.engine.pre_tokenizer.empty() && loaded.engine->tokenizer() == nullptr;
  if (!need_tokenizer && !unchecked) return {};
  const gguf::File file = TRY(gguf::File::open(loaded.path, {.metadata_only = true}));
  const auto name = file.get_string("general.basename");
  loaded.tells_stories = name && *name == "Sluice-Tales";
  if (!unchecked) return {};
  const auto tokenizer = Tokenizer::create(file, options.engine.pre_tokenizer);
  if (!tokenizer && tokenizer.error().code != Code::not_found) return tokenizer_error(tokenizer.error());
  return {};
}

// "2-4, 7": layers.
std::string ranges_text(std::span<const uint32_t> numbers) {
  std::string text;
  for (size_t first = 0, last = 0; first < numbers.size(); first = ++last) {
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", numbers[first]);
    if (last > first) text += fmt::format("-{}", numbers[last]);
  }
  return text;
}

// Five lines: what lies where, and why.
void say_memory(const EngineInfo& info) {
  const auto text = [](uint64_t n_bytes) { return bytes_text(double(n_bytes)); };
  say("memory: {} of weights on the device, {}", text(info.weight_bytes - info.host_weight_bytes),
      printable(info.device));
  if (info.host_layers.empty()) {
    say("memory: no experts in host memory: {}",
        info.host_layers_reason.empty() ? "the device holds all" : info.host_layers_reason);
  } else {
    say("memory: {} of experts in host memory, read in place, of layers {}: {}", text(info.host_weight_bytes),
        ranges_text(info.host_layers), info.host_layers_reason);
  }
  say("memory: {} of KV cache, {} positions", text(info.cache_bytes - info.state_bytes), info.n_ctx);
  say("memory: {} of recurrent state, {} of scratch", text(info.state_bytes), text(info.scratch_bytes));
  say("memory: {} of the device free before, {} after", text(info.free_bytes_before), text(info.free_bytes));
}

}  // namespace

Result<LoadedModel> load_model(ModelOptions& options, bool need_tokenizer, bool verbose) {
  LoadedModel loaded;
  loaded.path = TRY(model_path(options));
  EngineOptions engine = options.engine;
  engine.need_tokenizer = need_tokenizer;
  std::unique_ptr<ProgressBar> bar;
  engine.on_load = [&bar](uint64_t done, uint64_t total) {
    if (bar == nullptr) bar = std::make_unique<ProgressBar>("load", total, "B", bar_options());
    bar->update(done);
    return !interrupted();
  };
  const auto start = std::chrono::steady_clock::now();
  auto made = Engine::load(loaded.path, engine);
  if (!made) return load_error(loaded.path, std::move(made.error()));
  loaded.engine = std::move(*made);
  loaded.load_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  bar.reset();
  TRY(read_header(options, need_tokenizer, loaded));

  const EngineInfo& info = loaded.engine->info();
  const ModelInfo& model = loaded.engine->model();
  if (!info.n_ctx_reason.empty()) note("context of {} positions: {}", info.n_ctx, info.n_ctx_reason);
  // What lies where goes without saying while the device holds everything.
  if (info.free_bytes_before != 0 && (verbose || !info.host_layers_reason.empty())) say_memory(info);
  if (info.free_bytes_before == 0 && options.engine.n_cpu_moe >= 0)
    note("-ncmoe has no effect: the {} backend computes in host memory", info.backend);
  if (verbose) {
    say("model {} ({}), {} parameters, {} used per token, loaded in {:.2f} s", model.name,
        printable(model.architecture), count_text(double(model.n_parameters)),
        count_text(double(model.n_parameters_used)), loaded.load_seconds);
    say("{} on {}, {}, {} threads, context {}, weights {}, cache {}, scratch {}", info.backend, printable(info.device),
        info.isa, info.n_threads, info.n_ctx, bytes_text(double(info.weight_bytes)),
        bytes_text(double(info.cache_bytes)), bytes_text(double(info.scratch_bytes)));
    for (const std::string& tensor : model.unused_tensors) say("tensor not used: {}", printable(tensor));
  }
  return loaded;
}

std::string speed_text(std::string_view what, uint64_t n_tokens, double seconds) {
  if (n_tokens == 0 || seconds <= 0) return fmt::format("{} {} tokens", what, n_tokens);
  return fmt::format("{} {} tokens, {:.1f} tokens/s", what, n_tokens, double(n_tokens) / seconds);
}

}  // namespace sluice::cli
