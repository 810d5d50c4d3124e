// Layers that look back through a state of fixed size: gated delta nets and Mamba-2. Both convolve first, so a slot
// holds two rings for each such layer: the convolution's inputs, then the states.
#pragma once
#include "ops/graph.h"

namespace sluice::ops {

struct DeltaNetShape {
  uint32_t n_key = 0, n_value = 0;  // heads
  uint32_t size = 0;                // of a key and of a value
  uint32_t n_taps = 0;
  uint32_t heads = kernels::kValueHeadsTiled;
  float eps = 0;

  uint32_t n_conv() const { return (2 * n_key + n_value) * size; }  // channels
  uint64_t state_floats() const { return uint64_t{n_value} * size * size; }
};

struct DeltaNetWeights {
  Weight qkv, z, out;
  Weight beta, alpha;  // (n_value, n_embd) each; of grouped heads beta holds both, and alpha is none
  Vector conv;         // (n_conv, n_taps)
  Vector a, dt_bias;   // (n_value)
  Vector norm;         // (size)
};

Tensor delta_net(Graph& g, const Tensor& h, const DeltaNetWeights& w, const DeltaNetShape& shape, uint32_t layer);

struct MambaShape {
  uint32_t n_head = 0, size = 0;      // of a head
  uint32_t n_group = 0, n_state = 0;  // B and C are common to a group of heads
  uint32_t n_taps = 0;
  float eps = 0;

  uint32_t n_inner() const { return n_head * size; }
  uint32_t n_conv() const { return n_inner() + 2 * n_group * n_state; }  // channels
  uint32_t n_in() const { return n_inner() + n_conv() + n_head; }        // z, x, B, C, dt
  uint64_t state_floats() const { return uint64_t{n_head} * n_state * size; }
};

struct MambaWeights {
  Weight in, out;
  Vector conv, conv_bias;  // (n_conv, n_taps), (n_conv)
  Vector dt_bias, a, d;    // (n_head)
  Vector norm;             // (n_group, n_inner / n_group)
};

Tensor mamba(Graph& g, const Tensor& h, const MambaWeights& w, const MambaShape& shape, uint32_t layer);

}  // namespace sluice::ops
