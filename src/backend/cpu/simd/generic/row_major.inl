// Products of weights as in the file with f32 rows: included inside a tier.
//
// A dot product is one chain of fused multiply-adds per lane, lane j taking columns j, j + 16, ..., and then sum_lanes:
// the same for every tile. F32 weights are read in place; others become f32 in scratch memory, a stretch of columns at
// a time where there is one token, so that the stretch stays in the nearest cache.
#pragma once
#include "backend/cpu/simd/generic/common.inl"
#include "backend/cpu/simd/generic/rows_f32.inl"
#include "backend/cpu/simd/generic/walk.inl"

namespace sluice::backend::cpu::SLUICE_TIER {
namespace {

constexpr int kDotRows = 4;
constexpr uint64_t kDotGroupBytes = 1 << 20;  // x rows of a group
constexpr uint64_t kDotBlockBytes = 1 << 18;  // f32 rows of weights that a group's tokens pass over

// Four rows of weights, unless fewer are left: then the last one stands in for the others.
struct DotTile {
  const float* w[kDotRows];
  const float* x[kDotTokens];
  float* y[kDotTokens];  // of the first row
  uint64_t k, rows;
};

template <int T>
[[gnu::noinline]] void dot_tile(const DotTile& a) {
  F sum[kDotRows * T];
  unrolled<kDotRows * T>([&](int i) { sum[i] = zero(); });
  const auto step = [&](auto load_at) __attribute__((always_inline)) {
    F x[T];
    unrolled<T>([&](int t) { x[t] = load_at(a.x[t]); });
    unrolled<kDotRows>([&](int r) {
      const F w = load_at(a.w[r]);
      unrolled<T>([&](int t) { sum[r * T + t] = fma(w, x[t], sum[r * T + t]); });
    });
  };
  uint64_t i = 0;
  for (; i + 16 <= a.k; i += 16) step([&](const float* p) { return load(p + i); });
  if (i < a.k) step([&](const float* p) { return load_first(p + i, static_cast<uint32_t>(a.k - i)); });
  float sums[kDotRows * T];
  unrolled<kDotRows * T>([&](int j) { sums[j] = sum_lanes(sum[j]); });
  for (uint64_t r = 0; r < a.rows; ++r) {
    for (int t = 0; t < T; ++t) a.y[t][r] = sums[r * T + uint64_t(t)];
  }
}

template <int T>
inline void dot_tile_of(uint64_t tokens, const DotTile& a) {
  if (tokens == T) return dot_tile<T>(a);
  if constexpr (T > 1) dot_tile_of<T - 1>(tokens, a);
}

// Rows first .. first + n - 1 of y for all entries of the piece; `w` holds them as f32.
inline void dot_block(const Product& p, const Piece& piece, const float* w, uint64_t first, uint64_t n) {
  DotTile tile;
  tile.k = p.k;
  for (uint64_t i = piece.begin; i < piece.end; i += kDotTokens) {
    const uint64_t tokens = least(kDotTokens, piece.end - i);
    for (uint64_t t = 0; t < tokens; ++t) tile.x[t] = reinterpret_cast<const float*>(p.x_row(i + t));
    for (uint64_t r = 0; r < n; r += kDotRows) {
      tile.rows = least(kDotRows, n - r);
      for (uint64_t j = 0; j < kDotRows; ++j) tile.w[j] = w + least(r + j, n - 1) * p.k;
      for (uint64_t t = 0; t < tokens; ++t) tile.y[t] = p.y_row(i + t) + first + r;
      dot_tile_of<kDotTokens>(tokens, tile);
    }
  }
}

template <class Args>
void multiply_rows(const std::byte* args, Worker& worker) {
  const Type type = key_of(worker).type;
  const Product p = product_of(*reinterpret_cast<const Args*>(args), Layout::row_major);
  const uint64_t in_bytes = row_bytes(type, p.k), f32_bytes = p.k * sizeof(float);
  auto* unpacked = reinterpret_cast<float*>(scratch_of(worker));
  Walk walk(p, worker, ceil_div(p.m, kDotRows), kDotRows * in_bytes, most(1, kDotGroupBytes / f32_bytes), 4);
  for (Piece piece{}; walk.next(piece);) {
    if (piece.w == nullptr) {
      clear_rows(p, piece, kDotRows);
      continue;
    }
    // One token has no use for a row after its product: then it need not stay in a cache.
    const uint64_t block_bytes = piece.end - piece.begin == 1 ? kDotRows * f32_bytes : kDotBlockBytes;
    const uint64_t block = least(most(kDotRows, block_bytes / f32_bytes), most(1, kScratchBytes / f32_bytes));
    const uint64_t last = least(p.m, piece.unit_end * kDotRows);
    for (uint64_t r = piece.unit_begin * kDotRows; r < last; r += block) {
      const uint64_t n = least(block, last - r);
      const std::byte* w = piece.w + r * in_bytes;
      if (type == Type::F32) {
        dot_block(p, piece, reinterpret_cast<const float*>(w), r, n);
        continue;
      }
      for (uint64_t i = 0; i < n; ++i) row_to_f32(type, w + i * in_bytes, unpacked + i * p.k, p.k);
      dot_block(p, piece, unpacked, r, n);
    }
  }
}

#define SLUICE_ROW_MAJOR(T)                                                                         \
  {{KernelId::gemv, Type::T, Layout::row_major, 0}, multiply_rows<kernels::GemvArgs>},              \
      {{KernelId::gemm, Type::T, Layout::row_major, 0}, multiply_rows<kernels::GemvArgs>},          \
      {{KernelId::moe_gemv, Type::T, Layout::row_major, 0}, multiply_rows<kernels::MoeGemvArgs>}, { \
    {KernelId::moe_gemm, Type::T, Layout::row_major, 0}, multiply_rows<kernels::MoeGemmArgs>        \
  }
constexpr TierKernel kRowMajorTable[] = {
#define SLUICE_TYPE(name, id, block, bytes, header) SLUICE_ROW_MAJOR(name),
#include "sluice/types.inc"
#undef SLUICE_TYPE
};
#undef SLUICE_ROW_MAJOR

}  // namespace

TierTable row_major_kernels() { return {kRowMajorTable, sizeof(kRowMajorTable) / sizeof(kRowMajorTable[0])}; }

}  // namespace sluice::backend::cpu::SLUICE_TIER
