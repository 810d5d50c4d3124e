#include "backend/cpu/simd/neon/vec.h"
#include "backend/cpu/simd/tier_tables.h"
#define SLUICE_TIER neon
#include "backend/cpu/simd/generic/peak.inl"
