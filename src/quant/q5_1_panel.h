// Panels of Q5_1.
#pragma once
#include <cstddef>

#include "quant/q4_1_panel.h"
#include "quant/q5_0_panel.h"
#include "quant/q5_1.h"

namespace sluice::quant {

template <>
struct PanelType<Type::Q5_1> : PanelWithOffsets<q5_1::Block, 320> {
  static void pack(const std::byte* in, size_t b, size_t lane, size_t k, std::byte* panel) {
    pack_nibbles(in + offsetof(q5_1::Block, qs), b * kBlockBytes, lane, panel);
    pack_fifth_bits(in + offsetof(q5_1::Block, qh), b * kBlockBytes, lane, panel);
    pack_scales(in, b, lane, k, panel);
  }
  static void codes(const std::byte* panel, size_t b, size_t lane, int8_t* out) {
    for (size_t c = 0; c < 32; ++c) out[c] = static_cast<int8_t>(panel_five_bits(panel, b * kBlockBytes, lane, c));
  }
};

}  // namespace sluice::quant
