#include "backend/cpu/simd/avx512/vec.h"
#include "backend/cpu/simd/tier_tables.h"
#define SLUICE_TIER avx512
#include "backend/cpu/simd/generic/panel.inl"
