// Instruction-set tiers of the CPU backend: which ones were compiled, which one this processor runs, and their kernels.
#pragma once
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "backend/cpu/simd/tier_tables.h"
#include "backend/cpu/worker.h"

namespace sluice::backend::cpu {

enum class Tier : uint8_t { scalar, avx2, avx512, neon, neon_i8mm };

std::string_view tier_name(Tier tier);
std::optional<Tier> parse_tier(std::string_view text);

// The tiers that are compiled in and that this processor runs, best last. The first is always scalar: the references
// alone.
std::vector<Tier> tiers();

// The kernels of a tier; none for scalar and for tiers that are not compiled in. Do not call them where tiers() lacks
// the tier. neon_i8mm has products of panels only: the lower tiers do the rest.
std::span<const TierKernel> kernels_of(Tier tier);
// Of one of tiers() that is not scalar.
TierPeak peak_of(Tier tier);

}  // namespace sluice::backend::cpu
