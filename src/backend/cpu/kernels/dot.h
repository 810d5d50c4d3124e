// The dot product of the f32 references.
#pragma once
#include <cstddef>

namespace sluice::backend::cpu::reference {

// sum_i a[i] * b[i]: partial sum j takes i = j, j + 16, ...; then neighbours at a distance of 8, 4, 2, 1 are added.
// Sixteen chains err less than one, and compilers turn them into vectors without leave to reorder.
static inline float dot(const float* a, const float* b, size_t n) {
  float part[16] = {};
  size_t i = 0;
  for (; i + 16 <= n; i += 16) {
    for (size_t j = 0; j < 16; ++j) part[j] += a[i + j] * b[i + j];
  }
  for (size_t j = 0; j < n % 16; ++j) part[j] += a[i + j] * b[i + j];
  for (size_t step = 8; step > 0; step /= 2) {
    for (size_t j = 0; j < step; ++j) part[j] += part[j + step];
  }
  return part[0];
}

}  // namespace sluice::backend::cpu::reference
