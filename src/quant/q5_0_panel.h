// Panels of Q5_0, and how Q5_0 and Q5_1 pack their fifth bits.
#pragma once
#include <cstddef>

#include "quant/panel_type.h"
#include "quant/q5_0.h"

namespace sluice::quant {

// From 32 bits, one a weight, to the vector behind the nibbles of a block.
static inline void pack_fifth_bits(const std::byte* qh, size_t block, size_t lane, std::byte* panel) {
  const uint32_t bits = four_columns(qh);
  uint32_t word = 0;
  // The product puts bit i of four into byte i.
  for (size_t j = 0; j < 8; ++j) word |= ((bits >> (4 * j) & 15u) * 0x00204081u & 0x01010101u) << j;
  set_panel_word(panel, block, 4, lane, word);
}

template <>
struct PanelType<Type::Q5_0> {
  static constexpr bool kExists = true;
  static constexpr size_t kGroup = 32;
  static constexpr size_t kBlockBytes = 320;  // quants of 32 columns

  static size_t scale_at(size_t k, size_t b, size_t lane) {
    return k / 32 * kBlockBytes + (b * kPanelRows + lane) * sizeof(uint16_t);
  }
  static void pack(const std::byte* in, size_t b, size_t lane, size_t k, std::byte* panel) {
    pack_nibbles(in + offsetof(q5_0::Block, qs), b * kBlockBytes, lane, panel);
    pack_fifth_bits(in + offsetof(q5_0::Block, qh), b * kBlockBytes, lane, panel);
    set_panel_half(panel + scale_at(k, b, lane), panel_half(in + offsetof(q5_0::Block, d)));
  }
  static void codes(const std::byte* panel, size_t b, size_t lane, int8_t* out) {
    for (size_t c = 0; c < 32; ++c) out[c] = static_cast<int8_t>(panel_five_bits(panel, b * kBlockBytes, lane, c) - 16);
  }
  static float scale(const std::byte* panel, size_t k, size_t g, size_t lane) {
    return f16_to_f32(panel_half(panel + scale_at(k, g, lane)));
  }
};

}  // namespace sluice::quant
