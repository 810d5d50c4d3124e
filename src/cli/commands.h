// The commands. Each takes the arguments after its name and gives the exit code.
#pragma once
#include <span>
#include <string>

#include "sluice/result.h"

namespace sluice::cli {

using Arguments = std::span<const std::string>;

Result<int> run_command(Arguments argv);
Result<int> chat_command(Arguments argv);
Result<int> bench_command(Arguments argv);
Result<int> inspect_command(Arguments argv);
Result<int> tokenize_command(Arguments argv);
Result<int> logits_command(Arguments argv);
Result<int> routes_command(Arguments argv);
Result<int> devices_command(Arguments argv);
Result<int> quantize_command(Arguments argv);
Result<int> perplexity_command(Arguments argv);
Result<int> embed_command(Arguments argv);
Result<int> pull_command(Arguments argv);
Result<int> list_command(Arguments argv);
Result<int> rm_command(Arguments argv);
Result<int> pin_command(Arguments argv);
Result<int> kernels_command(Arguments argv);
Result<int> render_command(Arguments argv);

inline constexpr int kExitDone = 0, kExitFailed = 1, kExitUsage = 2;

}  // namespace sluice::cli
