#include <algorithm>
#include <cassert>
#include <cmath>

#include "backend/cpu/kernels/q8_row.h"
#include "backend/cpu/worker.h"

namespace sluice::backend::cpu::reference {
namespace {

float gated(float gate, float up, kernels::uint activation) {
  if (activation == kernels::kSilu) return gate / (1.0f + std::exp(-gate)) * up;
  if (activation == kernels::kGeluTanh) {
    const float u = kernels::kGeluSlope * (gate + kernels::kGeluCube * gate * gate * gate);
    return gate / (1.0f + std::exp(-2.0f * u)) * up;
  }
  const float g = std::min(gate, kernels::kSwigluLimit);
  const float u = std::clamp(up, -kernels::kSwigluLimit, kernels::kSwigluLimit);
  return g / (1.0f + std::exp(-kernels::kSwigluSlope * g)) * (u + 1.0f);
}

}  // namespace

void swiglu(const kernels::SwigluArgs& a, Worker& w) {
  const uint64_t n = a.n, rows = n_rows(*ptr(a.step), a.rows);
  assert(n * sizeof(float) <= kScratchBytes);
  for (Chunk c; w.claim(rows, w.quarter(rows), c);) {
    for (uint64_t r = c.begin; r < c.end; ++r) {
      const float *gate = ptr(a.gate) + r * n, *up = ptr(a.up) + r * n;
      float* y = a.y ? ptr(a.y) + r * n : w.scratch<float>();
      if (a.gate_bias) {
        const uint64_t bias = ptr(a.sel_expert)[r] * n;
        const float *gate_bias = ptr(a.gate_bias) + bias, *up_bias = ptr(a.up_bias) + bias;
        for (uint64_t i = 0; i < n; ++i) y[i] = gated(gate[i] + gate_bias[i], up[i] + up_bias[i], a.activation);
      } else {
        for (uint64_t i = 0; i < n; ++i) y[i] = gated(gate[i], up[i], a.activation);
      }
      if (a.y_q8) quantize_q8_row(y, n, ptr_as<std::byte>(a.y_q8) + r * kernels::q8_row_bytes(n));
    }
  }
}

}  // namespace sluice::backend::cpu::reference
