// How each type's panels are unpacked (quant/panel.h), for panel.inl: included inside a tier.
#pragma once
#include "backend/cpu/simd/generic/common.inl"
#include "quant/iq4_nl.h"
#include "quant/mxfp4.h"

namespace sluice::backend::cpu::SLUICE_TIER {
namespace {

// Each weight type: kGroups of columns per block of 32, each with its own sum; kOffset: start = kOffset * m8 of the
// group. Types with a minimum have min() and one group.
struct PanelQ4 {
  static constexpr Type kType = Type::Q4_0;
  static constexpr int kGroups = 1, kOffset = 1;
  static constexpr uint64_t kBlockBytes = 256, kScaleBytes = 32;  // per block of 32 columns
  static uint64_t panel_bytes(uint64_t k) { return k / 32 * (kBlockBytes + kScaleBytes); }

  template <int T>
  [[gnu::always_inline]] static void dots_of(B both, const std::byte* x, Small (&sum)[T]) {
    const B low = and_b(both, splat_b(15)), high = and_b(shift_right<4>(both), splat_b(15));
    unrolled<T>([&](int t) { sum[t] = dot_small(sum[t], low, x + 32 * t); });
    unrolled<T>([&](int t) { sum[t] = dot_small(sum[t], high, x + 32 * t + 16); });
  }
  template <int T>
  [[gnu::always_inline]] static void dots(int, const std::byte* w, const std::byte* x, I (&sum)[T]) {
    Small small[T];
    unrolled<T>([&](int t) { small[t] = open_small(sum[t]); });
    dots_of<T>(load_b(w), x, small);  // written out: compilers must not make a loop of it
    dots_of<T>(load_b(w + 64), x + 4, small);
    dots_of<T>(load_b(w + 128), x + 8, small);
    dots_of<T>(load_b(w + 192), x + 12, small);
    unrolled<T>([&](int t) { sum[t] = close_small(sum[t], small[t]); });
  }
  template <class Pairs>
  [[gnu::always_inline]] static void pair_dots(int, const std::byte* w, const std::byte* x, Pairs& sum) {
    unrolled<2>([&](int j) {
      B first = load_b(w + 128 * j), second = load_b(w + 128 * j + 64);
      Pairs::weave(first, second);
      sum.add(and_b(first, splat_b(15)), and_b(second, splat_b(15)), x, 8 * j);
      sum.add(and_b(shift_right<4>(first), splat_b(15)), and_b(shift_right<4>(second), splat_b(15)), x, 8 * j + 16);
    });
  }
  static F scale(const std::byte* scales, uint64_t, uint64_t b, int) { return from_f16(scales + b * kScaleBytes); }
};

struct PanelQ8 {
  static constexpr Type kType = Type::Q8_0;
  static constexpr int kGroups = 1, kOffset = kCodeOffset;
  static constexpr uint64_t kBlockBytes = 512, kScaleBytes = 32;
  static uint64_t panel_bytes(uint64_t k) { return k / 32 * (kBlockBytes + kScaleBytes); }

  template <int T>
  [[gnu::always_inline]] static void dots_of(B code, const std::byte* x, I (&sum)[T]) {
    unrolled<T>([&](int t) { sum[t] = dot_codes(sum[t], code, x + 32 * t); });
  }
  template <int T>
  [[gnu::always_inline]] static void dots(int, const std::byte* w, const std::byte* x, I (&sum)[T]) {
    dots_of<T>(load_b(w), x, sum);
    dots_of<T>(load_b(w + 64), x + 4, sum);
    dots_of<T>(load_b(w + 128), x + 8, sum);
    dots_of<T>(load_b(w + 192), x + 12, sum);
    dots_of<T>(load_b(w + 256), x + 16, sum);
    dots_of<T>(load_b(w + 320), x + 20, sum);
    dots_of<T>(load_b(w + 384), x + 24, sum);
    dots_of<T>(load_b(w + 448), x + 28, sum);
  }
  template <class Pairs>
  [[gnu::always_inline]] static void pair_dots(int, const std::byte* w, const std::byte* x, Pairs& sum) {
    unrolled<4>([&](int j) {
      B first = load_b(w + 128 * j), second = load_b(w + 128 * j + 64);
      Pairs::weave(first, second);
      sum.add(first, second, x, 8 * j);
    });
  }
  static F scale(const std::byte* scales, uint64_t, uint64_t b, int) { return from_f16(scales + b * kScaleBytes); }
};

struct PanelQ6 {
  static constexpr Type kType = Type::Q6_K;
  static constexpr int kGroups = 2, kOffset = 4;
  static constexpr uint64_t kBlockBytes = 384,
                            kScaleBytes = 32;  // 8-bit scales; super-scales follow those of all blocks
  static uint64_t panel_bytes(uint64_t k) { return k / 32 * (kBlockBytes + kScaleBytes) + k / 256 * 32; }

