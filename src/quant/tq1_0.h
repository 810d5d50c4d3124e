// TQ1_0: blocks of 256 weights that are -1, 0 or 1 times one scale, five to a byte: the byte is a fraction in base 3,
// whose digits come out at the top as it is multiplied by 3.
#pragma once
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "quant/half.h"
#include "quant/iq_chunks.h"

namespace sluice::quant::tq1_0 {

inline constexpr size_t kBlock = 256;
struct Block {
  uint8_t qs[48];  // 32 bytes with weights m, m + 32, ..., then 16 with weights 160 + m, 176 + m, ...
  uint8_t qh[4];   // byte m: weights 240 + m, 244 + m, 248 + m, 252 + m
  uint16_t d;      // f16
};
static_assert(sizeof(Block) == 54);

static constexpr RowEncoder quantize_row = kNoEncoder;

template <size_t BYTES, size_t DIGITS>
static inline void put_digits(const uint8_t* bytes, float d, float* out) {
  for (size_t m = 0; m < BYTES; ++m) {
    auto fraction = static_cast<uint32_t>(bytes[m]);
    for (size_t i = 0; i < DIGITS; ++i, fraction = fraction * 3 & 255)
      out[i * BYTES + m] = d * (static_cast<float>(fraction * 3 >> 8) - 1.0f);
  }
}

static inline void dequantize_row(const std::byte* in, float* out, size_t n) {
  assert(n % kBlock == 0);
  for (size_t b = 0; b < n / kBlock; ++b, in += sizeof(Block), out += kBlock) {
    Block block;
    std::memcpy(&block, in, sizeof(Block));
    const float d = f16_to_f32(block.d);
    put_digits<32, 5>(block.qs, d, out);
    put_digits<16, 5>(block.qs + 32, d, out + 160);
    put_digits<4, 4>(block.qh, d, out + 240);
  }
}

}  // namespace sluice::quant::tq1_0

namespace sluice::quant {
namespace TQ1_0 = tq1_0;  // the row's name in types.inc
}
