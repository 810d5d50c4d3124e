// Rows of 8-bit activations as kernels/lib/q8.h lays them down, bit for bit.
#pragma once
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include "lib/q8.h"

namespace sluice::backend::cpu::reference {

// The three arrays of a row of k values. Rows are 4-byte aligned.
struct Q8Row {
  const int8_t* q;    // (k)
  const float* d;     // (k / 32)
  const int32_t* m8;  // (k / 16)

  Q8Row(const std::byte* row, size_t k)
      : q(reinterpret_cast<const int8_t*>(row)),
        d(reinterpret_cast<const float*>(row + k)),
        m8(reinterpret_cast<const int32_t*>(row + k + k / 8)) {}
};

// To 11 significant bits, ties to even.
static inline float q8_scale(float d) {
  uint32_t bits = std::bit_cast<uint32_t>(d);
  bits += 0xfffu + (bits >> 13 & 1u);
  return std::bit_cast<float>(bits & ~0x1fffu);
}

// 32 values to q; returns d.
static inline float quantize_q8_block(const float* x, int8_t* q) {
  float largest = 0.0f;
  bool finite = true;
  for (size_t i = 0; i < 32; ++i) {
    finite = finite && std::isfinite(x[i]);
    largest = std::fabs(x[i]) > largest ? std::fabs(x[i]) : largest;
  }
  const float inverse = 127.0f / largest;
  if (!finite || std::isinf(inverse)) {
    std::memset(q, 0, 32);
    return finite ? 0.0f : std::numeric_limits<float>::quiet_NaN();
  }
  for (size_t i = 0; i < 32; ++i) q[i] = static_cast<int8_t>(std::nearbyint(x[i] * inverse));
  return q8_scale(largest / 127.0f);
}

// Values 32 b .. 32 b + 31 of a row of k.
static inline void quantize_q8_part(const float* x, size_t k, size_t b, std::byte* row) {
  int8_t* q = reinterpret_cast<int8_t*>(row) + b * 32;
  reinterpret_cast<float*>(row + k)[b] = quantize_q8_block(x, q);
  int32_t* m8 = reinterpret_cast<int32_t*>(row + k + k / 8) + b * 2;
  m8[0] = m8[1] = 0;
  for (size_t i = 0; i < 32; ++i) m8[i / 16] -= 8 * q[i];
}

static inline void quantize_q8_row(const float* x, size_t k, std::byte* row) {
  for (size_t b = 0; b < k / 32; ++b) quantize_q8_part(x + b * 32, k, b, row);
}

}  // namespace sluice::backend::cpu::reference
