#include "backend/cpu/simd/neon_i8mm/vec.h"
#include "backend/cpu/simd/tier_tables.h"
#define SLUICE_TIER neon_i8mm
#include "backend/cpu/simd/generic/peak.inl"
