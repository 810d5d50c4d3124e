#include <algorithm>
#include <cmath>
#include <cstring>

#include "backend/cpu/worker.h"
#include "quant/half.h"

namespace sluice::backend::cpu::reference {

void quantize_f16(const kernels::QuantizeF16Args& a, Worker& w) {
  const uint64_t n = n_rows(*ptr(a.step), a.rows), n_halves = kernels::f16_row_halves(a.k);
  for (Chunk c; w.claim(n, w.quarter(n), c);) {
    for (uint64_t r = c.begin; r < c.end; ++r) {
      const float* x = ptr(a.x) + r * a.k;
      float largest = 0;
      for (uint32_t i = 0; i < a.k; ++i) {
        if (std::isfinite(x[i])) largest = std::max(largest, std::fabs(x[i]));
      }
      // frexp's exponent is one more than the bits'.
      int exponent = 0;
      std::frexp(largest, &exponent);
      const int e = largest == 0 ? 0 : std::max(exponent - 14, -126);
      auto* halves = reinterpret_cast<uint16_t*>(ptr_as<std::byte>(a.out) + r * kernels::f16_row_bytes(a.k));
      for (uint64_t i = 0; i < n_halves; ++i)
        halves[i] = i < a.k ? quant::f32_to_f16(std::ldexp(x[i], -e)) : uint16_t{0};
      const float unit = std::ldexp(1.0f, e);
      std::memcpy(halves + n_halves, &unit, sizeof(unit));
    }
  }
}

}  // namespace sluice::backend::cpu::reference
