// Products of panel16 weights with q8 rows, in the sums that quant/panel.h lays down: included inside a tier.
//
// Activations of a group of entries are packed first, in tiles of at most kPanelTokens entries, so that a tile is one
// stream: per block of 32 columns, for T tokens:
//   int8  q[T][32]; float d[T]; int32 start[kGroups][T]   start takes the offset of unsigned weights away; of types
//   with a minimum it is -(sum of q), as a float
// Where a tier takes tokens in pairs, the codes of a pair lie together: 8 columns of one, the same of the other, and so
// on. A token without a partner keeps its 32 codes as they are.
// A panel then passes over all tiles of the group while it lies in the nearest cache.
#pragma once
#include "backend/cpu/simd/generic/common.inl"
#include "backend/cpu/simd/generic/panel_types.inl"
#include "backend/cpu/simd/generic/q8.inl"
#include "backend/cpu/simd/generic/walk.inl"

namespace sluice::backend::cpu::SLUICE_TIER {
namespace {

template <class Q>
constexpr uint64_t packed_block_bytes(uint64_t tokens) {
  return tokens * (32 + 4 + 4 * Q::kGroups);
}

// Of token t, one block.
inline void pack_codes(const std::byte* codes, uint64_t t, uint64_t tokens, std::byte* to) {
  if (kTokenPairs && (t | 1) < tokens) {
    to += t / 2 * 64 + t % 2 * 8;
    for (uint64_t c = 0; c < 32; c += 8) __builtin_memcpy(to + 2 * c, codes + c, 8);
  } else {
    __builtin_memcpy(to + 32 * t, codes, 32);
  }
}

template <class Q>
inline void pack_row(const std::byte* row, uint64_t k, uint64_t t, uint64_t tokens, std::byte* to) {
  const std::byte* d = row + k;
  const std::byte* m8 = d + k / 8;
  for (uint64_t b = 0; b < k / 32; ++b, to += packed_block_bytes<Q>(tokens)) {
    pack_codes(row + 32 * b, t, tokens, to);
    __builtin_memcpy(to + 32 * tokens + 4 * t, d + 4 * b, 4);
    int32_t m[2];
    __builtin_memcpy(m, m8 + 8 * b, 8);
    if constexpr (Q::kGroups == 1) m[0] += m[1];
    if constexpr (kHasMin<Q>) {
      const int32_t sum = m[0] / 8;
      const auto start = static_cast<float>(sum);
      __builtin_memcpy(to + 36 * tokens + 4 * t, &start, 4);
      continue;
    }
    for (int g = 0; g < Q::kGroups; ++g) {
      m[g] *= Q::kOffset;
      __builtin_memcpy(to + (36 + 4 * uint64_t(g)) * tokens + 4 * t, &m[g], 4);
    }
  }
}

// The tiles of n entries differ by one entry (or pair) at most: a small last one would waste the unpacking of weights.
struct Tiles {
  static constexpr uint64_t kStep = kTokenPairs ? 2 : 1;
  uint64_t begin, end, n_steps, count;
  Tiles(uint64_t begin_, uint64_t end_)
      : begin(begin_),
        end(end_),
        n_steps(ceil_div(end - begin, kStep)),
        count(ceil_div(n_steps, kPanelTokens / kStep)) {}
  uint64_t first(uint64_t i) const { return least(end, begin + i * n_steps / count * kStep); }
};

template <class Q>
inline void pack_group(const Product& p, const Piece& piece, std::byte* to) {
  const Tiles tiles(piece.begin, piece.end);
  for (uint64_t i = 0; i < tiles.count; ++i) {
    const uint64_t first = tiles.first(i), tokens = tiles.first(i + 1) - first;
    for (uint64_t t = 0; t < tokens; ++t) pack_row<Q>(p.x_row(first + t), p.k, t, tokens, to);
    to += p.k / 32 * packed_block_bytes<Q>(tokens);
  }
}

// One panel times one tile.
struct PanelTile {
  const std::byte* panel;
  const std::byte* x;
  uint64_t n_blocks;
  const std::byte* next;  // a panel to prefetch, or null
  float* out;             // (tokens, kGatedRows) in scratch memory, or null: to y
  const Product* p;
  uint64_t first, row;  // position of the first entry, row of y
};

constexpr uint64_t kGatedRows = 32;  // of y that gated products make at once: a block of 8-bit values

[[gnu::noinline]] void put(const PanelTile& a, int t, F sum) {
  if (a.out != nullptr) return store(a.out + uint64_t(t) * kGatedRows, sum);
  float* y = a.p->y_row(a.first + uint64_t(t)) + a.row;
  const uint64_t rows = a.p->m - a.row;
  if (rows >= 16) {
    store(y, sum);
  } else {
    store_first(y, sum, static_cast<uint32_t>(rows));
  }
}

template <class Q, int T>
[[gnu::always_inline]] inline void add_mins(const PanelTile& a, uint64_t b, const std::byte* x, F (&acc)[T]) {
  const F min = Q::min(a.panel + a.n_blocks * Q::kBlockBytes, a.n_blocks, b);
  unrolled<T>([&](int t) {
    float d, sum;
    __builtin_memcpy(&d, x + 32 * T + 4 * t, 4);
    __builtin_memcpy(&sum, x + 36 * T + 4 * t, 4);
    acc[t] = fma(splat(sum), mul(min, splat(d)), acc[t]);
  });
}

template <class Q, int T, int Group>
[[gnu::always_inline]] inline void add_group(const PanelTile& a, uint64_t b, const std::byte* w, const std::byte* x,
                                             F (&acc)[T]) {
  I sum[T];
  unrolled<T>([&](int t) {
    int32_t start;
    __builtin_memcpy(&start, x + (36 + 4 * Group) * T + 4 * t, 4);
    sum[t] = splat_i(kHasMin<Q> ? 0 : start);
  });
  if constexpr (kTokenPairs && T > 1) {
    PairSums<T> pairs(sum);
    Q::pair_dots(Group, w, x, pairs);
    pairs.close(sum);
  } else {
    Q::template dots<T>(Group, w, x, sum);
  }
  const F scale = Q::scale(a.panel + a.n_blocks * Q::kBlockBytes, a.n_blocks, b, Group);
  unrolled<T>([&](int t) {
    float d;
    __builtin_memcpy(&d, x + 32 * T + 4 * t, 4);
    acc[t] = fma(to_f32(sum[t]), mul(scale, splat(d)), acc[t]);
  });
  if constexpr (kHasMin<Q>) add_mins<Q, T>(a, b, x, acc);
}

// Flattened: gcc 12 keeps what takes four registers at once as calls, with all sums in memory.
template <class Q, int T>
[[gnu::noinline, gnu::flatten]] void multiply_tile(const PanelTile& a) {
  F acc[T];
  unrolled<T>([&](int t) { acc[t] = zero(); });
  const std::byte *w = a.panel, *x = a.x;
  for (uint64_t b = 0; b < a.n_blocks; ++b) {
    if (a.next != nullptr) {
      for (uint64_t line = 0; line < Q::kBlockBytes; line += 64) prefetch(a.next + b * Q::kBlockBytes + line);
      prefetch(a.next + a.n_blocks * Q::kBlockBytes + b * Q::kScaleBytes);
    }
    add_group<Q, T, 0>(a, b, w, x, acc);
    if constexpr (Q::kGroups == 2) add_group<Q, T, 1>(a, b, w, x, acc);
    w += Q::kBlockBytes;
    x += packed_block_bytes<Q>(T);
  }
  unrolled<T>([&](int t) { put(a, t, acc[t]); });
}

template <class Q, int T>
inline void multiply_tile_of(uint64_t tokens, const PanelTile& a) {
  if (tokens == T) return multiply_tile<Q, T>(a);
  if constexpr (T > 1) multiply_tile_of<Q, T - 1>(tokens, a);
}

template <class Q>
inline void multiply_panel(const Product& p, const Piece& piece, uint64_t panel, const std::byte* packed) {
  const Tiles tiles(piece.begin, piece.end);
  const uint64_t bytes = Q::panel_bytes(p.k);
  PanelTile a = {piece.w + panel * bytes, packed, p.k / 32, nullptr, nullptr, &p, 0, panel * 16};
  for (uint64_t i = 0; i < tiles.count; ++i) {
    a.first = tiles.first(i);
    const uint64_t tokens = tiles.first(i + 1) - a.first;
    // The next panel comes in while this one is used for the last time.
    if (i + 1 == tiles.count && panel + 1 < piece.unit_end) a.next = a.panel + bytes;
    multiply_tile_of<Q, kPanelTokens>(tokens, a);
    a.x += a.n_blocks * packed_block_bytes<Q>(tokens);
  }
}

constexpr uint64_t kGroupBytes =
    3 << 18;  // activations that stay in a second-level cache beside the weights that stream by

// Both products of a tile, in scratch memory; then y.
struct GatedTile {
  alignas(64) float gate[kPanelTokens * kGatedRows];
  alignas(64) float up[kPanelTokens * kGatedRows];
};

inline void put_gated(const Product& p, const GatedTile& tile, uint64_t first, uint64_t tokens, uint64_t unit) {
  for (uint64_t t = 0; t < tokens; ++t) {
    const float *gate = tile.gate + t * kGatedRows, *up = tile.up + t * kGatedRows;
    const F low = silu_times(load(gate), load(up)), high = silu_times(load(gate + 16), load(up + 16));
    const uint64_t entry = p.entry(first + t);
    if (p.y_q8 != nullptr) {
      quantize_block(low, high, p.y_q8 + entry * q8_bytes(p.m), p.m, unit);
      continue;
    }
    float* y = p.y + entry * p.m + unit * kGatedRows;
    const uint64_t rows = p.m - unit * kGatedRows;
    store_up_to(y, low, static_cast<uint32_t>(least(16, rows)));
    if (rows > 16) store_up_to(y + 16, high, static_cast<uint32_t>(least(16, rows - 16)));
  }
}

// 32 rows of both matrices times all tiles of the group. The activations of a tile stay in the nearest cache while the
// four panels pass over them.
template <class Q>
inline void multiply_gated_unit(const Product& p, const Piece& piece, uint64_t unit, const std::byte* packed) {
  GatedTile out;
  const Tiles tiles(piece.begin, piece.end);
  const uint64_t bytes = Q::panel_bytes(p.k), n_panels = unit * kGatedRows + 16 < p.m ? 2 : 1;
  PanelTile a = {nullptr, packed, p.k / 32, nullptr, nullptr, &p, 0, 0};
  if (n_panels == 1) {
    for (uint64_t i = 0; i < sizeof(out.gate) / sizeof(float); i += 16) {
      store(out.gate + i, zero());
      store(out.up + i, zero());
    }
  }
  for (uint64_t i = 0; i < tiles.count; ++i) {
    const uint64_t first = tiles.first(i), tokens = tiles.first(i + 1) - first;
    const bool last = i + 1 == tiles.count, more = unit + 1 < piece.unit_end;
    for (uint64_t j = 0; j < 2 * n_panels; ++j) {
      // gate, up, gate, up. The next of them comes in meanwhile where each is used but once, else the one of the next
      // unit at the last use.
      const auto panel = [&](uint64_t n) { return (n % 2 == 0 ? piece.w : piece.up) + (unit * 2 + n / 2) * bytes; };
      a.panel = panel(j);
      a.next = nullptr;
      if (tiles.count == 1 && (more || j + 1 < 2 * n_panels)) a.next = panel(j + 1);
      if (tiles.count > 1 && last && more) a.next = a.panel + 2 * bytes;
      a.out = (j % 2 == 0 ? out.gate : out.up) + j / 2 * 16;
      multiply_tile_of<Q, kPanelTokens>(tokens, a);
    }
    put_gated(p, out, first, tokens, unit);
    a.x += a.n_blocks * packed_block_bytes<Q>(tokens);
  }
}

inline void clear_gated(const Product& p, const Piece& piece) {
  GatedTile zeros;
  for (uint64_t i = 0; i < kGatedRows; i += 16) {
    store(zeros.gate + i, zero());
    store(zeros.up + i, zero());
  }
  for (uint64_t i = piece.begin; i < piece.end; ++i) {
    for (uint64_t unit = piece.unit_begin; unit < piece.unit_end; ++unit) put_gated(p, zeros, i, 1, unit);
  }
}

template <class Q>
inline void multiply_piece(const Product& p, const Piece& piece, const std::byte* packed) {
  for (uint64_t panel = piece.unit_begin; panel < piece.unit_end; ++panel) multiply_panel<Q>(p, piece, panel, packed);
}
template <class Q>
inline void multiply_gated_piece(const Product& p, const Piece& piece, const std::byte* packed) {
  for (uint64_t unit = piece.unit_begin; unit < piece.unit_end; ++unit) multiply_gated_unit<Q>(p, piece, unit, packed);
}

template <class Q, class Args, bool Gated = false>
void multiply_panels(const std::byte* args, Worker& worker) {
  const Product p = product_of(*reinterpret_cast<const Args*>(args), Layout::panel16);
  const uint64_t group = most(1, kGroupBytes / (p.k / 32 * packed_block_bytes<Q>(1)));
  std::byte* packed = scratch_of(worker);
  uint64_t packed_group = 0;
  // A gated unit is two panels of each matrix.
  Walk walk(p, worker, ceil_div(p.m, Gated ? kGatedRows : 16), Q::panel_bytes(p.k) * (Gated ? 4 : 1), group, 4);
  for (Piece piece{}; walk.next(piece);) {
    if (piece.w == nullptr || (Gated && piece.up == nullptr)) {
      Gated ? clear_gated(p, piece) : clear_rows(p, piece, 16);
      continue;
    }
    if (piece.group != packed_group) {
      pack_group<Q>(p, piece, packed);
      packed_group = piece.group;
    }
    Gated ? multiply_gated_piece<Q>(p, piece, packed) : multiply_piece<Q>(p, piece, packed);
  }
}

#define SLUICE_PANEL_ROWS(Q)                                                                                \
  {{KernelId::gemv, Q::kType, Layout::panel16, 0}, multiply_panels<Q, kernels::GemvArgs>},                  \
      {{KernelId::gemm, Q::kType, Layout::panel16, 0}, multiply_panels<Q, kernels::GemvArgs>},              \
      {{KernelId::moe_gemv, Q::kType, Layout::panel16, 0}, multiply_panels<Q, kernels::MoeGemvArgs>},       \
      {{KernelId::moe_gemm, Q::kType, Layout::panel16, 0}, multiply_panels<Q, kernels::MoeGemmArgs>},       \
      {{KernelId::gate_up, Q::kType, Layout::panel16, 0}, multiply_panels<Q, kernels::GateUpArgs, true>}, { \
    {KernelId::moe_gate_up, Q::kType, Layout::panel16, 0}, multiply_panels<Q, kernels::MoeGateUpArgs, true> \
  }
constexpr TierKernel kPanelTable[] = {
    SLUICE_PANEL_ROWS(PanelQ4),  SLUICE_PANEL_ROWS(PanelQ8),   SLUICE_PANEL_ROWS(PanelQ6),  SLUICE_PANEL_ROWS(PanelQ4K),
    SLUICE_PANEL_ROWS(PanelQ5K), SLUICE_PANEL_ROWS(PanelQ41),  SLUICE_PANEL_ROWS(PanelQ50), SLUICE_PANEL_ROWS(PanelQ51),
    SLUICE_PANEL_ROWS(PanelIQ4), SLUICE_PANEL_ROWS(PanelMXFP4)};
#undef SLUICE_PANEL_ROWS

}  // namespace

TierTable panel_kernels() { return {kPanelTable, sizeof(kPanelTable) / sizeof(kPanelTable[0])}; }

}  // namespace sluice::backend::cpu::SLUICE_TIER
