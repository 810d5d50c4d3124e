#include "backend/registry.h"

#include <fmt/format.h>

#include "backend/cpu/backend.h"
#include "base/text.h"
#ifdef SLUICE_HAVE_VULKAN
#include "backend/vulkan/backend.h"
#endif

namespace sluice::backend {
namespace {

struct Row {
  std::string_view name;
  Result<std::unique_ptr<Backend>> (*open)(const Options&);
  Result<std::vector<DeviceInfo>> (*list)();  // nullptr: it has no devices to choose from
};

// In the order in which `auto` tries them.
constexpr Row kBackends[] = {
#ifdef SLUICE_HAVE_VULKAN
    {"vulkan", vulkan::open, vulkan::list},
#endif
    {"cpu", cpu::open, nullptr},
};

}  // namespace

Result<std::unique_ptr<Backend>> open(const Options& options) {
  std::string known;
  // What only the CPU has, or names a CPU's feature, leaves `auto` no choice.
  const bool wants_cpu = options.reference || !options.cpu_isa.empty();
  for (const Row& row : kBackends) {
    const bool chosen = options.name == row.name || (options.name == "auto" && &row == std::end(kBackends) - 1);
    if (chosen && row.list == nullptr && options.device >= 0) {
      return Error(Code::invalid_argument,
                   fmt::format("the {} backend has no devices to choose from; leave --device out", row.name));
    }
    if (options.name == row.name) return row.open(options);
    if (options.name == "auto" && (!wants_cpu || row.name == "cpu")) {
      auto backend = row.open(options);
      // A device that was asked for by number is not replaced by another backend.
      if (backend || options.device >= 0 || &row == std::end(kBackends) - 1) return backend;
    }
    known += fmt::format("{}{}", known.empty() ? "" : ", ", row.name);
  }
  return Error(Code::not_found, fmt::format("backend '{}' is not in this build; choose auto or one of: {}",
                                            printable(options.name), known));
}

std::vector<std::string> backend_names() {
  std::vector<std::string> names;
  for (const Row& row : kBackends) names.emplace_back(row.name);
  return names;
}

std::vector<DeviceInfo> list_devices(std::string& reason) {
  std::vector<DeviceInfo> all;
  for (const Row& row : kBackends) {
    if (row.list == nullptr) continue;
    auto devices = row.list();
    if (devices) {
      std::move(devices->begin(), devices->end(), std::back_inserter(all));
    } else {
      reason = devices.error().message;
    }
  }
  if (all.empty() && reason.empty()) reason = "this build has no GPU backend; configure it with -DSLUICE_VULKAN=ON";
  return all;
}

}  // namespace sluice::backend
