#include "base/cpu_info.h"

#include <fmt/core.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <map>
#include <set>
#include <thread>

#include "base/cgroup.h"
#include "base/small_file.h"

#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace sluice {
namespace {

constexpr uint32_t kMaxCpu = 65535;

// A core whose capacity or top frequency is below this share of the best one's is a slow one.
constexpr double kFastShare = 0.75;

struct Cpu {
  uint32_t number = 0;
  std::string core;     // equal for the threads of one core
  double strength = 0;  // capacity or top frequency; 0: not told
  bool allowed = false;
  bool fast = true;
};

struct Core {
  bool fast = true;
  std::optional<uint32_t> first_allowed;
};

std::vector<uint32_t> system_affinity() {
  std::vector<uint32_t> cpus;
  // The call fails while the set is smaller than the kernel's own.
  for (int n = 1024; n <= 1 << 17; n *= 2) {
    cpu_set_t* set = CPU_ALLOC(size_t(n));
    if (!set) break;
    const size_t bytes = CPU_ALLOC_SIZE(size_t(n));
    CPU_ZERO_S(bytes, set);
    const bool done = sched_getaffinity(0, bytes, set) == 0;
    const bool too_small = !done && errno == EINVAL;
    if (done)
      for (int i = 0; i < n; ++i)
        if (CPU_ISSET_S(size_t(i), bytes, set)) cpus.push_back(uint32_t(i));
    CPU_FREE(set);
    if (!too_small) break;
  }
  return cpus;
}

std::string cpu_model(const std::string& proc_root, const std::string& sys_root) {
  const std::string text = read_small_file(proc_root + "/cpuinfo");
  for (const std::string_view key : {"model name", "Model", "Hardware", "cpu model"}) {
    std::string found;
    for_each_line(text, [&](std::string_view line) {
      const auto colon = line.find(':');
      if (found.empty() && colon != std::string_view::npos && trim(line.substr(0, colon)) == key)
        found = trim(line.substr(colon + 1));
    });
    if (!found.empty()) return found;
  }
  const std::string board = read_small_file(sys_root + "/firmware/devicetree/base/model");
  const std::string_view name = trim(std::string_view(board.c_str()));
  return name.empty() ? "(unknown)" : std::string(name);
}

std::string core_of(const std::string& folder, uint32_t number) {
  for (const char* name : {"/topology/core_cpus_list", "/topology/thread_siblings_list"}) {
    const std::string list = read_small_file(folder + name);
    if (!trim(list).empty()) return std::string(trim(list));
  }
  const std::string core = read_small_file(folder + "/topology/core_id");
  const std::string package = read_small_file(folder + "/topology/physical_package_id");
  if (trim(core).empty()) return fmt::format("cpu {}", number);
  return fmt::format("package {} core {}", trim(package), trim(core));
}

std::vector<uint32_t> online_cpus(const std::string& sys_root, const std::vector<uint32_t>& affinity) {
  auto online = parse_cpu_list(read_small_file(sys_root + "/devices/system/cpu/online"));
  if (online.empty()) online = affinity;
  if (online.empty())
    for (uint32_t i = 0; i < std::max(1u, std::thread::hardware_concurrency()); ++i) online.push_back(i);
  return online;
}

// Which cpus belong to fast cores: the kernel's own list on hybrid x86, else capacities, else top frequencies.
void mark_fast(const std::string& sys_root, std::vector<Cpu>& cpus) {
  const auto performance = parse_cpu_list(read_small_file(sys_root + "/devices/cpu_core/cpus"));
  const auto efficient = parse_cpu_list(read_small_file(sys_root + "/devices/cpu_atom/cpus"));
  if (!performance.empty() && !efficient.empty()) {
    for (Cpu& cpu : cpus) cpu.fast = std::find(performance.begin(), performance.end(), cpu.number) != performance.end();
    return;
  }
  double best = 0;
  for (const Cpu& cpu : cpus) {
    if (cpu.strength <= 0) return;  // not told for all: no ground to sort them
    best = std::max(best, cpu.strength);
  }
  for (Cpu& cpu : cpus) cpu.fast = cpu.strength >= kFastShare * best;
}

std::vector<Cpu> read_cpus(const std::string& sys_root, const std::vector<uint32_t>& affinity) {
  std::vector<Cpu> cpus;
  bool capacity_differs = false;
  std::optional<uint64_t> first_capacity;
  std::vector<double> frequency;
  for (const uint32_t number : online_cpus(sys_root, affinity)) {
    const std::string folder = fmt::format("{}/devices/system/cpu/cpu{}", sys_root, number);
    const uint64_t capacity = leading_number(read_small_file(folder + "/cpu_capacity")).value_or(0);
    capacity_differs |= first_capacity && *first_capacity != capacity;
    first_capacity = first_capacity.value_or(capacity);
    frequency.push_back(double(leading_number(read_small_file(folder + "/cpufreq/cpuinfo_max_freq")).value_or(0)));
    const bool allowed = affinity.empty() || std::find(affinity.begin(), affinity.end(), number) != affinity.end();
    cpus.push_back(
        {.number = number, .core = core_of(folder, number), .strength = double(capacity), .allowed = allowed});
  }
  if (!capacity_differs)
    for (size_t i = 0; i < cpus.size(); ++i) cpus[i].strength = frequency[i];
  mark_fast(sys_root, cpus);
  return cpus;
}

std::string plural(size_t n, std::string_view what) { return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s"); }

}  // namespace

std::vector<uint32_t> parse_cpu_list(std::string_view text) {
  std::set<uint32_t> cpus;
  text = trim(text);
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find(','));
    const auto first = leading_number<uint32_t>(part);
    const auto dash = part.find('-');
    const auto last = dash == std::string_view::npos ? first : leading_number<uint32_t>(part.substr(dash + 1));
    if (first && last && *last <= kMaxCpu)
      for (uint32_t i = *first; i <= *last; ++i) cpus.insert(i);
    text.remove_prefix(std::min(text.size(), part.size() + 1));
  }
  return {cpus.begin(), cpus.end()};
}

