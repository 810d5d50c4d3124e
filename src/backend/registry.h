// The backends of this build, one row each.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "sluice/device.h"

namespace sluice::backend {

struct Options {
  std::string name = "auto";
  std::string cpu_isa;     // "" for the best
  uint32_t n_threads = 0;  // 0 for what fits this machine
  bool reference = false;
  int32_t device = -1;         // of a GPU backend: an index of list_devices(), -1 for the best
  bool deterministic = false;  // only kernels whose sums do not depend on how many rows are computed together
  std::string limits;          // of a GPU backend: smaller limits than the device's, for tests (docs/add-a-backend.md)
};

// `not_found` for a name that no row has, `unsupported` for a backend, device or tier that this machine cannot run.
Result<std::unique_ptr<Backend>> open(const Options& options);

std::vector<std::string> backend_names();

// The GPUs that this build's backends see. `reason` says why a backend sees none.
std::vector<DeviceInfo> list_devices(std::string& reason);

}  // namespace sluice::backend
