#include "base/cgroup.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/small_file.h"

namespace sluice {
namespace {

template <class T>
void keep_smaller(std::optional<T>& kept, T value) {
  kept = kept ? std::min(*kept, value) : value;
}

// The group's folder and every one above it: "/a/b" -> {"/a/b", "/a", ""}. A path that leaves the namespace ("/../x")
// cannot be followed from here: only the root is looked at.
std::vector<std::string> folders_upward(std::string_view path) {
  std::vector<std::string> folders;
  if (path.find("..") == std::string_view::npos)
    while (path.size() > 1) {
      folders.emplace_back(path);
      path = path.substr(0, path.rfind('/'));
    }
  folders.emplace_back();
  return folders;
}

struct Membership {
  std::optional<std::string> unified;      // v2
  std::optional<std::string> cpu, memory;  // v1
  std::string cpu_mount = "cpu";           // "cpu,cpuacct" on most v1 systems, with "cpu" as a link
};

Membership read_membership(const std::string& proc_root) {
  Membership m;
  const std::string text = read_small_file(proc_root + "/self/cgroup");
  for_each_line(text, [&](std::string_view line) {  // "4:cpu,cpuacct:/path", v2: "0::/path"
    const auto first = line.find(':');
    if (first == std::string_view::npos) return;
    const auto second = line.find(':', first + 1);
    if (second == std::string_view::npos) return;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const std::string path(line.substr(second + 1));
    const std::string padded = "," + std::string(controllers) + ",";
    if (controllers.empty()) m.unified = path;
    if (padded.find(",memory,") != std::string::npos) m.memory = path;
    if (padded.find(",cpu,") != std::string::npos) {
      m.cpu = path;
      m.cpu_mount = controllers;
    }
  });
  return m;
}

void read_cpu_v2(const std::string& folder, CgroupLimits& limits) {
  const std::string text = read_small_file(folder + "/cpu.max");  // "150000 100000" or "max 100000"
  const auto quota = leading_number(text);
  const auto space = text.find(' ');
  if (!quota || space == std::string::npos) return;
  const auto period = leading_number(std::string_view(text).substr(space));
  if (period && *period > 0 && *quota > 0) keep_smaller(limits.cpus, double(*quota) / double(*period));
}

void read_cpu_v1(const std::string& folder, CgroupLimits& limits) {
  const auto quota = leading_number<int64_t>(read_small_file(folder + "/cpu.cfs_quota_us"));
  const auto period = leading_number<int64_t>(read_small_file(folder + "/cpu.cfs_period_us"));
  if (quota && period && *quota > 0 && *period > 0) keep_smaller(limits.cpus, double(*quota) / double(*period));
}

// Pages of files that were not used lately count as use, but go away when memory is asked for.
void read_memory(const std::string& folder, const char* limit_file, const char* use_file, const char* reclaimable,
                 CgroupLimits& limits) {
  constexpr uint64_t kNoLimit = uint64_t{1} << 60;  // v1 says "no limit" with a number near 2^63
  const auto limit = leading_number(read_small_file(folder + limit_file));
  if (!limit || *limit >= kNoLimit) return;
  keep_smaller(limits.memory_bytes, *limit);
  const uint64_t use = leading_number(read_small_file(folder + use_file)).value_or(0);
  const uint64_t idle = field(read_small_file(folder + "/memory.stat"), reclaimable).value_or(0);
  const uint64_t held = use - std::min(use, idle);
  keep_smaller(limits.memory_headroom, *limit - std::min(*limit, held));
}

}  // namespace

CgroupLimits read_cgroup_limits(const std::string& sys_root, const std::string& proc_root) {
  CgroupLimits limits;
  const Membership m = read_membership(proc_root);
  const std::string root = sys_root + "/fs/cgroup";
  if (m.unified)
    for (const std::string& mount : {root, root + "/unified"})
      for (const std::string& folder : folders_upward(*m.unified)) {
        read_cpu_v2(mount + folder, limits);
        read_memory(mount + folder, "/memory.max", "/memory.current", "inactive_file ", limits);
      }
  if (m.cpu)
    for (const std::string& folder : folders_upward(*m.cpu)) {
      read_cpu_v1(root + "/" + m.cpu_mount + folder, limits);
      if (m.cpu_mount != "cpu") read_cpu_v1(root + "/cpu" + folder, limits);
    }
  if (m.memory)
    for (const std::string& folder : folders_upward(*m.memory))
      read_memory(root + "/memory" + folder, "/memory.limit_in_bytes", "/memory.usage_in_bytes", "total_inactive_file ",
                  limits);
  return limits;
}

}  // namespace sluice
