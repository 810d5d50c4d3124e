// The routed feed-forward layer: gate, route, expert products, weighted sum. No step of it waits for the host.
#pragma once
#include <optional>
#include <span>
#include <vector>

#include "ops/graph.h"
#include "ops/norm.h"

namespace sluice::ops {

// How gate logits become experts and weights; the rule of the kernel moe_route.
struct MoeRule {
  uint32_t gate = kernels::kGateSoftmaxAll;
  bool renormalise = true;
  float scale = 1;
  uint32_t n_expert = 0, n_used = 0;
};

struct MoeWeights {
  Weight router;               // (n_expert, n_embd) f32
  std::optional<Vector> bias;  // (n_expert), for the selection alone
  Weight gate, up, down;       // one matrix per expert; without gate (m 0) the activation is max(up, 0)^2
  // Experts between these two, narrower than the stream: (n_latent, n_embd) and (n_embd, n_latent).
  std::optional<Weight> latent_down, latent_up;
};

// What moe_route picks by, computed on the host from a row of gate logits per token, for tools. `bias` may be empty.
std::vector<float> selection_scores(std::span<const float> logits, std::span<const float> bias, uint32_t gate_rule,
                                    uint32_t n_expert);

// Adds the layer's output to the residual stream, which must have nothing pending, or leaves it pending where it comes
// from a latent. `h` is its normalised input.
void moe_ffn(Graph& g, Residual& residual, const Tensor& h, const MoeWeights& w, const MoeRule& rule, uint32_t layer);
// Adds sigmoid(gate h) * y to the residual stream, which must have nothing pending: a shared expert. `gate` is one row.
void add_gated(Graph& g, Residual& residual, const Tensor& h, const Weight& gate, const Tensor& y);

}  // namespace sluice::ops
