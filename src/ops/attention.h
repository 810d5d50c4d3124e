// Attention over the paged cache, and LFM2's short convolution: the two ways a layer looks back.
#pragma once
#include <optional>

#include "ops/graph.h"

namespace sluice::ops {

struct AttentionWeights {
  Weight q, k, v, o;
  std::optional<Vector> q_bias, k_bias, v_bias;
  std::optional<Vector> q_norm, k_norm;  // of each head, or of all heads as one row
};

struct AttentionShape {
  uint32_t n_head = 0, n_kv_head = 0;
  uint32_t d_k = 0, d_v = 0;
  float scale = 1;
  float eps = 0;       // of the q and k norms
  bool gated = false;  // q's rows are every head's query, then its gate: the sigmoid of that multiplies its output
};

// A rope table without pairs stands for no rotation.
Tensor attention(Graph& g, const Tensor& h, const AttentionWeights& w, const AttentionShape& shape,
                 const RopeTable& rope, uint32_t layer);

struct ShortConvWeights {
  Weight in, out;
  Vector conv;     // (n, l)
  uint32_t l = 0;  // taps
};

Tensor short_conv(Graph& g, const Tensor& h, const ShortConvWeights& w, uint32_t layer);

}  // namespace sluice::ops
