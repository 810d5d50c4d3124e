// Attention over the paged cache, and LFM2's short convolution: the two ways a layer looks back.
#pragma once
#include <optional>

#include "ops/graph.h"
#include "ops/moe.h"

namespace sluice::ops {

struct AttentionWeights {
  Weight q, k, v, o;
  std::optional<Vector> q_bias, k_bias, v_bias, o_bias;
  std::optional<Vector> sinks;           // (n_head): kernels/attn_decode.h
  std::optional<Vector> q_norm, k_norm;  // of each head, or of all heads as one row
  std::optional<Vector> v_norm;          // of each head
};

struct AttentionShape {
  uint32_t n_head = 0, n_kv_head = 0;
  uint32_t d_k = 0, d_v = 0;
  uint32_t window = 0;  // positions that a token sees, itself among them; 0: all
  float scale = 1;
  float eps = 0;       // of the q and k norms
  bool gated = false;  // q's rows are every head's query, then its gate: the sigmoid of that multiplies its output
};

// A rope table without pairs stands for no rotation.
Tensor attention(Graph& g, const Tensor& h, const AttentionWeights& w, const AttentionShape& shape,
                 const RopeTable& rope, uint32_t layer);

// The part of it that follows the projections: q is (n_tokens, n_head, d_k), and the cache holds the step's own keys
// and values. Returns (n_tokens, n_head, d_v).
Tensor attend(Graph& g, const Tensor& q, const std::optional<Vector>& sinks, const AttentionShape& shape,
              uint32_t layer);

// Attention whose keys and values are projections of one short vector per token (DeepSeek-AI 2024). The cache holds
// that vector, beside a part of the key that all heads share: a head's query takes the projection of its keys upon
// itself, and its values are projected after the sum.
struct LatentWeights {
  std::optional<Weight> q_down;  // (q_rank, n_embd): the query may come from a short vector, too
  Vector q_norm;                 // (q_rank)
  Weight q;                      // (n_head * (d_plain + n_rot), q_rank or n_embd)
  Weight kv, k_rot;              // (kv_rank, n_embd), (n_rot, n_embd)
  Vector kv_norm;                // (kv_rank)
  Weight k_up, v_up;             // of each head: (kv_rank, d_plain), (d_v, kv_rank)
  Weight o;                      // (n_embd, n_head * d_v)
};

struct LatentShape {
  uint32_t n_head = 0, d_plain = 0, n_rot = 0, d_v = 0, kv_rank = 0;
  float scale = 1;
  float eps = 0;  // of the norms
};

Tensor latent_attention(Graph& g, const Tensor& h, const LatentWeights& w, const LatentShape& shape,
                        const RopeTable& rope, const HeadEntries& heads, uint32_t layer);

struct ShortConvWeights {
  Weight in, out;
  Vector conv;     // (n, l)
  uint32_t l = 0;  // taps
};

Tensor short_conv(Graph& g, const Tensor& h, const ShortConvWeights& w, uint32_t layer);

}  // namespace sluice::ops
