// Panels of Q4_0.
#pragma once
#include <cstddef>

#include "quant/panel_type.h"
#include "quant/q4_0.h"

namespace sluice::quant {

template <>
struct PanelType<Type::Q4_0> {
  static constexpr bool kExists = true;
  static constexpr size_t kGroup = 32;
  static constexpr size_t kBlockBytes = 256;  // quants of 32 columns

  static size_t scale_at(size_t k, size_t b, size_t lane) {
    return k / 32 * kBlockBytes + (b * kPanelRows + lane) * sizeof(uint16_t);
  }

  static void pack(const std::byte* in, size_t b, size_t lane, size_t k, std::byte* panel) {
    // The file's bytes already pair weights i and i + 16.
    const std::byte* qs = in + offsetof(q4_0::Block, qs);
    for (size_t j = 0; j < 4; ++j) set_panel_word(panel, b * kBlockBytes, j, lane, four_columns(qs + 4 * j));
    set_panel_half(panel + scale_at(k, b, lane), panel_half(in + offsetof(q4_0::Block, d)));
  }

  static void codes(const std::byte* panel, size_t b, size_t lane, int8_t* out) {
    for (size_t c = 0; c < 16; ++c) {
      const int byte = std::to_integer<int>(panel[panel_byte(b * kBlockBytes, c / 4, lane, c % 4)]);
      out[c] = static_cast<int8_t>((byte & 15) - 8);
      out[c + 16] = static_cast<int8_t>((byte >> 4) - 8);
    }
  }

  static float scale(const std::byte* panel, size_t k, size_t g, size_t lane) {
    return f16_to_f32(panel_half(panel + scale_at(k, g, lane)));
  }
};

}  // namespace sluice::quant
