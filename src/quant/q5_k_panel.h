// Panels of Q5_K.
#pragma once
#include <cstddef>

#include "quant/panel_type.h"
#include "quant/q4_k_panel.h"
#include "quant/q5_k.h"

namespace sluice::quant {

template <>
struct PanelType<Type::Q5_K> : PanelWithMins<q5_k::Block, 320> {
  static void pack(const std::byte* in, size_t super, size_t lane, size_t k, std::byte* panel) {
    pack_codes(in, super, lane, panel);
    const std::byte* qh = in + offsetof(q5_k::Block, qh);
    for (size_t g = 0; g < 8; ++g) {
      uint32_t bits = 0;
      for (size_t j = 0; j < 8; ++j) bits |= (four_columns(qh + 4 * j) >> g & 0x01010101u) << j;
      set_panel_word(panel, (super * 8 + g) * kBlockBytes, 4, lane, bits);
    }
    pack_scales_of(in, super, lane, k, panel);
  }
  static void codes(const std::byte* panel, size_t b, size_t lane, int8_t* out) {
    for (size_t c = 0; c < 32; ++c) out[c] = static_cast<int8_t>(panel_five_bits(panel, b * kBlockBytes, lane, c));
  }
};

}  // namespace sluice::quant