  static B nibbles(const std::byte* w, int group) { return group == 0 ? load_b(w) : shift_right<4>(load_b(w)); }

  template <int J>
  [[gnu::always_inline]] static B codes(B low, B bits) {
    // The bit pair 2J of every byte moves to bits 4 and 5.
    B pair = bits;
    if constexpr (J < 2) pair = shift_left<4 - 2 * J>(bits);
    if constexpr (J > 2) pair = shift_right<2 * J - 4>(bits);
    return and_b(choose_b(splat_b(15), low, pair), splat_b(63));
  }
  template <int T, int J>
  [[gnu::always_inline]] static void dots_of(B low, B bits, const std::byte* x, Small (&sum)[T]) {
    const B code = codes<J>(low, bits);
    unrolled<T>([&](int t) { sum[t] = dot_small(sum[t], code, x + 32 * t + 4 * J); });
  }
  template <int T, int J>
  [[gnu::always_inline]] static void two_dots(int group, const std::byte* w, B bits, const std::byte* x, I (&sum)[T]) {
    Small small[T];
    unrolled<T>([&](int t) { small[t] = open_small(sum[t]); });
    dots_of<T, J>(nibbles(w + 64 * J, group), bits, x, small);
    dots_of<T, J + 1>(nibbles(w + 64 * (J + 1), group), bits, x, small);
    unrolled<T>([&](int t) { sum[t] = close_small(sum[t], small[t]); });
  }

  template <int T>
  [[gnu::always_inline]] static void dots(int group, const std::byte* w, const std::byte* x, I (&sum)[T]) {
    const B bits = load_b(w + 64 * (4 + group));
    two_dots<T, 0>(group, w, bits, x + 16 * group, sum);
    two_dots<T, 2>(group, w, bits, x + 16 * group, sum);
  }
  template <int J, class Pairs>
  [[gnu::always_inline]] static void two_pair_dots(int group, const std::byte* w, B bits, const std::byte* x,
                                                   Pairs& sum) {
    B first = codes<J>(nibbles(w + 64 * J, group), bits);
    B second = codes<J + 1>(nibbles(w + 64 * (J + 1), group), bits);
    Pairs::weave(first, second);
    sum.add(first, second, x, 16 * group + 4 * J);
  }
  template <class Pairs>
  [[gnu::always_inline]] static void pair_dots(int group, const std::byte* w, const std::byte* x, Pairs& sum) {
    const B bits = load_b(w + 64 * (4 + group));
    two_pair_dots<0>(group, w, bits, x, sum);
    two_pair_dots<2>(group, w, bits, x, sum);
  }
  static F scale(const std::byte* scales, uint64_t n_blocks, uint64_t b, int group) {
    const F super = from_f16(scales + n_blocks * kScaleBytes + b / 8 * 32);
    return mul(super, from_i8(scales + b * kScaleBytes + 16 * group));
  }
};

// 16 bytes, one a lane, each below 128.
struct LaneBytes {
  uint64_t v[2];
  static LaneBytes at(const std::byte* p) {
    LaneBytes bytes;
    __builtin_memcpy(bytes.v, p, sizeof(bytes.v));
    return bytes;
  }
  LaneBytes bits(int shift, uint64_t mask) const {
    const uint64_t masks = mask * 0x0101010101010101u;
    return {{v[0] >> shift & masks, v[1] >> shift & masks}};
  }
  LaneBytes above(LaneBytes low) const { return {{v[0] << 4 | low.v[0], v[1] << 4 | low.v[1]}}; }
};

struct PanelQ4K : PanelQ4 {
  static constexpr Type kType = Type::Q4_K;
  static constexpr uint64_t kScaleBytes = 24;  // 12 bytes for 8 blocks; d and dmin follow those of all blocks
  static uint64_t panel_bytes(uint64_t k) { return k / 32 * (kBlockBytes + kScaleBytes) + k / 256 * 64; }

  // The 6-bit scales and mins as src/quant/fit.h has them.
  static F scale(const std::byte* scales, uint64_t n_blocks, uint64_t b, int) {
    const std::byte* s = scales + b / 8 * 192;
    const uint64_t g = b % 8;
    const LaneBytes code =
        g < 4 ? LaneBytes::at(s + 16 * g).bits(0, 63)
              : LaneBytes::at(s + 16 * (g - 4)).bits(6, 3).above(LaneBytes::at(s + 16 * (g + 4)).bits(0, 15));
    return mul(from_f16(scales + n_blocks * kScaleBytes + b / 8 * 64), from_i8(code.v));
  }
  static F min(const std::byte* scales, uint64_t n_blocks, uint64_t b) {
    const std::byte* s = scales + b / 8 * 192;
    const uint64_t g = b % 8;
    const LaneBytes last = LaneBytes::at(s + 16 * (g + 4));
    const LaneBytes code = g < 4 ? last.bits(0, 63) : LaneBytes::at(s + 16 * g).bits(6, 3).above(last.bits(4, 15));
    return mul(from_f16(scales + n_blocks * kScaleBytes + b / 8 * 64 + 32), from_i8(code.v));
  }
};

// Quants of 5 bits. Types derive from it and bring their scales.
struct PanelFive {
  static constexpr int kGroups = 1;
  static constexpr uint64_t kBlockBytes = 320;

