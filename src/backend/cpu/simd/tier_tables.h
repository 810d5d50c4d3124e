// Between the tiers and the code around them. Tier files are compiled for instructions that not every processor has, so
// nothing that the linker may share (an inline function, a template, a std:: algorithm) may be called there: its copy
// could replace the one of plain code. Tier code lives in anonymous namespaces and reaches the rest through these
// functions.
#pragma once
#include <cstddef>
#include <cstdint>

#include "backend/cpu/worker.h"

namespace sluice::backend::cpu {

struct TierTable {
  const TierKernel* kernels;
  size_t n;
};

// Loops that do nothing but what one limit of a processor is about: the limits of bench (backend/cpu/limits.h).
struct TierPeak {
  // Each computes `rounds` rounds of so many operations (a multiply-add is two).
  void (*dots)(uint64_t rounds) = nullptr;  // 8-bit dot products; null: the tier has none
  uint64_t dots_per_round = 0;
  void (*fmas)(uint64_t rounds) = nullptr;
  uint64_t fmas_per_round = 0;
  void (*read)(const std::byte* bytes, uint64_t n) = nullptr;  // 64-byte aligned, a multiple of 512 bytes
};

// One table per family of kernels.
#define SLUICE_TIER_TABLES(tier)   \
  namespace tier {                 \
  TierTable panel_kernels();       \
  TierTable row_major_kernels();   \
  TierTable elementwise_kernels(); \
  TierTable attention_kernels();   \
  TierPeak peak();                 \
  }
SLUICE_TIER_TABLES(avx2)
SLUICE_TIER_TABLES(avx512)
SLUICE_TIER_TABLES(neon)
#undef SLUICE_TIER_TABLES
namespace neon_i8mm {
TierTable panel_kernels();
TierPeak peak();
}  // namespace neon_i8mm

// Worker's own functions, out of line.
bool claim_items(Worker& worker, uint64_t n_items, uint64_t chunk, uint64_t& begin, uint64_t& end);
uint64_t n_workers(const Worker& worker);
std::byte* scratch_of(const Worker& worker);
KernelKey key_of(const Worker& worker);

}  // namespace sluice::backend::cpu
