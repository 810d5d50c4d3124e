// Routing as it is done where the host picks the experts' weights: for `sluice bench --naive-routing` alone
// (docs/perf/routing.md). A step is a submit per half layer, and after each gate the host waits for the ids.
#pragma once
#include <memory>

#include "backend/backend.h"

namespace sluice::backend {

// Around a GPU's backend; `unsupported` around one whose memory is the host's. Results stay the same to the bit.
Result<std::unique_ptr<Backend>> naive_routing(std::unique_ptr<Backend> inner);

}  // namespace sluice::backend
