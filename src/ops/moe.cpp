#include "ops/moe.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include "ops/linear.h"

namespace sluice::ops {
namespace {

// From this many tokens on, entries are grouped by expert, so that an expert's weights are read once per step.
constexpr uint32_t kGroupTokens = 2;
constexpr uint32_t kTileEntries = 16;

// Picks experts and weights; sel and weight are (n_tokens, n_used).
void route(Graph& g, const Tensor& logits, const MoeWeights& w, const MoeRule& rule, uint32_t layer, uint64_t sel,
           uint64_t weight) {
  kernels::MoeRouteArgs args{};
  args.sel_expert = {sel};
  args.weight = {weight};
  args.logits = {logits.f32->address};
  if (w.bias) args.bias = {w.bias->address};
  if (const auto it = g.forced.find(layer); it != g.forced.end()) args.forced = {it->second->address};
  args.step = g.step();
  args.n_expert = rule.n_expert;
  args.n_used = rule.n_used;
  args.gate = rule.gate;
  args.renormalise = rule.renormalise ? 1 : 0;
  args.n_group = rule.n_group;
  args.n_group_used = rule.n_group_used;
  args.n_group_best = rule.n_group_best;
  args.scale = rule.scale;
  const double compares = static_cast<double>(g.shape().n_tokens) * rule.n_expert * rule.n_used;
  g.launch({.id = KernelId::moe_route}, args, {g.shape().n_tokens, 1, 1},
           {.bytes = w.bias ? 4.0 * rule.n_expert : 0, .f32_operations = compares});
}

bool on_matrices(Graph& g, const Weight& w) { return on_matrices(g, w, KernelId::moe_gemm, g.shape().n_tokens); }

// In tiles as the gate's matrix wants them, for the grid of its product.
Groups group(Graph& g, const MoeRule& rule, uint64_t sel, const Weight& gate) {
  const uint64_t n_entries = uint64_t{g.shape().n_tokens} * rule.n_used;
  Groups groups;
  groups.tile_entries = on_matrices(g, gate) ? backend::kMatrixTile : kTileEntries;
  groups.max_tiles =
      (n_entries + (groups.tile_entries - 1) * std::min<uint64_t>(rule.n_expert, n_entries)) / groups.tile_entries;
  groups.offsets = g.allocate((uint64_t{rule.n_expert} + 1) * sizeof(uint32_t));
  groups.order = g.allocate(n_entries * sizeof(uint32_t));
  groups.tiles = g.allocate(groups.max_tiles * 2 * sizeof(uint32_t));
  groups.grid = g.allocate(3 * sizeof(uint32_t));
  kernels::MoeGroupArgs args{};
  args.offsets = {groups.offsets->address};
  args.order = {groups.order->address};
  args.tiles = {groups.tiles->address};
  args.grid = {groups.grid->address};
  args.sel_expert = {sel};
  args.step = g.step();
  args.n_expert = rule.n_expert;
  args.n_used = rule.n_used;
  args.tile_entries = groups.tile_entries;
  args.grid_x = (gate.m + groups.tile_entries - 1) / groups.tile_entries;
  g.launch({.id = KernelId::moe_group}, args, {1, 1, 1});
  return groups;
}

// Experts that a step of n tokens is expected to use: each token picks n_used different ones, all equally often.
double distinct_experts(const MoeRule& rule, double n_tokens) {
  const double unused = 1 - static_cast<double>(rule.n_used) / rule.n_expert;
  return rule.n_expert * (1 - std::pow(unused, n_tokens));
}

struct ExpertProduct {
  const Weight& w;
  uint64_t x;       // f32 or q8 rows, as w wants them
  bool x_by_entry;  // false: a row per token; true: a row per entry
  uint64_t y;       // (n_entries, m)
  bool sizes_grid;  // its row groups are those of moe_group's grid
};

void expert_product(Graph& g, const ExpertProduct& p, const MoeRule& rule, uint64_t sel, const Groups* groups,
                    bool overlaps_previous) {
  const uint64_t n_entries = uint64_t{g.shape().n_tokens} * rule.n_used;
  const Cost cost = product_cost(p.w, distinct_experts(rule, g.shape().n_tokens), static_cast<double>(n_entries));
  if (groups == nullptr) {
    kernels::MoeGemvArgs args{};
    args.y = {p.y};
    args.x = {p.x};
    args.expert_addr = {p.w.expert_table};
    args.sel_expert = {sel};
    args.step = g.step();
    args.m = p.w.m;
    args.k = p.w.k;
    args.n_used = rule.n_used;
    args.n_expert = rule.n_expert;
    args.x_by_entry = p.x_by_entry ? 1 : 0;
    g.launch({.id = KernelId::moe_gemv, .type = p.w.type, .layout = p.w.layout}, args,
             {(p.w.m + 7) / 8, static_cast<uint32_t>(n_entries), 1}, cost, overlaps_previous);
    return;
  }
  kernels::MoeGemmArgs args{};
  args.y = {p.y};
  args.x = {p.x};
  args.expert_addr = {p.w.expert_table};
  args.offsets = {groups->offsets->address};
  args.order = {groups->order->address};
  args.tiles = {groups->tiles->address};
  args.grid = {groups->grid->address};
  args.step = g.step();
  args.m = p.w.m;
  args.k = p.w.k;
  args.n_used = rule.n_used;
  args.n_expert = rule.n_expert;
  args.x_by_entry = p.x_by_entry ? 1 : 0;
  args.tile_entries = groups->tile_entries;
  const bool matrices = on_matrices(g, p.w);
  const uint32_t tile = matrices ? backend::kMatrixTile : 16;
  Launch& launch =
      g.launch({.id = KernelId::moe_gemm,
                .type = p.w.type,
                .layout = p.w.layout,
                .variant = matrices ? backend::kMatrixVariant : uint8_t{0}},
               args, {(p.w.m + tile - 1) / tile, static_cast<uint32_t>(groups->max_tiles), 1}, cost, overlaps_previous);
  if (p.sizes_grid) launch.grid_dev = groups->grid->address;
}

// What adapters add to the products of every entry's expert with w, at y. x: a row per token, or per entry.
void add_low_rank(Graph& g, const Weight& w, const Tensor& x, bool x_by_entry, uint64_t y, const MoeRule& rule,
                  uint64_t sel, const Groups* groups) {
  if (!w.low_rank) return;
  for (const LowRank& part : *w.low_rank) {
    const Rows entries{kernels::kRowsOfTokens, rule.n_used};
    const Tensor inner = g.tensor(entries, part.a.m), outer = g.tensor(entries, part.b.m);
    expert_product(g, {part.a, x.f32->address, x_by_entry, inner.f32->address, false}, rule, sel, groups, false);
    expert_product(g, {part.b, inner.f32->address, true, outer.f32->address, false}, rule, sel, groups, false);
    add_to(g, y, outer);
  }
}

// silu(gate) * up of every entry's expert, in the form that the down projection wants.
Tensor gated_experts(Graph& g, const Tensor& h, const MoeWeights& w, const MoeRule& rule, uint64_t sel,
                     const Groups* groups) {
  const Rows entries{kernels::kRowsOfTokens, rule.n_used};
  const bool plain = rule.activation == kernels::kSilu && !w.gate_bias;
  if (!plain || on_matrices(g, w.gate) ||
      !can_fuse(g, w.gate, w.up, w.down, KernelId::moe_gate_up, groups == nullptr)) {
    const uint64_t x_gate = input_for(g, h, w.gate, on_matrices(g, w.gate));
    const uint64_t x_up = input_for(g, h, w.up, on_matrices(g, w.up));
    const Tensor gate = g.tensor(entries, w.gate.m), up = g.tensor(entries, w.up.m);
    expert_product(g, {w.gate, x_gate, false, gate.f32->address, true}, rule, sel, groups, false);
    expert_product(g, {w.up, x_up, false, up.f32->address, true}, rule, sel, groups, true);
    add_low_rank(g, w.gate, h, false, gate.f32->address, rule, sel, groups);
    add_low_rank(g, w.up, h, false, up.f32->address, rule, sel, groups);
    Gating how{.activation = rule.activation};
    if (w.gate_bias) how = {rule.activation, w.gate_bias->address, w.up_bias->address, sel};
    return swiglu(g, gate, up, w.down, how);
  }
  kernels::MoeGateUpArgs args{};
  args.x = {input_for(g, h, w.gate)};
  Tensor y = gated_output(g, entries, w.gate.m, w.down);
  if (y.f32) args.y = {y.f32->address};
  if (*y.q8) args.y_q8 = {(*y.q8)->address};
  args.gate_addr = {w.gate.expert_table};
  args.up_addr = {w.up.expert_table};
  args.sel_expert = {sel};
  if (groups != nullptr) {
    args.offsets = {groups->offsets->address};
    args.order = {groups->order->address};
  }
  args.step = g.step();
  args.m = w.gate.m;
  args.k = w.gate.k;
  args.n_used = rule.n_used;
  args.n_expert = rule.n_expert;
  const auto n_entries = static_cast<uint32_t>(g.max_rows(entries));
  g.launch({.id = KernelId::moe_gate_up, .type = w.gate.type, .layout = w.gate.layout}, args,
           {(w.gate.m + 3) / 4, n_entries, 1},
           product_cost(w.gate, 2 * distinct_experts(rule, g.shape().n_tokens), 2.0 * n_entries));
  return y;
}

// max(up, 0)^2 of every entry's expert.
Tensor plain_experts(Graph& g, const Tensor& h, const MoeWeights& w, const MoeRule& rule, uint64_t sel,
                     const Groups* groups) {
  const Tensor up = g.tensor({kernels::kRowsOfTokens, rule.n_used}, w.up.m);
  expert_product(g, {w.up, input_for(g, h, w.up, on_matrices(g, w.up)), false, up.f32->address, true}, rule, sel,
                 groups, false);
  add_low_rank(g, w.up, h, false, up.f32->address, rule, sel, groups);
  return relu_squared(g, up, w.down);
}

// The weighted sum of every token's n_used rows of z, written to `out` or added to what is there; each row with the
// bias and the scale of its expert where there are any.
void combine(Graph& g, const Tensor& out, bool accumulate, const Tensor& z, uint64_t weight, uint32_t n_used,
             const std::optional<Vector>& bias = {}, const std::optional<Vector>& scale = {}, uint64_t sel = 0) {
  kernels::MoeCombineArgs args{};
  args.out = {out.f32->address};
  args.z = {z.f32->address};
  args.weight = {weight};
  if (bias) args.bias = {bias->address};
  if (scale) args.scale = {scale->address};
  if (bias || scale) args.sel_expert = {sel};
  args.step = g.step();
  args.m = z.n;
  args.n_used = n_used;
  args.accumulate = accumulate ? 1 : 0;
  g.launch({.id = KernelId::moe_combine}, args, {(args.m + 63) / 64, g.shape().n_tokens, 1},
           {.f32_operations = 2.0 * g.shape().n_tokens * n_used * args.m});
}

// Experts outside the groups that a token picks from get minus infinity: see kernels/moe_route.h.
void leave_out_groups(std::span<float> score, const CapturedRouting& captured) {
  const size_t size = score.size() / captured.n_group;
  std::vector<std::pair<float, size_t>> groups;  // minus the group's score
  for (size_t i = 0; i < captured.n_group; ++i) {
    std::vector<float> best(score.begin() + static_cast<ptrdiff_t>(i * size),
                            score.begin() + static_cast<ptrdiff_t>((i + 1) * size));
    std::sort(best.begin(), best.end(), std::greater<>());
    groups.emplace_back(-(captured.n_group_best == 2 && size > 1 ? best[0] + best[1] : best[0]), i);
  }
  std::sort(groups.begin(), groups.end());
  for (size_t i = captured.n_group_used; i < groups.size(); ++i) {
    const std::span<float> left_out = score.subspan(groups[i].second * size, size);
    std::fill(left_out.begin(), left_out.end(), -std::numeric_limits<float>::infinity());
  }
}

// The weighted sum of what the picked experts make of x, written to `out` or added to what is there.
void run_experts(Graph& g, const Tensor& out, bool accumulate, const Tensor& routed_by, const Tensor& x,
                 const MoeWeights& w, const MoeRule& rule, uint32_t layer) {
  const uint64_t n_entries = uint64_t{g.shape().n_tokens} * rule.n_used;
  const Rows entries{kernels::kRowsOfTokens, rule.n_used};

  g.set_stage(Stage::gate);
  const Tensor logits = linear(g, routed_by, w.router);
  auto sel = g.allocate(n_entries * sizeof(uint32_t));
  auto weight = g.allocate(n_entries * sizeof(float));
  route(g, logits, w, rule, layer, sel->address, weight->address);
  if (g.capture) {
    g.captured.push_back({layer, sel, weight, logits.f32, w.bias ? w.bias->address : 0, rule.gate, rule.n_group,
                          rule.n_group_used, rule.n_group_best});
  }

  g.set_stage(Stage::experts);
  std::optional<Groups> groups;
  const bool gated = w.gate.m != 0;
  if (g.shape().n_tokens >= kGroupTokens) groups = group(g, rule, sel->address, gated ? w.gate : w.up);
  const Groups* grouped = groups ? &*groups : nullptr;
  const Tensor hidden =
      gated ? gated_experts(g, x, w, rule, sel->address, grouped) : plain_experts(g, x, w, rule, sel->address, grouped);
  const Tensor z = g.tensor(entries, w.down.m);
  const uint64_t x_down = input_for(g, hidden, w.down, on_matrices(g, w.down));
  expert_product(g, {w.down, x_down, true, z.f32->address, false}, rule, sel->address, grouped, false);
  add_low_rank(g, w.down, hidden, true, z.f32->address, rule, sel->address, grouped);
  combine(g, out, accumulate, z, weight->address, rule.n_used, w.down_bias, w.down_scale, sel->address);
  g.set_stage(Stage::rest);
}

}  // namespace

std::vector<float> selection_scores(std::span<const float> logits, std::span<const float> bias,
                                    const CapturedRouting& captured, uint32_t n_expert) {
  const uint32_t gate_rule = captured.gate_rule;
  std::vector<float> scores(logits.begin(), logits.end());
  for (size_t row = 0; row + n_expert <= scores.size(); row += n_expert) {
    const std::span<float> score(&scores[row], n_expert);
    if (gate_rule == kernels::kGateSoftmaxAll) {
      const float most = *std::max_element(score.begin(), score.end());
      double sum = 0;
      for (float& s : score) sum += double{s = std::exp(s - most)};
      for (float& s : score) s = static_cast<float>(double{s} / sum);
    }
    if (gate_rule == kernels::kGateSigmoid) {
      for (float& s : score) s = 1 / (1 + std::exp(-s));
    }
    for (size_t e = 0; e < bias.size(); ++e) score[e] += bias[e];
    if (captured.n_group != 0) leave_out_groups(score, captured);
  }
  return scores;
}

void moe_ffn(Graph& g, Residual& residual, const Tensor& h, const MoeWeights& w, const MoeRule& rule, uint32_t layer) {
  assert(!residual.pending);
  if (!w.latent_up) return run_experts(g, residual.x, true, h, h, w, rule, layer);
  g.set_stage(Stage::experts);
  const Tensor x = linear(g, h, *w.latent_down), out = g.tensor(h.rows, w.down.m);
  run_experts(g, out, false, h, x, w, rule, layer);
  residual.pending = linear(g, out, *w.latent_up);
}

Tensor moe_output(Graph& g, const Tensor& routed_by, const Tensor& h, const MoeWeights& w, const MoeRule& rule,
                  uint32_t layer) {
  Tensor out = g.tensor(h.rows, w.down.m);
  run_experts(g, out, false, routed_by, h, w, rule, layer);
  return out;
}

HeadEntries head_entries(Graph& g, uint64_t ids, uint32_t n_head, const Weight& w) {
  HeadEntries heads;
  heads.n_head = n_head;
  heads.head = g.allocate(uint64_t{g.shape().n_tokens} * n_head * sizeof(uint32_t));
  copy_columns(g, {heads.head->address, n_head}, {ids, 0}, {kernels::kRowsOfTokens, 1}, n_head);
  const MoeRule rule{.n_expert = n_head, .n_used = n_head};
  if (g.shape().n_tokens >= kGroupTokens) heads.groups = group(g, rule, heads.head->address, w);
  return heads;
}

Tensor head_products(Graph& g, const Tensor& x, const Weight& w, const HeadEntries& heads) {
  const MoeRule rule{.n_expert = heads.n_head, .n_used = heads.n_head};
  const uint64_t input = input_for(g, x, w, on_matrices(g, w));
  Tensor y = g.tensor({kernels::kRowsOfTokens, heads.n_head}, w.m);
  const Groups* groups = heads.groups ? &*heads.groups : nullptr;
  expert_product(g, {w, input, true, y.f32->address, false}, rule, heads.head->address, groups, false);
  add_low_rank(g, w, x, true, y.f32->address, rule, heads.head->address, groups);
  return y;
}

// One expert that is always picked: moe_route gives the sigmoid, moe_combine takes it as the expert's weight.
void add_gated(Graph& g, Residual& residual, const Tensor& h, const Weight& gate, const Tensor& y) {
  assert(!residual.pending && gate.m == 1);
  const Tensor logits = linear(g, h, gate);
  auto sel = g.allocate(uint64_t{g.shape().n_tokens} * sizeof(uint32_t));
  auto weight = g.allocate(uint64_t{g.shape().n_tokens} * sizeof(float));
  kernels::MoeRouteArgs args{};
  args.sel_expert = {sel->address};
  args.weight = {weight->address};
  args.logits = {logits.f32->address};
  args.step = g.step();
  args.n_expert = args.n_used = 1;
  args.gate = kernels::kGateSigmoid;
  args.scale = 1;
  g.launch({.id = KernelId::moe_route}, args, {g.shape().n_tokens, 1, 1});
  combine(g, residual.x, true, y, weight->address, 1);
}

}  // namespace sluice::ops
