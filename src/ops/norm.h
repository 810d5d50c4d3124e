// RMSNorm, alone or with the addition to the residual stream that comes before it.
#pragma once
#include <initializer_list>
#include <optional>

#include "ops/graph.h"

namespace sluice::ops {

// The sum that every layer adds to. What a layer returns stays pending until the next norm, which adds it in passing.
struct Residual {
  Tensor x;
  std::optional<Tensor> pending;
};

// norm(residual) in the forms that `readers` want (all of them matrices that multiply it); with no readers f32.
Tensor rms_norm(Graph& g, Residual& residual, const Vector& w, float eps,
                std::initializer_list<const Weight*> readers = {});
// A plain tensor's rows.
Tensor rms_norm(Graph& g, const Tensor& x, const Vector& w, float eps,
                std::initializer_list<const Weight*> readers = {});
// The same written as f32 to memory that outlives the graph.
void rms_norm_into(Graph& g, const Tensor& x, const Vector& w, float eps, uint64_t y);
// Each of `x`'s heads by itself, in place: x is (rows, n_head, d), w is (d); or (n_head * d), all of them as one row.
void rms_norm_heads(Graph& g, Tensor& x, const Vector& w, float eps, bool overlaps_previous = false);
// Each head of tokens' rows by itself, compacted: in x a head's w.n values come first and others follow them.
Tensor norm_heads_apart(Graph& g, const Tensor& x, const Vector& w, uint32_t n_head, float eps);
// Heads of x normed, and multiplied by silu(z) before or after that; z has z_stride floats for each token, and w
// weights for all heads in common or for each.
struct HeadGate {
  uint64_t z = 0;
  uint32_t z_stride = 0;
  bool first = false;
};
Tensor gated_norm(Graph& g, const Tensor& x, const Vector& w, uint32_t n_head, float eps, const HeadGate& gate);
// Adds b to every row of x, in place.
void add_bias(Graph& g, Tensor& x, const Vector& b, bool overlaps_previous = false);
// Adds what is pending.
void settle(Graph& g, Residual& residual);

}  // namespace sluice::ops
