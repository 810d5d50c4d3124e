#include "quant/panel.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "quant/all_types.h"
#include "quant/iq4_nl_panel.h"
#include "quant/mxfp4_panel.h"
#include "quant/panel_type.h"
#include "quant/q4_0_panel.h"
#include "quant/q4_1_panel.h"
#include "quant/q4_k_panel.h"
#include "quant/q5_0_panel.h"
#include "quant/q5_1_panel.h"
#include "quant/q5_k_panel.h"
#include "quant/q6_k_panel.h"
#include "quant/q8_0_panel.h"
#include "quant/quant.h"

namespace sluice::quant {
namespace {

struct Packer {
  uint32_t group;
  void (*pack)(const std::byte* rows, size_t n_lanes, size_t k, std::byte* panel);
  void (*codes)(const std::byte* panel, size_t b, size_t lane, int8_t* out);
  float (*scale)(const std::byte* panel, size_t k, size_t g, size_t lane);
  float (*min)(const std::byte* panel, size_t k, size_t g, size_t lane);  // null: none
};

// One panel of n_lanes rows. Block by block, so that each of the panel's cache lines is written at one go. Hardware
// does not keep up with 16 rows a kilobyte apart: the next panel's rows are fetched meanwhile (behind the last one, in
// vain).
template <Type kType>
void pack_panel(const std::byte* rows, size_t n_lanes, size_t k, std::byte* panel) {
  const size_t block_bytes = type_info(kType).block_bytes, n_blocks = k / type_info(kType).block;
  const std::byte* next = rows + kPanelRows * n_blocks * block_bytes;
  for (size_t b = 0; b < n_blocks; ++b, next += kPanelRows * block_bytes) {
    for (size_t at = 0; at < kPanelRows * block_bytes; at += 64) __builtin_prefetch(next + at, 0, 2);
    for (size_t lane = 0; lane < n_lanes; ++lane) {
      PanelType<kType>::pack(rows + (lane * n_blocks + b) * block_bytes, b, lane, k, panel);
    }
  }
}

template <Type kType>
const Packer* packer_of() {
  using Panel = PanelType<kType>;
  if constexpr (Panel::kExists) {
    constexpr auto kMin = [] {
      if constexpr (requires { &Panel::min; })
        return &Panel::min;
      else
        return nullptr;
    }();
    static constexpr Packer kPacker = {Panel::kGroup, pack_panel<kType>, Panel::codes, Panel::scale, kMin};
    return &kPacker;
  } else {
    return nullptr;
  }
}

const Packer* find_packer(Type type) {
  switch (type) {
#define SLUICE_TYPE(name, id, block, bytes, header) \
  case Type::name:                                  \
    return packer_of<Type::name>();
#include "sluice/types.inc"
#undef SLUICE_TYPE
  }
  return nullptr;
}

const Packer& packer(Type type) {
  const Packer* found = find_packer(type);
  assert(found != nullptr);
  return *found;
}

}  // namespace

bool has_panel16(Type type) { return find_packer(type) != nullptr; }

uint64_t panel16_bytes(Type type, uint64_t n_rows, uint64_t k) {
  return (n_rows + kPanelRows - 1) / kPanelRows * kPanelRows * row_bytes(type, k);
}

void pack_panel16(Type type, const std::byte* rows, uint64_t n_rows, uint64_t k, std::byte* panels) {
  const Packer& p = packer(type);
  const uint64_t one_row = row_bytes(type, k), one_panel = kPanelRows * one_row;
  for (uint64_t row = 0; row < n_rows; row += kPanelRows) {
    std::byte* panel = panels + row * one_row;
    std::memset(panel, 0, one_panel);  // scales of 0 make the padding rows zero
    p.pack(rows + row * one_row, std::min<uint64_t>(n_rows - row, kPanelRows), k, panel);
  }
}

PanelGroups panel16_codes(Type type, const std::byte* panels, uint64_t row, uint64_t k, int8_t* codes, float* scales,
                          float* mins) {
  const Packer& p = packer(type);
  const std::byte* panel = panels + row / kPanelRows * kPanelRows * row_bytes(type, k);
  const uint64_t lane = row % kPanelRows;
  for (uint64_t b = 0; b < k / 32; ++b) p.codes(panel, b, lane, codes + b * 32);
  for (uint64_t g = 0; g < k / p.group; ++g) {
    scales[g] = p.scale(panel, k, g, lane);
    if (p.min != nullptr) mins[g] = p.min(panel, k, g, lane);
  }
  return {p.group, p.min != nullptr};
}

void panel16_row(Type type, const std::byte* panels, uint64_t row, uint64_t k, float* out) {
  const Packer& p = packer(type);
  const std::byte* panel = panels + row / kPanelRows * kPanelRows * row_bytes(type, k);
  const uint64_t lane = row % kPanelRows;
  for (uint64_t b = 0; b < k / 32; ++b) {
    int8_t codes[32];
    p.codes(panel, b, lane, codes);
    for (uint64_t c = 0; c < 32; ++c) {
      const uint64_t g = (b * 32 + c) / p.group;
      out[b * 32 + c] = static_cast<float>(codes[c]) * p.scale(panel, k, g, lane);
      if (p.min != nullptr) out[b * 32 + c] -= p.min(panel, k, g, lane);
    }
  }
}

}  // namespace sluice::quant
