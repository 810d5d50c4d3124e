// Panels of Q4_K.
#pragma once
#include <cstddef>

#include "quant/panel_type.h"
#include "quant/q4_k.h"

namespace sluice::quant {

// What Q4_K and Q5_K have in common. Block is the file's, kBlockBytes the quants of 32 columns.
template <class Block, size_t kQuants>
struct PanelWithMins {
  static constexpr bool kExists = true;
  static constexpr size_t kGroup = 32;
  static constexpr size_t kBlockBytes = kQuants;

  static size_t scales_at(size_t k, size_t super, size_t byte, size_t lane) {
    return k / 32 * kBlockBytes + (super * sizeof(Block::scales) + byte) * kPanelRows + lane;
  }
  static size_t super_at(size_t k, size_t super, size_t which, size_t lane) {
    return k / 32 * kBlockBytes + k / 256 * sizeof(Block::scales) * kPanelRows +
           ((super * 2 + which) * kPanelRows + lane) * sizeof(uint16_t);
  }

  static void pack_codes(const std::byte* in, size_t super, size_t lane, std::byte* panel) {
    for (size_t g = 0; g < 8; ++g) {
      const std::byte* qs = in + offsetof(Block, qs) + g / 2 * 32;
      const size_t shift = g % 2 * 4, at = (super * 8 + g) * kBlockBytes;
      const auto code = [&](size_t w) { return four_columns(qs + w) >> shift & 0x0f0f0f0fu; };
      for (size_t q = 0; q < 4; ++q) set_panel_word(panel, at, q, lane, code(4 * q) | code(16 + 4 * q) << 4);
    }
  }
  static void pack_scales_of(const std::byte* in, size_t super, size_t lane, size_t k, std::byte* panel) {
    for (size_t j = 0; j < sizeof(Block::scales); ++j)
      panel[scales_at(k, super, j, lane)] = in[offsetof(Block, scales) + j];
    set_panel_half(panel + super_at(k, super, 0, lane), panel_half(in + offsetof(Block, d)));
    set_panel_half(panel + super_at(k, super, 1, lane), panel_half(in + offsetof(Block, dmin)));
  }

  static float scale(const std::byte* panel, size_t k, size_t g, size_t lane) {
    uint8_t scales[sizeof(Block::scales)];
    for (size_t j = 0; j < sizeof(scales); ++j) scales[j] = static_cast<uint8_t>(panel[scales_at(k, g / 8, j, lane)]);
    return f16_to_f32(panel_half(panel + super_at(k, g / 8, 0, lane))) *
           static_cast<float>(packed_scale(scales, g % 8));
  }
  static float min(const std::byte* panel, size_t k, size_t g, size_t lane) {
    uint8_t scales[sizeof(Block::scales)];
    for (size_t j = 0; j < sizeof(scales); ++j) scales[j] = static_cast<uint8_t>(panel[scales_at(k, g / 8, j, lane)]);
    return f16_to_f32(panel_half(panel + super_at(k, g / 8, 1, lane))) * static_cast<float>(packed_min(scales, g % 8));
  }
};

template <>
struct PanelType<Type::Q4_K> : PanelWithMins<q4_k::Block, 256> {
  static void pack(const std::byte* in, size_t super, size_t lane, size_t k, std::byte* panel) {
    pack_codes(in, super, lane, panel);
    pack_scales_of(in, super, lane, k, panel);
  }
  static void codes(const std::byte* panel, size_t b, size_t lane, int8_t* out) {
    for (size_t c = 0; c < 32; ++c) out[c] = static_cast<int8_t>(panel_nibble(panel, b * kBlockBytes, lane, c));
  }
};

}  // namespace sluice::quant
