// sluice quantize
#include "sluice/quantize.h"

#include <algorithm>

#include "base/cpu_info.h"
#include "base/interrupt.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/json_writer.h"
#include "cli/model.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/output_files.h"

namespace sluice::cli {
namespace {

std::string upper(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(),
                 [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; });
  return name;
}

// "NAME, NAME and 3 more"
std::string some(const Strings& names) {
  const size_t n_shown = std::min<size_t>(names.size(), 2);
  std::string out;
  for (size_t i = 0; i < n_shown; ++i) out += (i == 0 ? "" : ", ") + printable(names[i]);
  return names.size() > n_shown ? fmt::format("{} and {} more", out, names.size() - n_shown) : out;
}

std::string about() {
  Strings types, mixtures;
  for (const std::string& name : quantize_types())
    (find_quantize_type(name)->mixture == Mixture::none ? types : mixtures).push_back(name);
  return fmt::format(
      "Writes a GGUF file whose matrices have another type:\n{}.\nNorms, routers, biases and convolution kernels stay "
      "F32; embeddings and output keep Q6_K at least.\nMixtures: {}. In these the output keeps Q6_K, and attention's\n"
      "values and the down projections of some layers have a better type.",
      fmt::join(types, ", "), fmt::join(mixtures, ", "));
}

}  // namespace

Result<int> quantize_command(Arguments argv) {
  OutputOptions output;
  QuantizeOptions options;
  options.n_threads = 0;
  Args args("quantize IN.gguf OUT.gguf TYPE", about());
  args.number<uint32_t>("-t,--threads", "N", options.n_threads, 1, kMaxThreads,
                        "threads (default: the fast cores this process may use)");
  add_output_options(args, output);
  if (!TRY(parse(args, argv, output))) return kExitDone;
  if (args.rest().size() != 3)
    return usage_error("quantize needs three arguments; see: sluice quantize IN.gguf OUT.gguf TYPE");
  const std::string &in = args.rest()[0], &out = args.rest()[1];
  const std::string type = upper(args.rest()[2]);
  const auto target = find_quantize_type(type);
  if (!target)
    return usage_error(fmt::format("'{}' is no type that can be written; choose one of {}", printable(type),
                                   fmt::join(quantize_types(), ", ")));
  options.type = target->type, options.mixture = target->mixture;
  if (options.n_threads == 0) options.n_threads = read_cpu_info().n_default_threads;

  TRY(check_outputs(model_files(in), {{"quantize", out}}));

  std::unique_ptr<ProgressBar> bar;
  options.on_progress = [&bar](uint64_t done, uint64_t total) {
    if (bar == nullptr) bar = std::make_unique<ProgressBar>("quantize", total, "B", bar_options());
    bar->update(done);
    return !interrupted();
  };
  const QuantizeReport report = TRY(file_result(quantize_file(in, out, options)));
  bar.reset();
  if (!report.requantized.empty())
    note("{} tensors were quantised before and lose again: {}", report.requantized.size(), some(report.requantized));
  if (!report.better.empty())
    note("some matrices keep a better type than {}: {}", type_info(options.type).name, some(report.better));
  if (!report.fallbacks.empty())
    note("{} tensors have rows that {} cannot hold, another type was taken: {}", report.fallbacks.size(),
         type_info(options.type).name, some(report.fallbacks));
  if (output.json) {
    JsonWriter json;
    json.open('{')
        .field("in_bytes", report.in_bytes)
        .field("out_bytes", report.out_bytes)
        .field("n_converted", report.n_converted);
    json.field("n_kept", report.n_kept)
        .key("fallbacks")
        .list(report.fallbacks)
        .key("better")
        .list(report.better)
        .field("n_requantized", report.requantized.size());
    TRY(put(json.close().take()));
  } else {
    say("{}: {} of weights, from {}; {} tensors converted, {} kept", printable_path(out),
        bytes_text(double(report.out_bytes)), bytes_text(double(report.in_bytes)), report.n_converted, report.n_kept);
  }
  return kExitDone;
}

}  // namespace sluice::cli
