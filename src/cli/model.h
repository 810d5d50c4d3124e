// Finding, loading and describing the model of a command.
#pragma once
#include <memory>
#include <string>

#include "cli/options.h"
#include "sluice/engine.h"

namespace sluice::cli {

// The path that the options name, or the story model's. Its files are regular ones. A model of the hub is downloaded
// first where it is not in the cache, and `options` has its path then.
Result<std::string> model_path(ModelOptions& options);

// A file that is not what it should be is a failure (exit code 1), not a wrong use of the program.
inline Error file_error(Error error) {
  if (error.code == Code::invalid_argument) error.code = Code::io;
  return error;
}
template <class T>
Result<T> file_result(Result<T> result) {
  if (!result) return file_error(std::move(result.error()));
  return result;
}

struct LoadedModel {
  std::unique_ptr<Engine> engine;
  std::string path;
  double load_seconds = 0;
  // The story model completes text, though it has a template: it never saw a chat in training.
  bool tells_stories = false;
};
// Loads with a progress bar, and says on stderr what the user should know (a smaller context).
Result<LoadedModel> load_model(ModelOptions& options, bool need_tokenizer, bool verbose);

// Names the option that helps where a file's pre-tokenizer is missing or not known.
Error tokenizer_error(Error error);

// "prefill 5 tokens, 210.3 tokens/s"
std::string speed_text(std::string_view what, uint64_t n_tokens, double seconds);

// For StepOptions::on_progress and loops: false, or an Error of its own, after Ctrl-C.
inline Error interrupted_error() { return {Code::cancelled, "interrupted; start again to go on"}; }

}  // namespace sluice::cli
