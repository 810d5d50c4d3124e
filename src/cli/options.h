// Options that several commands share, and what they mean to the engine.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "cli/args.h"
#include "sluice/engine.h"
#include "sluice/sampler.h"

namespace sluice::cli {

inline constexpr uint32_t kMaxThreads = 512;  // as the engine has it

struct OutputOptions {
  bool json = false, verbose = false, quiet = false;
};

struct ModelOptions {
  std::string path;      // empty: the story model
  std::string hub_name;  // OWNER/REPO[:QUANT] on the hub, instead of a path
  EngineOptions engine;
  bool no_mmap = false, no_repack = false, no_fit = false;
  bool speculate = false;
};

struct SamplingOptions {
  std::optional<float> temperature, top_p, min_p, repeat_penalty, presence_penalty, frequency_penalty;
  std::optional<int32_t> top_k, penalty_last_n;
  std::optional<uint64_t> seed;
};

struct PromptOptions {
  std::optional<std::string> text, file;
  std::optional<std::string> template_text, template_file;  // instead of the model's
  std::string template_values;                              // a JSON object of variables
  std::string system;
  int64_t n_predict = -1;  // -1: until the end token
  bool raw = false, special = false;
  bool keep_line_end = false;   // of a file or stdin, where every byte counts
  bool for_chat_models = true;  // --system-prompt and --raw have a meaning
  bool from_file = true;        // so has --file
};

void add_output_options(Args& args, OutputOptions& options);
void add_model_options(Args& args, ModelOptions& options);
void add_sampling_options(Args& args, SamplingOptions& options);
void add_prompt_options(Args& args, PromptOptions& options);
// Those of llama.cpp that mean nothing here, and those of later versions.
void add_foreign_options(Args& args);

// parse(), then --quiet and -v take effect and ignored options are noted. False: all is done (--help).
Result<bool> parse(Args& args, std::span<const std::string> argv, const OutputOptions& output);

// The model that the options or the first of `rest` name (taken out of it); empty for the story model.
Result<void> take_model(Strings& rest, ModelOptions& options);
// `rest` must be empty now.
Result<void> expect_no_more(const Strings& rest);

// The prompt: `rest`, -p, -f, or stdin where it is "-" or a pipe. `what` names it in messages.
struct Prompt {
  std::string text;
  bool given = true;  // false: nothing was given, and stdin is a terminal
};
Result<Prompt> take_prompt(Strings& rest, const PromptOptions& options);

// The file's wishes over the defaults, and the user's over those. Draws a seed where none was given.
Result<SamplingParams> sampling_params(const SamplingOptions& options, const std::string& path);

// Texts longer than this are refused: input without an end must not fill the memory.
inline constexpr uint64_t kMaxText = 64u << 20, kMaxJson = 1u << 30;
// A text or JSON file, or "-" for stdin. Ctrl-C ends the reading.
Result<std::string> read_text_file(const std::string& path, uint64_t max_bytes = kMaxText);
Result<std::string> read_stdin(uint64_t max_bytes = kMaxText);

}  // namespace sluice::cli
