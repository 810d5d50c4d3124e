// sluice: commands, errors and exit codes.
#include <exception>
#include <new>

#include "base/file_map.h"
#include "base/interrupt.h"
#include "base/text.h"
#include "cli/args.h"
#include "cli/commands.h"
#include "cli/output.h"

namespace sluice::cli {
namespace {

struct Command {
  std::string_view name, summary;  // without a summary another command's line tells of it
  Result<int> (*run)(Arguments);
};

constexpr Command kCommands[] = {
    {"run", "complete a text or answer a prompt, streaming", run_command},
    {"chat", "talk with a model", chat_command},
    {"bench", "measure prefill, decode and parallel decode", bench_command},
    {"inspect", "what is in a GGUF file, and what a run will need", inspect_command},
    {"tokenize", "text to token ids and back", tokenize_command},
    {"logits", "logits, expert choices and gate values of given tokens, as files", logits_command},
    {"routes", "which experts each layer used", routes_command},
    {"devices", "processors and memory that can be used", devices_command},
    {"quantize", "write a GGUF file with other tensor types", quantize_command},
    {"perplexity", "how well a model predicts a text", perplexity_command},
    {"embed", "texts as vectors", embed_command},
    {"pull", "download a model from the hub; list shows them, rm removes one", pull_command},
    {"list", "", list_command},
    {"rm", "", rm_command},
    {"pin", "compare every backend with the reference, on a model", pin_command},
    {"render", "what a chat template makes of messages", render_command},
    {"kernels", "the kernels of this build, and their GPU code", kernels_command},
};
constexpr std::string_view kLaterCommands[] = {"serve"};

std::string overview() {
  std::string out =
      "usage: sluice COMMAND [OPTIONS]\nRuns mixture-of-experts language models from GGUF files. Commands:\n";
  for (const Command& c : kCommands)
    if (!c.summary.empty()) out += fmt::format("  {:12}{}\n", c.name, c.summary);
  out +=
      "\nExamples:\n"
      "  sluice run \"Once upon a time\"            a tale from the small model that comes with sluice\n"
      "  sluice run -m model.gguf \"Why is the sky blue?\"\n\n"
      "sluice COMMAND --help lists a command's options; sluice --version tells the version.\n"
      "Exit codes: 0 done, 1 failed, 2 wrong usage, 130 after Ctrl-C, 143 and 129 after SIGTERM and SIGHUP.\n";
  return out;
}

Result<int> dispatch(Arguments argv) {
  if (argv.empty() || argv[0] == "--help" || argv[0] == "-h" || (argv[0] == "help" && argv.size() == 1)) {
    TRY(put(overview()));
    return kExitDone;
  }
  if (argv[0] == "--version") {
    TRY(put(version_line()));
    return kExitDone;
  }
  if (argv[0].starts_with('-'))
    return usage_error(fmt::format("'{}' stands where a command should; see sluice --help", printable(argv[0])));
  const bool help = argv[0] == "help";
  const std::string& name = argv[help ? 1 : 0];
  for (const std::string_view later : kLaterCommands)
    if (name == later)
      return usage_error(fmt::format("'{}' is not part of this version yet; sluice --help lists what there is", name));
  const std::string ask_help[] = {"--help"};
  Strings names;
  for (const Command& c : kCommands) {
    if (name == c.name) return c.run(help ? Arguments(ask_help) : argv.subspan(1));
    names.emplace_back(c.name);
  }
  const std::string guess = nearest(name, names);
  return usage_error(fmt::format("there is no command '{}'; {}", printable(name),
                                 guess.empty() ? "see sluice --help" : fmt::format("did you mean {}?", guess)));
}

int exit_code(Arguments argv) {
  const Result<int> result = dispatch(argv);
  if (result) return *result;
  if (closed_pipe()) return kExitDone;
  const Error& error = result.error();
  if (error.code == Code::cancelled && interrupted()) {
    say_line("");
    return interrupt_exit_code();
  }
  say_line("error: " + error.message);
  return error.code == Code::invalid_argument ? kExitUsage : kExitFailed;
}

}  // namespace
}  // namespace sluice::cli

int main(int argc, char** argv) {
  using namespace sluice;
  try {
    ignore_closed_pipes();
    ignore_size_limits();
    catch_interrupts();
    guard_file_maps();
    const std::vector<std::string> arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
    return cli::exit_code(arguments);
  } catch (const std::bad_alloc&) {
    cli::say_line("error: out of memory; use a smaller context (-c), batch (-ub) or model");
  } catch (const std::exception& e) {
    cli::say_line(fmt::format("error: {}; please report it", printable(e.what(), 200)));
  }
  return cli::kExitFailed;
}
