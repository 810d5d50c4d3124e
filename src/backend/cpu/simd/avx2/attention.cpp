#include "backend/cpu/simd/avx2/vec.h"
#include "backend/cpu/simd/tier_tables.h"
#define SLUICE_TIER avx2
#include "backend/cpu/simd/generic/attention.inl"
