// Panels of Q4_1, and what they share with those of Q5_1.
#pragma once
#include <cstddef>

#include "quant/panel_type.h"
#include "quant/q4_1.h"

namespace sluice::quant {

// d and m of each block, f16, after the quants: weight = q * d + m, so that the minimum is -m.
template <class Block, size_t kQuants>
struct PanelWithOffsets {
  static constexpr bool kExists = true;
  static constexpr size_t kGroup = 32;
  static constexpr size_t kBlockBytes = kQuants;  // quants of 32 columns

  static size_t at(size_t k, size_t b, size_t which, size_t lane) {
    return k / 32 * kBlockBytes + ((b * 2 + which) * kPanelRows + lane) * sizeof(uint16_t);
  }
  static void pack_scales(const std::byte* in, size_t b, size_t lane, size_t k, std::byte* panel) {
    set_panel_half(panel + at(k, b, 0, lane), panel_half(in + offsetof(Block, d)));
    set_panel_half(panel + at(k, b, 1, lane), panel_half(in + offsetof(Block, m)));
  }
  static float scale(const std::byte* panel, size_t k, size_t g, size_t lane) {
    return f16_to_f32(panel_half(panel + at(k, g, 0, lane)));
  }
  static float min(const std::byte* panel, size_t k, size_t g, size_t lane) {
    return -f16_to_f32(panel_half(panel + at(k, g, 1, lane)));
  }
};

template <>
struct PanelType<Type::Q4_1> : PanelWithOffsets<q4_1::Block, 256> {
  static void pack(const std::byte* in, size_t b, size_t lane, size_t k, std::byte* panel) {
    pack_nibbles(in + offsetof(q4_1::Block, qs), b * kBlockBytes, lane, panel);
    pack_scales(in, b, lane, k, panel);
  }
  static void codes(const std::byte* panel, size_t b, size_t lane, int8_t* out) {
    for (size_t c = 0; c < 32; ++c) out[c] = static_cast<int8_t>(panel_nibble(panel, b * kBlockBytes, lane, c));
  }
};

}  // namespace sluice::quant
