// Limits that control groups (v1 and v2) put on this process.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace sluice {

struct CgroupLimits {
  std::optional<double> cpus;               // quota / period, the smallest on the way to the root
  std::optional<uint64_t> memory_bytes;     // the smallest limit
  std::optional<uint64_t> memory_headroom;  // the smallest of limit - (use - what can be reclaimed)
};

CgroupLimits read_cgroup_limits(const std::string& sys_root, const std::string& proc_root);

}  // namespace sluice
