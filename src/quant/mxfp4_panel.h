// Panels of MXFP4.
#pragma once
#include <cstddef>

#include "quant/mxfp4.h"
#include "quant/panel_type.h"

namespace sluice::quant {

template <>
struct PanelType<Type::MXFP4> {
  static constexpr bool kExists = true;
  static constexpr size_t kGroup = 32;
  static constexpr size_t kBlockBytes = 256;  // quants of 32 columns

  static size_t scale_at(size_t k, size_t b, size_t lane) { return k / 32 * kBlockBytes + b * kPanelRows + lane; }

  static void pack(const std::byte* in, size_t b, size_t lane, size_t k, std::byte* panel) {
    pack_nibbles(in + offsetof(mxfp4::Block, qs), b * kBlockBytes, lane, panel);
    panel[scale_at(k, b, lane)] = in[offsetof(mxfp4::Block, e)] ^ std::byte{128};
  }

  static void codes(const std::byte* panel, size_t b, size_t lane, int8_t* out) {
    for (size_t c = 0; c < 32; ++c) out[c] = mxfp4::kValues[panel_nibble(panel, b * kBlockBytes, lane, c)];
  }

  static float scale(const std::byte* panel, size_t k, size_t g, size_t lane) {
    return mxfp4::scale_of(std::to_integer<uint8_t>(panel[scale_at(k, g, lane)] ^ std::byte{128}));
  }
};

}  // namespace sluice::quant
