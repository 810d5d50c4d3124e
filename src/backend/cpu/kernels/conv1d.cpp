#include <algorithm>
#include <cassert>
#include <cmath>

#include "backend/cpu/worker.h"

namespace sluice::backend::cpu::reference {
namespace {

constexpr uint64_t kChannels = 64;  // of one work item

// All tokens of one sequence, channels first .. first + n - 1. `window` holds the last l values of u of every channel
// as a ring of rows: row i % l is u at token i - (l - 1) of this step.
void convolve(const kernels::Conv1dArgs& a, const kernels::SeqSlice& seq, uint64_t first, uint64_t n, float* window) {
  const uint64_t l = a.l;
  float* state = ptr(a.state) + uint64_t{seq.state_slot} * a.slot_stride + first;
  for (uint64_t j = 0; j + 1 < l; ++j) {
    const uint64_t ahead = uint64_t{seq.first_pos} + j;  // of u's position, by l - 1
    const float* row = ahead < l - 1 ? nullptr : state + (ahead - (l - 1)) % a.n_rows * a.n;
    for (uint64_t i = 0; i < n; ++i) window[j * kChannels + i] = row == nullptr ? 0.0f : row[i];
  }
  for (uint64_t t = 0; t < seq.n_tokens; ++t) {
    const uint64_t token = seq.first_token + t;
    const float* x = ptr(a.x) + token * a.stride + first;
    float* y = ptr(a.y) + token * a.n + first;
    for (uint64_t i = 0; i < n; ++i) {
      const float u = a.form == kernels::kConvGated ? x[i] * x[2 * uint64_t{a.n} + i] : x[i];
      window[(t + l - 1) % l * kChannels + i] = u;
      if (t + a.n_rows >= seq.n_tokens) state[(seq.first_pos + t) % a.n_rows * a.n + i] = u;
      float sum = 0;
      for (uint64_t j = 0; j < l; ++j) sum += ptr(a.w)[(first + i) * l + j] * window[(t + j) % l * kChannels + i];
      if (a.form == kernels::kConvGated) {
        y[i] = x[uint64_t{a.n} + i] * sum;
      } else {
        sum += a.bias ? ptr(a.bias)[first + i] : 0.0f;
        y[i] = sum / (1.0f + std::exp(-sum));
      }
    }
  }
}

}  // namespace

void conv1d(const kernels::Conv1dArgs& a, Worker& w) {
  const kernels::StepState& step = *ptr(a.step);
  assert(a.l >= 1 && a.l * kChannels * sizeof(float) <= kScratchBytes);
  const uint64_t n_blocks = (a.n + kChannels - 1) / kChannels;
  for (Chunk c; w.claim(n_blocks * step.n_seqs, 1, c);) {
    for (uint64_t item = c.begin; item < c.end; ++item) {
      const uint64_t first = item % n_blocks * kChannels;
      convolve(a, ptr(step.seqs)[item / n_blocks], first, std::min(kChannels, a.n - first), w.scratch<float>());
    }
  }
}

}  // namespace sluice::backend::cpu::reference
