// What the types with codebooks share: 16 weights from entries of a grid. Such types are read, not written: choosing
// entries well takes statistics of the activations.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>

#include "quant/iq_grids.h"

namespace sluice::quant {

// In place of a quantize_row().
using RowEncoder = void (*)(const float*, std::byte*, size_t);
inline constexpr RowEncoder kNoEncoder = nullptr;

// Entry i of the grid that begins at a word.
static inline uint32_t grid_entry(uint32_t grid, uint32_t i) { return kIqGrids[grid + i / 2] >> (i % 2 * 16) & 0xffff; }

// Eight signs from seven: their number is even.
static inline uint32_t eight_signs(uint32_t seven) {
  seven &= 127;
  return seven | (static_cast<uint32_t>(std::popcount(seven)) & 1) << 7;
}

static inline float with_sign(float value, uint32_t signs, uint32_t i) {
  return (signs >> i & 1) != 0 ? -value : value;
}

// Eight weights of an IQ2 type.
static inline void put_iq2(uint32_t entry, uint32_t signs, float scale, float* out) {
  constexpr float kValues[] = {8, 25, 43, 0};
  for (uint32_t i = 0; i < 8; ++i) out[i] = with_sign(scale * kValues[entry >> (2 * i) & 3], signs, i);
}

// Eight weights of an IQ3 type, from two entries of four codes.
static inline void put_iq3(uint32_t low, uint32_t high, const float (&values)[8], uint32_t signs, float scale,
                           float* out) {
  const uint32_t codes = low | high << 16;
  for (uint32_t i = 0; i < 8; ++i) out[i] = with_sign(scale * values[codes >> (4 * i) & 7], signs, i);
}

// Eight weights of an IQ1 type: an eighth up or down from -1, 0 or 1.
static inline void put_iq1(uint32_t index, bool down, float scale, float* out) {
  const uint32_t entry = grid_entry(kernels::kIq1Grid, index);
  const float shift = down ? -1.125f : -0.875f;
  for (uint32_t i = 0; i < 8; ++i) out[i] = scale * (static_cast<float>(entry >> (2 * i) & 3) + shift);
}

}  // namespace sluice::quant
