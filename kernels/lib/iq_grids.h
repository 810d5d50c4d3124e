// Where the codebooks of the IQ types begin in StepState::grids, in words. An entry is 16 bits, the even one of a
// word's two in its low half; code j of an entry lies from its lowest bits up.
#pragma once
#ifdef __SLANG__
#define IQ_GRID \
 public         \
  static const uint
#else
#include <cstdint>
#define IQ_GRID inline constexpr uint32_t

namespace sluice::kernels {
#endif
IQ_GRID kIq2XxsGrid = 0;    // 256 entries of eight codes of 2 bits
IQ_GRID kIq2XsGrid = 128;   // 512 entries of eight codes of 2 bits
IQ_GRID kIq2SGrid = 384;    // 1024 entries of eight codes of 2 bits
IQ_GRID kIq3XxsGrid = 896;  // 256 entries of four codes, 0 to 7
IQ_GRID kIq3SGrid = 1024;   // 512 entries of four codes, 0 to 7
IQ_GRID kIq1Grid = 1280;    // 2048 entries of eight codes of 2 bits: 0, 1, 2 for -1, 0, 1
IQ_GRID kIqGridWords = 2304;
#ifndef __SLANG__
}  // namespace sluice::kernels
#endif
#undef IQ_GRID