  // Columns 4J .. 4J + 3 of the block.
  template <int J>
  [[gnu::always_inline]] static B codes(const std::byte* w, B bits) {
    const B nibbles = J < 4 ? load_b(w + 64 * J) : shift_right<4>(load_b(w + 64 * (J % 4)));
    B high = bits;  // bit J of every byte moves to bit 4
    if constexpr (J < 4) high = shift_left<4 - J>(bits);
    if constexpr (J > 4) high = shift_right<J - 4>(bits);
    return and_b(choose_b(splat_b(15), nibbles, high), splat_b(31));
  }
  template <int T, int J>
  [[gnu::always_inline]] static void dots_of(const std::byte* w, B bits, const std::byte* x, Small (&sum)[T]) {
    const B code = codes<J>(w, bits);
    unrolled<T>([&](int t) { sum[t] = dot_small(sum[t], code, x + 32 * t + 4 * J); });
  }
  // Sums of four vectors fit 16 bits, of eight they do not.
  template <int T, int J>
  [[gnu::always_inline]] static void four_dots(const std::byte* w, B bits, const std::byte* x, I (&sum)[T]) {
    Small small[T];
    unrolled<T>([&](int t) { small[t] = open_small(sum[t]); });
    dots_of<T, J>(w, bits, x, small);
    dots_of<T, J + 1>(w, bits, x, small);
    dots_of<T, J + 2>(w, bits, x, small);
    dots_of<T, J + 3>(w, bits, x, small);
    unrolled<T>([&](int t) { sum[t] = close_small(sum[t], small[t]); });
  }
  template <int T>
  [[gnu::always_inline]] static void dots(int, const std::byte* w, const std::byte* x, I (&sum)[T]) {
    const B bits = load_b(w + 256);
    four_dots<T, 0>(w, bits, x, sum);
    four_dots<T, 4>(w, bits, x, sum);
  }
  template <int J, class Pairs>
  [[gnu::always_inline]] static void two_pair_dots(const std::byte* w, B bits, const std::byte* x, Pairs& sum) {
    B first = codes<J>(w, bits), second = codes<J + 1>(w, bits);
    Pairs::weave(first, second);
    sum.add(first, second, x, 4 * J);
  }
  template <class Pairs>
  [[gnu::always_inline]] static void pair_dots(int, const std::byte* w, const std::byte* x, Pairs& sum) {
    const B bits = load_b(w + 256);
    two_pair_dots<0>(w, bits, x, sum);
    two_pair_dots<2>(w, bits, x, sum);
    two_pair_dots<4>(w, bits, x, sum);
    two_pair_dots<6>(w, bits, x, sum);
  }
};

struct PanelQ5K : PanelFive {
  static constexpr Type kType = Type::Q5_K;
  static constexpr int kOffset = 0;
  static constexpr uint64_t kScaleBytes = PanelQ4K::kScaleBytes;
  static uint64_t panel_bytes(uint64_t k) { return k / 32 * (kBlockBytes + kScaleBytes) + k / 256 * 64; }
  static F scale(const std::byte* scales, uint64_t n_blocks, uint64_t b, int group) {
    return PanelQ4K::scale(scales, n_blocks, b, group);
  }
  static F min(const std::byte* scales, uint64_t n_blocks, uint64_t b) { return PanelQ4K::min(scales, n_blocks, b); }
};

struct PanelQ50 : PanelFive {
  static constexpr Type kType = Type::Q5_0;
  static constexpr int kOffset = 2;
  static constexpr uint64_t kScaleBytes = 32;
  static uint64_t panel_bytes(uint64_t k) { return k / 32 * (kBlockBytes + kScaleBytes); }
  static F scale(const std::byte* scales, uint64_t, uint64_t b, int) { return from_f16(scales + b * kScaleBytes); }
};

// d and m of a block side by side; the minimum is -m.
struct PanelQ51 : PanelFive {
  static constexpr Type kType = Type::Q5_1;
  static constexpr int kOffset = 0;
  static constexpr uint64_t kScaleBytes = 64;
  static uint64_t panel_bytes(uint64_t k) { return k / 32 * (kBlockBytes + kScaleBytes); }
  static F scale(const std::byte* scales, uint64_t, uint64_t b, int) { return from_f16(scales + b * kScaleBytes); }
  static F min(const std::byte* scales, uint64_t, uint64_t b) {
    return sub(splat(-0.0f), from_f16(scales + b * kScaleBytes + 32));
  }
};

struct PanelQ41 : PanelQ4 {
  static constexpr Type kType = Type::Q4_1;
  static constexpr uint64_t kScaleBytes = PanelQ51::kScaleBytes;
  static uint64_t panel_bytes(uint64_t k) { return k / 32 * (kBlockBytes + kScaleBytes); }
  static F scale(const std::byte* scales, uint64_t n_blocks, uint64_t b, int group) {
    return PanelQ51::scale(scales, n_blocks, b, group);
  }
  static F min(const std::byte* scales, uint64_t n_blocks, uint64_t b) { return PanelQ51::min(scales, n_blocks, b); }
};

// Types whose 4-bit codes choose from a table: its values plus 128, as the codes of Q8_0.
struct Values {
  uint8_t v[16];
  constexpr explicit Values(const int8_t (&values)[16]) : v{} {
    for (int i = 0; i < 16; ++i) v[i] = static_cast<uint8_t>(values[i] + 128);
  }
};

struct PanelIQ4 {
  static constexpr Type kType = Type::IQ4_NL;
  static constexpr int kGroups = 1, kOffset = kCodeOffset;
  static constexpr uint64_t kBlockBytes = 256, kScaleBytes = 32;
  static constexpr Values kTable{quant::iq4_nl::kValues};
  static uint64_t panel_bytes(uint64_t k) { return k / 32 * (kBlockBytes + kScaleBytes); }
  static F scale(const std::byte* scales, uint64_t, uint64_t b, int) { return from_f16(scales + b * kScaleBytes); }

