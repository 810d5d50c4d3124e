// sluice kernels
#include "sluice/kernels.h"

#include <algorithm>
#include <iterator>

#include "base/text.h"
#include "cli/commands.h"
#include "cli/json_writer.h"
#include "cli/options.h"
#include "cli/output.h"

namespace sluice::cli {
namespace {

using Kernels = std::vector<KernelInfo>;
constexpr std::string_view kTargets[] = {"spirv", "cuda", "metal", "wgsl"};

Strings targets_of(const KernelInfo& kernel) {
  Strings targets;
  for (const KernelCode& code : kernel.codes)
    if (targets.empty() || targets.back() != code.target) targets.push_back(code.target);
  return targets;
}

bool has_gpu_code(const Kernels& all) {
  return std::any_of(all.begin(), all.end(), [](const KernelInfo& kernel) { return !kernel.codes.empty(); });
}

std::string as_json(const Kernels& all) {
  JsonWriter json;
  json.open('{').key("kernels").open('[');
  for (const KernelInfo& kernel : all) {
    json.open('{').field("name", kernel.name).field("published", kernel.published);
    json.key("types").list(kernel.types).key("codes").open('[');
    for (const KernelCode& code : kernel.codes)
      json.open('{').field("target", code.target).field("name", code.name).field("bytes", code.code.size()).close();
    json.close().close();
  }
  return json.close().close().take();
}

std::string as_text(const Kernels& all) {
  std::string out = fmt::format("{:<15} {:<31} {}\n", "kernel", "types", "GPU code");
  for (const KernelInfo& kernel : all) {
    const Strings targets = targets_of(kernel);
    out += fmt::format("{:<15} {:<31} {}{}\n", kernel.name,
                       kernel.types.empty() ? "F32" : fmt::format("{}", fmt::join(kernel.types, " ")),
                       targets.empty() ? "-" : fmt::format("{}", fmt::join(targets, " ")),
                       kernel.published ? " (published: its bindings never change)" : "");
  }
  return out;
}

// Whose name, or the name of whose code, this is; nullptr: nobody's.
const KernelInfo* kernel_of(const Kernels& all, const std::string& name) {
  for (const KernelInfo& kernel : all)
    if (name == kernel.name || name.starts_with(kernel.name + "-")) return &kernel;
  return nullptr;
}

// The code that `name` means: a kernel with one for this target, or one of a kernel's by its full name.
Result<KernelCode> find_code(const Kernels& all, const std::string& name, const std::string& target) {
  Strings matching;
  const KernelCode* found = nullptr;
  for (const KernelInfo& kernel : all) {
    for (const KernelCode& code : kernel.codes) {
      if (code.target != target) continue;
      if (code.name == name) return code;
      if (kernel.name != name) continue;
      found = &code;
      matching.push_back(code.name);
    }
  }
  if (matching.size() == 1) return *found;
  if (matching.size() > 1)
    return usage_error(
        fmt::format("'{}' has several {} codes; name one of: {}", name, target, fmt::join(matching, ", ")));
  const KernelInfo* kernel = kernel_of(all, name);
  const Strings targets = targets_of(*kernel);
  return Error{Code::not_found, fmt::format("this build has no {} code of '{}'; {}", target, name,
                                            targets.empty() ? "see sluice kernels for those that have"
                                                            : fmt::format("it has: {}", fmt::join(targets, ", ")))};
}

Result<void> print_code(const Kernels& all, const std::string& name, const std::string& target) {
  if (!has_gpu_code(all))
    return Error{Code::unsupported, "this build has no GPU kernels; configure it with -DSLUICE_GPU=ON"};
  const KernelCode code = TRY(find_code(all, name, target));
  if (target == "spirv" && is_terminal(Stream::out))
    return usage_error("SPIR-V is binary; send it to a file or a pipe, as in > kernel.spv");
  return put({reinterpret_cast<const char*>(code.code.data()), code.code.size()});
}

}  // namespace

Result<int> kernels_command(Arguments argv) {
  OutputOptions output;
  std::string target;
  Args args(
      "kernels [NAME --target spirv|cuda|metal|wgsl] [--json]",
      "Lists the kernels, the types they take and the GPU code of this build; with a name and a target, writes\n"
      "that text or binary to stdout. A kernel of several types has a code for each: gemv-Q4_0, as --json lists.\n\n"
      "  sluice kernels moe_gemv_q4_0 --target wgsl > moe_gemv_q4_0.wgsl");
  args.option("--target", "NAME", "spirv, cuda, metal or wgsl", [&target](std::string_view v) -> Result<void> {
    if (std::find(std::begin(kTargets), std::end(kTargets), v) == std::end(kTargets))
      return usage_error(
          fmt::format("there is no target '{}'; choose one of: {}", printable(v), fmt::join(kTargets, ", ")));
    target = v;
    return {};
  });
  add_output_options(args, output);
  if (!TRY(parse(args, argv, output))) return kExitDone;
  const Kernels all = kernel_list();
  if (args.rest().empty() && target.empty()) {
    TRY(put(output.json ? as_json(all) : as_text(all)));
    if (!has_gpu_code(all)) note("this build has no GPU kernels; configure it with -DSLUICE_GPU=ON");
    return kExitDone;
  }
  if (args.rest().empty()) return usage_error("no kernel is named; see sluice kernels for the names");
  const std::string name = args.rest().front();
  args.rest().erase(args.rest().begin());
  TRY(expect_no_more(args.rest()));
  if (kernel_of(all, name) == nullptr) {
    Strings known;
    for (const KernelInfo& kernel : all) known.push_back(kernel.name);
    const std::string guess = nearest(name, known);
    return usage_error(fmt::format("there is no kernel '{}'; {}", printable(name),
                                   guess.empty() ? "see sluice kernels" : fmt::format("did you mean {}?", guess)));
  }
  if (target.empty())
    return usage_error(
        fmt::format("it is not said what of '{}' is wanted; add --target {}", name, fmt::join(kTargets, "|")));
  TRY(print_code(all, name, target));
  return kExitDone;
}

}  // namespace sluice::cli
