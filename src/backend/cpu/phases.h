// How the threads of the CPU backend walk a list of launches.
#pragma once
#include <span>
#include <vector>

#include "backend/backend.h"

namespace sluice::backend::cpu {

// Launches first .. end - 1. Either they may run at the same time and all threads work on them; or `alone`: one thread
// runs them one after the other, because a barrier between threads would cost more than sharing saves.
struct Phase {
  uint32_t first = 0, end = 0;
  bool alone = false;
};

std::vector<Phase> phases_of(std::span<const Launch> launches);

// About how many cycles of one thread a launch takes at its upper bound; infinite for those whose work depends on the
// step (attention) or is always worth sharing.
double estimated_cycles(const Launch& launch);

}  // namespace sluice::backend::cpu