  template <int T>
  [[gnu::always_inline]] static void dots(int, const std::byte* w, const std::byte* x, I (&sum)[T]) {
    table_dots<T>(kTable, w, x, sum);
  }
  template <class Pairs>
  [[gnu::always_inline]] static void pair_dots(int, const std::byte* w, const std::byte* x, Pairs& sum) {
    table_pair_dots(kTable, w, x, sum);
  }

  static B low(const Values& table, B both) { return lookup_b(table.v, and_b(both, splat_b(15))); }
  static B high(const Values& table, B both) { return low(table, shift_right<4>(both)); }
  template <int T>
  [[gnu::always_inline]] static void dots_of(const Values& table, B both, const std::byte* x, I (&sum)[T]) {
    const B first = low(table, both), second = high(table, both);
    unrolled<T>([&](int t) { sum[t] = dot_codes(sum[t], first, x + 32 * t); });
    unrolled<T>([&](int t) { sum[t] = dot_codes(sum[t], second, x + 32 * t + 16); });
  }
  template <int T>
  [[gnu::always_inline]] static void table_dots(const Values& table, const std::byte* w, const std::byte* x,
                                                I (&sum)[T]) {
    dots_of<T>(table, load_b(w), x, sum);
    dots_of<T>(table, load_b(w + 64), x + 4, sum);
    dots_of<T>(table, load_b(w + 128), x + 8, sum);
    dots_of<T>(table, load_b(w + 192), x + 12, sum);
  }
  template <class Pairs>
  [[gnu::always_inline]] static void table_pair_dots(const Values& table, const std::byte* w, const std::byte* x,
                                                     Pairs& sum) {
    unrolled<2>([&](int j) {
      B first = load_b(w + 128 * j), second = load_b(w + 128 * j + 64);
      Pairs::weave(first, second);
      sum.add(low(table, first), low(table, second), x, 8 * j);
      sum.add(high(table, first), high(table, second), x, 8 * j + 16);
    });
  }
};

struct PanelMXFP4 : PanelIQ4 {
  static constexpr Type kType = Type::MXFP4;
  static constexpr uint64_t kScaleBytes = 16;
  static constexpr Values kTable{quant::mxfp4::kValues};
  static uint64_t panel_bytes(uint64_t k) { return k / 32 * (kBlockBytes + kScaleBytes); }
  static F scale(const std::byte* scales, uint64_t, uint64_t b, int) {
    return scale_by_power(splat(1.0f), from_i8(scales + b * kScaleBytes));
  }

  template <int T>
  [[gnu::always_inline]] static void dots(int, const std::byte* w, const std::byte* x, I (&sum)[T]) {
    table_dots<T>(kTable, w, x, sum);
  }
  template <class Pairs>
  [[gnu::always_inline]] static void pair_dots(int, const std::byte* w, const std::byte* x, Pairs& sum) {
    table_pair_dots(kTable, w, x, sum);
  }
};

template <class Q>
constexpr bool kHasMin = requires(const std::byte* p) {
  Q::min(p, 0, 0);
};

}  // namespace
}  // namespace sluice::backend::cpu::SLUICE_TIER
