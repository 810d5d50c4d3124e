// Activations to 8 bits, and what comes right before that: included inside a tier.
#pragma once
#include "backend/cpu/simd/generic/common.inl"

namespace sluice::backend::cpu::SLUICE_TIER {
namespace {

// To 11 significant bits, ties to even.
inline float to_11_bits(float x) {
  uint32_t bits;
  __builtin_memcpy(&bits, &x, sizeof(bits));
  bits = (bits + 0xfffu + (bits >> 13 & 1u)) & ~0x1fffu;
  __builtin_memcpy(&x, &bits, sizeof(x));
  return x;
}

// 32 values to 8 bits, block `block` of a q8 row of k values.
inline void quantize_block(F a, F b, std::byte* row, uint64_t k, uint64_t block) {
  const uint32_t bits = largest_bits(a, b);
  float largest;
  __builtin_memcpy(&largest, &bits, sizeof(largest));
  float inverse = 127.0f / largest, d = to_11_bits(largest / 127.0f);
  const bool finite = bits < 0x7f800000u;
  if (!finite || !(inverse <= FLT_MAX)) {
    inverse = d = 0.0f;
    a = b = zero();
    if (!finite) d = __builtin_nanf("");
  }
  std::byte* q = row + 32 * block;
  const int32_t m8[2] = {-8 * to_i8(q, round(mul(a, splat(inverse)))),
                         -8 * to_i8(q + 16, round(mul(b, splat(inverse))))};
  __builtin_memcpy(row + k + 4 * block, &d, sizeof(d));
  __builtin_memcpy(row + k + k / 8 + 8 * block, m8, sizeof(m8));
}

// silu(gate) * up
inline F silu_times(F gate, F up) { return mul(div(gate, add(splat(1.0f), exp_of(sub(zero(), gate)))), up); }

}  // namespace
}  // namespace sluice::backend::cpu::SLUICE_TIER
