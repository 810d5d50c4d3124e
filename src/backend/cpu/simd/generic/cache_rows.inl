// Rows of the cache types, 16 values at a time: included inside a tier. Values are those of row_to_f32, bit for bit.
#pragma once
#include "backend/cpu/simd/generic/common.inl"
#include "backend/cpu/simd/generic/rows_f32.inl"

namespace sluice::backend::cpu::SLUICE_TIER {
namespace {

// Always inlined: gcc takes a function that only prefetches for one without effect, and drops its calls.
template <uint64_t Bytes>
[[gnu::always_inline]] inline void prefetch_bytes(const std::byte* p) {
  for (uint64_t line = 0; line < Bytes; line += 64) prefetch_far(p + line);
}

// Columns that need no scale of their own.
template <class Row>
struct PlainRow {
  static constexpr bool kFromCache = true;

  template <int C>
  [[gnu::always_inline]] static void load_columns(const std::byte* row, uint64_t column, F* out) {
    unrolled<C>([&](int j) { out[j] = Row::load_16(row, column + 16 * j); });
  }
  // Columns i .. i + n - 1 of 16 rows, n <= 16: out[column][row]; zeros past n.
  static void transpose_columns(const std::byte* const* rows, uint64_t i, uint32_t n, float* out, uint64_t stride) {
    F values[16];
    if (n == 16) {
      for (int r = 0; r < 16; ++r) values[r] = Row::load_16(rows[r], i);
    } else {
      for (int r = 0; r < 16; ++r) values[r] = Row::load_first(rows[r], i, n);
    }
    transpose(values, [&](uint64_t c, F column) { store(out + c * stride, column); });
  }
};

struct F32Row : PlainRow<F32Row> {
  static constexpr uint64_t kBytesOf16 = 64;
  static F load_16(const std::byte* row, uint64_t i) { return load(reinterpret_cast<const float*>(row) + i); }
  static F load_first(const std::byte* row, uint64_t i, uint32_t n) {
    return SLUICE_TIER::load_first(reinterpret_cast<const float*>(row) + i, n);
  }
};
// Already here: nothing to prefetch.
struct CopiedRow : F32Row {
  static constexpr bool kFromCache = false;
};

struct F16Row : PlainRow<F16Row> {
  static constexpr uint64_t kBytesOf16 = 32;
  static F load_16(const std::byte* row, uint64_t i) { return from_f16(row + 2 * i); }
  static F load_first(const std::byte* row, uint64_t i, uint32_t n) {
    std::byte halves[32] = {};
    __builtin_memcpy(halves, row + 2 * i, 2 * n);
    return from_f16(halves);
  }
};

// Blocks of 32 values: an f16 scale and 32 codes.
struct Q8Row {
  static constexpr bool kFromCache = true;
  static constexpr uint64_t kBytesOf16 = 17;

  template <int C>
  [[gnu::always_inline]] static void load_columns(const std::byte* row, uint64_t column, F* out) {
    if constexpr (C == 1) {
      const std::byte* block = row + column / 32 * 34;
      out[0] = mul(from_i8(block + 2 + column % 32), splat_f16(block));
    } else {
      unrolled<C / 2>([&](int j) {
        const std::byte* block = row + (column / 32 + j) * 34;
        const F d = splat_f16(block);
        out[2 * j] = mul(from_i8(block + 2), d);
        out[2 * j + 1] = mul(from_i8(block + 18), d);
      });
    }
  }
  static void transpose_columns(const std::byte* const* rows, uint64_t i, uint32_t, float* out, uint64_t stride) {
    F codes[16];
    std::byte scales[32];
    for (int r = 0; r < 16; ++r) {
      const std::byte* block = rows[r] + i / 32 * 34;
      __builtin_memcpy(scales + 2 * r, block, 2);
      codes[r] = from_i8(block + 2 + i % 32);
    }
    const F d = from_f16(scales);
    transpose(codes, [&](uint64_t c, F column) { store(out + c * stride, mul(column, d)); });
  }
};

template <class Fn>
[[gnu::always_inline]] inline void with_row_of(Type type, Fn fn) {
  switch (type) {
    case Type::F32:
      return fn(F32Row{});
    case Type::F16:
      return fn(F16Row{});
    default:
      return fn(Q8Row{});
  }
}

}  // namespace
}  // namespace sluice::backend::cpu::SLUICE_TIER
