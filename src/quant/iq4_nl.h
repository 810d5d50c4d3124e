// IQ4_NL: blocks of 32 weights, 4 bits each that choose from a table whose steps grow towards its ends, one scale.
// weight = kValues[q] * d.
#pragma once
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "quant/fit.h"
#include "quant/half.h"

namespace sluice::quant::iq4_nl {

inline constexpr size_t kBlock = 32;
struct Block {
  uint16_t d;      // f16
  uint8_t qs[16];  // byte i: weight i in the low nibble, weight i + 16 in the high one
};
static_assert(sizeof(Block) == 18);

static constexpr int8_t kValues[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

// The code nearest to a scaled weight. NaN gives 0.
static inline uint8_t to_code(float scaled) {
  uint8_t code = 0;
  for (size_t i = 0; i < 15; ++i) {
    const float middle = 0.5f * static_cast<float>(kValues[i] + kValues[i + 1]);
    code = static_cast<uint8_t>(code + (scaled > middle ? 1 : 0));
  }
  return code;
}

static inline float block_scale(const float* x) {
  return fit_scale<kBlock>(x, -127.0f, 1.0f, 7,
                           [](float scaled) { return static_cast<float>(kValues[to_code(scaled)]); });
}

// The 32 codes of weights over their scale, as they lie in a block.
static inline void put_codes(const float* x, float scale, uint8_t* qs) {
  const float inverse = scale != 0.0f ? 1.0f / scale : 0.0f;
  for (size_t i = 0; i < 16; ++i) {
    const unsigned low = to_code(x[i] * inverse), high = to_code(x[i + 16] * inverse);
    qs[i] = static_cast<uint8_t>(low | high << 4);
  }
}
static inline void get_values(const uint8_t* qs, float scale, float* out) {
  for (size_t i = 0; i < 16; ++i) {
    out[i] = static_cast<float>(kValues[qs[i] & 15]) * scale;
    out[i + 16] = static_cast<float>(kValues[qs[i] >> 4]) * scale;
  }
}

static inline void quantize_row(const float* x, std::byte* out, size_t n) {
  assert(n % kBlock == 0);
  for (size_t b = 0; b < n / kBlock; ++b, x += kBlock, out += sizeof(Block)) {
    Block block;
    block.d = f32_to_f16(block_scale(x));
    put_codes(x, f16_to_f32(block.d), block.qs);
    std::memcpy(out, &block, sizeof(Block));
  }
}

static inline void dequantize_row(const std::byte* in, float* out, size_t n) {
  assert(n % kBlock == 0);
  for (size_t b = 0; b < n / kBlock; ++b, in += sizeof(Block), out += kBlock) {
    Block block;
    std::memcpy(&block, in, sizeof(Block));
    get_values(block.qs, f16_to_f32(block.d), out);
  }
}

}  // namespace sluice::quant::iq4_nl

namespace sluice::quant {
namespace IQ4_NL = iq4_nl;  // the row's name in types.inc
}
