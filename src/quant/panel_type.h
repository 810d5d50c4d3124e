// What a type must give to have a panel16 layout (panel.h says how the bytes lie): a specialisation of PanelType in its
// header. Types without one stay row_major.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "quant/panel.h"
#include "sluice/type.h"

namespace sluice::quant {

// kExists   true
// kGroup    columns that share one scale; the integer sums of a product run over a group
// pack      block b of a row, `in` as in the file, into lane `lane` of a zeroed panel of rows of k weights. Loading a
//           model runs it over every weight: by words of four columns, since a lane holds them side by side
// codes     32 columns (block b of 32) of a lane as signed integers
// scale     of group g of a lane: weight = code * scale
// min       only where the type has one for its groups, which are of 32 then: weight = code * scale - min
template <Type>
struct PanelType {
  static constexpr bool kExists = false;
};

// Byte i of lane r in vector j of a block that starts at `block`.
static inline size_t panel_byte(size_t block, size_t j, size_t r, size_t i) {
  return block + j * (4 * kPanelRows) + r * 4 + i;
}

// The bytes of four columns as one word, and lane r of vector j of a block that starts at `block` as one. Shifts of
// such words must mask what crosses from byte to byte; the order of the bytes does not matter then. Read from the
// file's block, not from a copy of it: a word that two stores wrote has to wait for both.
static inline uint32_t four_columns(const std::byte* at) {
  uint32_t word;
  std::memcpy(&word, at, sizeof(word));
  return word;
}
static inline void set_panel_word(std::byte* panel, size_t block, size_t j, size_t r, uint32_t word) {
  std::memcpy(panel + panel_byte(block, j, r, 0), &word, sizeof(word));
}

// The nibbles of a block that pairs weights i and i + 16 in a byte, and column c of them; with a fifth bit from the
// vector behind them.
static inline void pack_nibbles(const std::byte* qs, size_t block, size_t lane, std::byte* panel) {
  for (size_t j = 0; j < 4; ++j) set_panel_word(panel, block, j, lane, four_columns(qs + 4 * j));
}
static inline int panel_nibble(const std::byte* panel, size_t block, size_t lane, size_t c) {
  return std::to_integer<int>(panel[panel_byte(block, c % 16 / 4, lane, c % 4)]) >> (c / 16 * 4) & 15;
}
static inline int panel_five_bits(const std::byte* panel, size_t block, size_t lane, size_t c) {
  const int high = std::to_integer<int>(panel[panel_byte(block, 4, lane, c % 4)]) >> (c / 4) & 1;
  return panel_nibble(panel, block, lane, c) | high << 4;
}

// An f16 in an array that follows the quants of a panel.
static inline uint16_t panel_half(const std::byte* at) {
  return static_cast<uint16_t>(std::to_integer<unsigned>(at[0]) | std::to_integer<unsigned>(at[1]) << 8);
}
static inline void set_panel_half(std::byte* at, uint16_t value) {
  at[0] = static_cast<std::byte>(value & 0xff);
  at[1] = static_cast<std::byte>(value >> 8);
}

}  // namespace sluice::quant
