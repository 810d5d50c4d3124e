// Panels of IQ4_NL: its blocks lie as those of Q4_0 do.
#pragma once
#include <cstddef>

#include "quant/iq4_nl.h"
#include "quant/q4_0_panel.h"

namespace sluice::quant {

static_assert(offsetof(iq4_nl::Block, d) == offsetof(q4_0::Block, d) &&
              offsetof(iq4_nl::Block, qs) == offsetof(q4_0::Block, qs));

template <>
struct PanelType<Type::IQ4_NL> : PanelType<Type::Q4_0> {
  static void codes(const std::byte* panel, size_t b, size_t lane, int8_t* out) {
    for (size_t c = 0; c < 32; ++c) out[c] = iq4_nl::kValues[panel_nibble(panel, b * kBlockBytes, lane, c)];
  }
};

}  // namespace sluice::quant