CpuInfo read_cpu_info(const SystemProbe& probe) {
  CpuInfo info;
  info.model = cpu_model(probe.proc_root, probe.sys_root);
  const auto affinity = probe.affinity ? *probe.affinity : system_affinity();
  auto cpus = read_cpus(probe.sys_root, affinity);
  // An affinity that names only cpus that are offline here tells nothing.
  if (std::none_of(cpus.begin(), cpus.end(), [](const Cpu& cpu) { return cpu.allowed; }))
    for (Cpu& cpu : cpus) cpu.allowed = true;

  std::map<std::string, Core> cores;
  for (const Cpu& cpu : cpus) {
    Core& core = cores[cpu.core];
    core.fast = cpu.fast;
    if (cpu.allowed && !core.first_allowed) core.first_allowed = cpu.number;
  }
  info.n_allowed = uint32_t(std::count_if(cpus.begin(), cpus.end(), [](const Cpu& cpu) { return cpu.allowed; }));
  info.n_logical = uint32_t(cpus.size());
  info.n_physical = uint32_t(cores.size());
  info.n_fast = uint32_t(std::count_if(cores.begin(), cores.end(), [](const auto& c) { return c.second.fast; }));
  std::vector<uint32_t> slow_cpus;
  for (const auto& [name, core] : cores)
    if (core.first_allowed) (core.fast ? info.fast_cpus : slow_cpus).push_back(*core.first_allowed);
  const bool only_slow = info.fast_cpus.empty();
  if (only_slow) info.fast_cpus = slow_cpus;
  std::sort(info.fast_cpus.begin(), info.fast_cpus.end());

  const bool hybrid = info.n_fast < info.n_physical;
  const char* kind = !hybrid ? "physical core" : only_slow ? "slow core" : "fast core";
  info.reason = plural(info.fast_cpus.size(), kind);
  if (info.n_physical < info.n_logical || hybrid) info.reason += fmt::format(" of {}", plural(info.n_logical, "cpu"));
  if (info.n_allowed < info.n_logical)
    info.reason += fmt::format(", affinity allows {}", plural(info.n_allowed, "cpu"));
  info.n_default_threads = uint32_t(info.fast_cpus.size());
  info.n_usable = info.n_allowed;
  info.quota = read_cgroup_limits(probe.sys_root, probe.proc_root).cpus;
  if (info.quota) {
    const double whole = std::max(1.0, std::ceil(*info.quota));
    if (whole < info.n_usable) info.n_usable = uint32_t(whole);
    if (whole < info.n_default_threads) info.n_default_threads = uint32_t(whole);
    info.reason += fmt::format(", cgroup quota {:g}", *info.quota);
  }
  info.n_default_threads = std::max(1u, info.n_default_threads);
  info.n_usable = std::max(1u, info.n_usable);
  return info;
}

MemoryInfo read_memory_info(const SystemProbe& probe) {
  const std::string text = read_small_file(probe.proc_root + "/meminfo");
  MemoryInfo info;
  info.total_bytes = field(text, "MemTotal:").value_or(0) * 1024;
  info.available_bytes = field(text, "MemAvailable:").value_or(field(text, "MemFree:").value_or(0)) * 1024;
  const CgroupLimits limits = read_cgroup_limits(probe.sys_root, probe.proc_root);
  if (limits.memory_bytes && (info.total_bytes == 0 || *limits.memory_bytes < info.total_bytes)) {
    info.total_bytes = *limits.memory_bytes;
    info.limited_by_cgroup = true;
  }
  if (limits.memory_headroom) info.available_bytes = std::min(info.available_bytes, *limits.memory_headroom);
  return info;
}

bool arm_has_dotprod_and_fp16() {
#if defined(__aarch64__)
  constexpr unsigned long kBoth = HWCAP_ASIMDDP | HWCAP_ASIMDHP;
  return (getauxval(AT_HWCAP) & kBoth) == kBoth;
#else
  return false;
#endif
}

bool arm_has_i8mm() {
#if defined(__aarch64__)
  return (getauxval(AT_HWCAP2) & HWCAP2_I8MM) != 0;
#else
  return false;
#endif
}

// Not getrusage: its peak includes the program that started this one.
uint64_t peak_rss_bytes(const SystemProbe& probe) {
  return field(read_small_file(probe.proc_root + "/self/status"), "VmHWM:").value_or(0) * 1024;
}

uint64_t current_rss_bytes(const SystemProbe& probe) {
  return field(read_small_file(probe.proc_root + "/self/status"), "VmRSS:").value_or(0) * 1024;
}

}  // namespace sluice
