// One call of Engine::step: any mix of prompt pieces and single tokens of several sequences, computed in ubatches.
#pragma once
#include <memory>
#include <span>

#include "engine/core.h"

namespace sluice::engine {

Result<void> run_step(const std::shared_ptr<Core>& core, std::span<const StepInput> inputs, const StepOptions& options,
                      StepResult& result);

}  // namespace sluice::engine
