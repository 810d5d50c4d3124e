// sluice devices
#include "base/cpu_info.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/json_writer.h"
#include "cli/options.h"
#include "cli/output.h"
#include "sluice/device.h"

namespace sluice::cli {
namespace {

std::vector<std::string_view> instruction_sets() {
  std::vector<std::string_view> sets{"scalar"};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) sets.push_back("avx2");
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vnni"))
    sets.push_back("avx512");
#elif defined(__aarch64__)
  if (arm_has_dotprod_and_fp16()) sets.push_back("neon");
  if (arm_has_dotprod_and_fp16() && arm_has_i8mm()) sets.push_back("neon_i8mm");
#endif
  return sets;
}

using Gpus = std::vector<DeviceInfo>;

std::string as_json(const CpuInfo& cpu, const MemoryInfo& memory, const std::vector<std::string_view>& sets,
                    const Gpus& gpus) {
  JsonWriter json;
  json.open('{').key("devices").open('[').open('{').field("backend", "cpu").field("name", cpu.model);
  json.field("logical_cpus", cpu.n_logical).field("cores", cpu.n_physical).field("fast_cores", cpu.n_fast);
  json.field("allowed_cpus", cpu.n_allowed).key("cpu_quota");
  if (cpu.quota)
    json.value(*cpu.quota);
  else
    json.value(std::numeric_limits<double>::quiet_NaN());
  json.field("default_threads", cpu.n_default_threads).field("threads_reason", cpu.reason);
  json.key("instruction_sets").list(sets);
  json.field("memory_bytes", memory.total_bytes).field("available_bytes", memory.available_bytes);
  json.field("memory_limited_by_cgroup", memory.limited_by_cgroup);
  json.close();
  for (const DeviceInfo& gpu : gpus) {
    json.open('{').field("backend", gpu.backend).field("device", gpu.idx).field("name", gpu.name);
    json.field("kind", gpu.kind).field("driver", gpu.driver).field("memory_bytes", gpu.memory_bytes);
    json.field("available_bytes", gpu.available_bytes).field("usable", gpu.refusal.empty());
    if (!gpu.refusal.empty()) json.field("refusal", gpu.refusal);
    json.key("limits").open('{');
    for (const auto& [name, value] : gpu.limits) json.field(name, value);
    json.close().close();
  }
  return json.close().close().take();
}

std::string as_text(const DeviceInfo& gpu) {
  std::string out = fmt::format("{} {}: {} ({})\n", gpu.backend, gpu.idx, printable(gpu.name), gpu.kind);
  if (!gpu.refusal.empty()) return out + fmt::format("  not usable        {}\n", gpu.refusal);
  out += fmt::format("  driver            {}\n", printable(gpu.driver));
  out += fmt::format("  memory            {} of {} available\n", bytes_text(double(gpu.available_bytes)),
                     bytes_text(double(gpu.memory_bytes)));
  for (const auto& [name, value] : gpu.limits) out += fmt::format("  {:<17} {}\n", name, printable(value, 400));
  return out;
}

std::string as_text(const CpuInfo& cpu, const MemoryInfo& memory, const std::vector<std::string_view>& sets,
                    const Gpus& gpus, const std::string& no_gpu) {
  std::string out = fmt::format("cpu: {}\n", printable(cpu.model));
  out +=
      fmt::format("  processors        {} cores, {} logical, {} allowed", cpu.n_physical, cpu.n_logical, cpu.n_allowed);
  if (cpu.n_fast != cpu.n_physical) out += fmt::format(", {} fast cores", cpu.n_fast);
  out += cpu.quota ? fmt::format(", quota of {:.2f}\n", *cpu.quota) : "\n";
  out += fmt::format("  threads           {} ({})\n", cpu.n_default_threads, cpu.reason);
  out += fmt::format("  instruction sets  {}\n", fmt::join(sets, ", "));
  out += fmt::format("  memory            {} of {} available{}\n", bytes_text(double(memory.available_bytes)),
                     bytes_text(double(memory.total_bytes)),
                     memory.limited_by_cgroup ? " (limited by a control group)" : "");
  for (const DeviceInfo& gpu : gpus) out += as_text(gpu);
  if (gpus.empty()) out += fmt::format("gpu: none ({})\n", no_gpu);
  return out;
}

}  // namespace

Result<int> devices_command(Arguments argv) {
  OutputOptions output;
  Args args("devices [--json]", "Shows the processors, the memory that this process may use, and the GPUs.");
  add_output_options(args, output);
  if (!TRY(parse(args, argv, output))) return kExitDone;
  TRY(expect_no_more(args.rest()));
  const CpuInfo cpu = read_cpu_info();
  const MemoryInfo memory = read_memory_info();
  const auto sets = instruction_sets();
  std::string no_gpu;
  const Gpus gpus = list_devices(no_gpu);
  TRY(put(output.json ? as_json(cpu, memory, sets, gpus) : as_text(cpu, memory, sets, gpus, no_gpu)));
  return kExitDone;
}

}  // namespace sluice::cli
