// The processors and the memory that this process may use, and how many threads to start.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

// Where to look. Tests point the roots at faked trees and give the affinity themselves.
struct SystemProbe {
  std::string sys_root = "/sys";
  std::string proc_root = "/proc";
  std::optional<std::vector<uint32_t>> affinity;  // cpu numbers; none: ask the system
};

struct CpuInfo {
  std::string model;                // "(unknown)" where the system does not tell
  uint32_t n_logical = 1;           // cpus online
  uint32_t n_physical = 1;          // cores with at least one cpu online
  uint32_t n_fast = 1;              // physical cores of the fast kind (all, unless the machine is hybrid)
  uint32_t n_allowed = 1;           // cpus online that the affinity allows
  std::optional<double> quota;      // cpus' worth of time that the control groups grant
  uint32_t n_usable = 1;            // threads that find processor time at once: n_allowed within the quota
  uint32_t n_default_threads = 1;   // one per fast physical core within affinity and quota
  std::vector<uint32_t> fast_cpus;  // one allowed cpu of each such core, before the quota
  std::string reason;               // why that many threads, one line
};

CpuInfo read_cpu_info(const SystemProbe& probe = {});

struct MemoryInfo {
  uint64_t total_bytes = 0;      // of the machine or of the control group, the smaller
  uint64_t available_bytes = 0;  // what a new allocation can get without swapping, within the control group
  bool limited_by_cgroup = false;
};

MemoryInfo read_memory_info(const SystemProbe& probe = {});

// Peak and current resident memory of this process; 0 where the system does not tell.
uint64_t peak_rss_bytes(const SystemProbe& probe = {});
uint64_t current_rss_bytes(const SystemProbe& probe = {});

// This processor has 64-bit Arm's integer dot product and half precision arithmetic. False on other processors.
bool arm_has_dotprod_and_fp16();
// It has the products of small 8-bit matrices, too.
bool arm_has_i8mm();

// "0-3,5" as the kernel writes lists of cpus. What cannot be read is skipped.
std::vector<uint32_t> parse_cpu_list(std::string_view text);

}  // namespace sluice
