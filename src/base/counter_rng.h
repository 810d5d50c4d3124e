// Random numbers from a counter: the same (seed, position, stream) gives the same number on every backend, in any
// order.
#pragma once
#include <array>
#include <cstdint>

namespace sluice {

// Philox4x32-10 (Salmon et al., 2011): 32-bit multiplies and xors only, so that a kernel computes it as cheaply.
constexpr std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53u} * counter[0];
    const uint64_t b = uint64_t{0xCD9E8D57u} * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(a)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

// Uniform in [0, 1), a multiple of 2^-24: exact in f32 and in f64, so a draw compares equally on host and device.
// `stream` keeps independent uses of one seed apart (0: the sampler's draw).
constexpr float counter_uniform(uint64_t seed, uint64_t position, uint64_t stream = 0) {
  const std::array<uint32_t, 4> bits =
      philox4x32({static_cast<uint32_t>(position), static_cast<uint32_t>(position >> 32), static_cast<uint32_t>(stream),
                  static_cast<uint32_t>(stream >> 32)},
                 {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  return static_cast<float>(bits[0] >> 8) * 0x1p-24f;
}

}  // namespace sluice
