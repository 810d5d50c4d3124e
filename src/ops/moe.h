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
  uint32_t n_group = 0, n_group_used = 0, n_group_best = 0;  // n_group 0: experts are picked from all
  uint32_t activation = kernels::kSilu;                      // kernels/swiglu.h
};

struct MoeWeights {
  Weight router;               // (n_expert, n_embd) f32
  std::optional<Vector> bias;  // (n_expert); but for kGateSoftmaxPicked it does not enter the weights
  Weight gate, up, down;       // one matrix per expert; without gate (m 0) the activation is max(up, 0)^2
  // Experts between these two, narrower than the stream: (n_latent, n_embd) and (n_embd, n_latent).
  std::optional<Weight> latent_down, latent_up;
  std::optional<Vector> gate_bias, up_bias, down_bias;  // (n_expert, rows of the matrix): all or none
  std::optional<Vector> down_scale;                     // (n_expert), of what an expert gives
};

// Entries bucketed by expert: what moe_group gives.
struct Groups {
  std::shared_ptr<Block> offsets, order, tiles, grid;
  uint32_t tile_entries = 0;
  uint64_t max_tiles = 0;
};

// The kernels of experts for matrices that belong to heads: an entry is a head of a token, and takes that head's.
struct HeadEntries {
  uint32_t n_head = 0;
  std::shared_ptr<Block> head;  // u32 (n_tokens, n_head)
  std::optional<Groups> groups;
};
// For all layers of a step. `ids`: u32 (n_head), 0, 1, 2 ...; w: any of the stacks.
HeadEntries head_entries(Graph& g, uint64_t ids, uint32_t n_head, const Weight& w);
// y[t][head] = w[head] x[t][head]; x and y have n_head rows per token.
Tensor head_products(Graph& g, const Tensor& x, const Weight& w, const HeadEntries& heads);

// What moe_route picks by, computed on the host from a row of gate logits per token, for tools; minus infinity for
// experts outside the groups that are picked from. `bias` may be empty.
std::vector<float> selection_scores(std::span<const float> logits, std::span<const float> bias,
                                    const CapturedRouting& captured, uint32_t n_expert);

// Adds the layer's output to the residual stream, which must have nothing pending, or leaves it pending where it comes
// from a latent. `h` is its normalised input.
void moe_ffn(Graph& g, Residual& residual, const Tensor& h, const MoeWeights& w, const MoeRule& rule, uint32_t layer);
// The layer's output by itself. The router reads `routed_by`, the experts `h`.
Tensor moe_output(Graph& g, const Tensor& routed_by, const Tensor& h, const MoeWeights& w, const MoeRule& rule,
                  uint32_t layer);
// Adds sigmoid(gate h) * y to the residual stream, which must have nothing pending: a shared expert. `gate` is one row.
void add_gated(Graph& g, Residual& residual, const Tensor& h, const Weight& gate, const Tensor& y);

}  // namespace sluice::ops
