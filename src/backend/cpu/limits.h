// What memory and arithmetic units of this machine deliver at best, measured with the threads that run the kernels.
#pragma once
#include "backend/backend.h"
#include "backend/cpu/simd/tier_tables.h"
#include "base/thread_pool.h"

namespace sluice::backend::cpu {

// The loops of plain code, for backends that use no tier.
TierPeak plain_peak();

// Takes about 0.8 s, and 512 MiB or a quarter of the free memory. What cannot be measured is 0.
Limits measure_limits(ThreadPool& pool, const TierPeak& peak);

}  // namespace sluice::backend::cpu
