// Panels of Q6_K.
#pragma once
#include <cstddef>

#include "quant/panel_type.h"
#include "quant/q6_k.h"

namespace sluice::quant {

template <>
struct PanelType<Type::Q6_K> {
  static constexpr bool kExists = true;
  static constexpr size_t kGroup = 16;
  static constexpr size_t kBlockBytes = 384;  // quants of 32 columns: 4 vectors of nibbles, 2 of high bits

  static size_t scale_at(size_t k, size_t g, size_t lane) { return k / 32 * kBlockBytes + g * kPanelRows + lane; }
  static size_t super_at(size_t k, size_t super, size_t lane) {
    return k / 32 * kBlockBytes + k / kGroup * kPanelRows + (super * kPanelRows + lane) * sizeof(uint16_t);
  }

  static void pack(const std::byte* in, size_t super, size_t lane, size_t k, std::byte* panel) {
    // Here b counts the 32 columns of one part (q6_k.h): weight 16h + 4q + i of them is column 16h + 4q + i in panel.h.
    for (size_t b = 0; b < q6_k::kBlock / 32; ++b) {
      const std::byte* ql = in + offsetof(q6_k::Block, ql) + b / 4 * 64 + b % 2 * 32;
      const std::byte* qh = in + offsetof(q6_k::Block, qh) + b / 4 * 32;
      const size_t low_shift = b % 4 / 2 * 4, high_shift = b % 4 * 2;
      const size_t at = (super * (q6_k::kBlock / 32) + b) * kBlockBytes;
      const auto low = [&](size_t w) { return four_columns(ql + w) >> low_shift & 0x0f0f0f0fu; };
      const auto high = [&](size_t w) { return four_columns(qh + w) >> high_shift & 0x03030303u; };
      for (size_t q = 0; q < 4; ++q) set_panel_word(panel, at, q, lane, low(4 * q) | low(16 + 4 * q) << 4);
      for (size_t h = 0; h < 2; ++h) {
        const size_t w = 16 * h;
        set_panel_word(panel, at, 4 + h, lane, high(w) | high(w + 4) << 2 | high(w + 8) << 4 | high(w + 12) << 6);
      }
    }
    for (size_t g = 0; g < q6_k::kBlock / kGroup; ++g) {
      panel[scale_at(k, super * (q6_k::kBlock / kGroup) + g, lane)] = in[offsetof(q6_k::Block, scales) + g];
    }
    set_panel_half(panel + super_at(k, super, lane), panel_half(in + offsetof(q6_k::Block, d)));
  }

  static void codes(const std::byte* panel, size_t b, size_t lane, int8_t* out) {
    for (size_t c = 0; c < 32; ++c) {
      const size_t half = c / 16, q = c % 16 / 4, i = c % 4;
      const int low = std::to_integer<int>(panel[panel_byte(b * kBlockBytes, q, lane, i)]) >> (4 * half) & 15;
      const int high = std::to_integer<int>(panel[panel_byte(b * kBlockBytes, 4 + half, lane, i)]) >> (2 * q) & 3;
      out[c] = static_cast<int8_t>((low | high << 4) - 32);
    }
  }

  static float scale(const std::byte* panel, size_t k, size_t g, size_t lane) {
    const auto scale = static_cast<int8_t>(panel[scale_at(k, g, lane)]);
    return f16_to_f32(panel_half(panel + super_at(k, g * kGroup / q6_k::kBlock, lane))) * static_cast<float>(scale);
  }
};

}  // namespace sluice::quant
