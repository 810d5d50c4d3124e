// Rows of any weight or cache type as f32: included inside a tier. Values are those of the codecs in src/quant, bit for
// bit.
#pragma once
#include "backend/cpu/simd/generic/common.inl"
#include "quant/all_types.h"

namespace sluice::backend::cpu::SLUICE_TIER {
namespace {

inline uint16_t u16_at(const std::byte* p) {
  uint16_t v;
  __builtin_memcpy(&v, p, sizeof(v));
  return v;
}
inline uint64_t u64_at(const std::byte* p) {
  uint64_t v;
  __builtin_memcpy(&v, p, sizeof(v));
  return v;
}
constexpr uint64_t repeated(uint64_t byte) { return byte * 0x0101010101010101u; }

// 16 codes, as two words of 8, minus `offset`, times d.
inline void put_codes(float* out, uint64_t low, uint64_t high, float offset, float d) {
  const uint64_t words[2] = {low, high};
  store(out, mul(sub(from_i8(words), splat(offset)), splat(d)));
}

inline void row_from_q4_0(const std::byte* in, float* out, uint64_t k) {
  for (uint64_t b = 0; b < k / 32; ++b, in += 18, out += 32) {
    const float d = f16_value(u16_at(in));
    const uint64_t v0 = u64_at(in + 2), v1 = u64_at(in + 10), nibbles = repeated(15);
    put_codes(out, v0 & nibbles, v1 & nibbles, 8.0f, d);
    put_codes(out + 16, v0 >> 4 & nibbles, v1 >> 4 & nibbles, 8.0f, d);
  }
}

inline void row_from_q8_0(const std::byte* in, float* out, uint64_t k) {
  for (uint64_t b = 0; b < k / 32; ++b, in += 34, out += 32) {
    const F d = splat(f16_value(u16_at(in)));
    store(out, mul(from_i8(in + 2), d));
    store(out + 16, mul(from_i8(in + 18), d));
  }
}

// Q6_K's order is told in src/quant/q6_k.h. 16 weights have a scale of their own: i = 0 or 16 is the first.
template <int Part>
inline void q6_k_part(const std::byte* block, uint64_t half, uint64_t i, float d, float* out) {
  const std::byte *ql = block + half * 64 + Part % 2 * 32 + i, *qh = block + 128 + half * 32 + i;
  const auto code = [&](uint64_t at) {
    const uint64_t low = u64_at(ql + at) >> (Part / 2 * 4) & repeated(15);
    return low | (u64_at(qh + at) >> (Part * 2) & repeated(3)) << 4;
  };
  const auto scale = static_cast<int8_t>(block[192 + half * 8 + Part * 2 + i / 16]);
  put_codes(out + half * 128 + Part * 32 + i, code(0), code(8), 32.0f, d * static_cast<float>(scale));
}

inline void row_from_q6_k(const std::byte* in, float* out, uint64_t k) {
  for (uint64_t b = 0; b < k / 256; ++b, in += 210, out += 256) {
    const float d = f16_value(u16_at(in + 208));
    for (uint64_t half = 0; half < 2; ++half) {
      for (uint64_t i = 0; i < 32; i += 16) {
        q6_k_part<0>(in, half, i, d, out);
        q6_k_part<1>(in, half, i, d, out);
        q6_k_part<2>(in, half, i, d, out);
        q6_k_part<3>(in, half, i, d, out);
      }
    }
  }
}

template <class Load>
inline void row_from_halves(const std::byte* in, float* out, uint64_t k, Load load_16) {
  uint64_t i = 0;
  for (; i + 16 <= k; i += 16) store(out + i, load_16(in + 2 * i));
  if (i < k) {
    std::byte rest[32] = {};
    __builtin_memcpy(rest, in + 2 * i, 2 * (k - i));
    store_first(out + i, load_16(rest), static_cast<uint32_t>(k - i));
  }
}

// Of a type that has nothing of its own here.
inline void row_by_codec(Type type, const std::byte* in, float* out, uint64_t k) {
  switch (type) {
#define SLUICE_TYPE(name, id, block, bytes, header) \
  case Type::name:                                  \
    return quant::name::dequantize_row(in, out, k);
#include "sluice/types.inc"
#undef SLUICE_TYPE
  }
}

inline void row_to_f32(Type type, const std::byte* in, float* out, uint64_t k) {
  switch (type) {
    case Type::F32:
      __builtin_memcpy(out, in, k * sizeof(float));
      return;
    case Type::F16:
      return row_from_halves(in, out, k, [](const std::byte* p) { return from_f16(p); });
    case Type::BF16:
      return row_from_halves(in, out, k, [](const std::byte* p) { return from_bf16(p); });
    case Type::Q4_0:
      return row_from_q4_0(in, out, k);
    case Type::Q8_0:
      return row_from_q8_0(in, out, k);
    case Type::Q6_K:
      return row_from_q6_k(in, out, k);
    default:
      return row_by_codec(type, in, out, k);
  }
}

inline uint64_t row_bytes(Type type, uint64_t k) {
  switch (type) {
#define SLUICE_TYPE(name, id, block, bytes, header) \
  case Type::name:                                  \
    return k / (block) * (bytes);
#include "sluice/types.inc"
#undef SLUICE_TYPE
  }
  return 0;
}

}  // namespace
}  // namespace sluice::backend::cpu::SLUICE_TIER
