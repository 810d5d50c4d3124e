#include "ops/attention.h"

#include <algorithm>

#include "ops/linear.h"
#include "ops/norm.h"
#include "quant/quant.h"

namespace sluice::ops {
namespace {

// Steps of fewer tokens take attn_decode; the bits are the same.
constexpr uint32_t kPrefillTokens = 8;
// Steps of at least so many run on cooperative matrices, where a backend has them for the cache's types.
constexpr uint32_t kMatrixTokens = 32;
// Ranges of the cache that are summed side by side; beyond them groups take several.
constexpr uint32_t kMostRanges = 128;

// From value `first` of each head on.
void rope_heads(Graph& g, Tensor& x, uint32_t n_head, uint32_t d, const RopeTable& table, bool overlaps_previous,
                uint32_t first = 0) {
  kernels::RopeArgs args{};
  args.x = {x.f32->address + first * sizeof(float)};
  args.table = {table.address};
  args.step = g.step();
  args.n_head = n_head;
  args.d = d;
  args.n_rot = table.n_rot;
  args.style = table.style;
  g.launch({.id = KernelId::rope}, args, {(table.n_rot / 2 + 31) / 32, n_head, g.shape().n_tokens},
           {.f32_operations = 3.0 * g.shape().n_tokens * n_head * table.n_rot}, overlaps_previous);
}

void store(Graph& g, const Tensor& x, uint64_t cache, Type type, uint32_t n_kv_head, uint32_t d,
           bool overlaps_previous) {
  kernels::KvStoreArgs args{};
  args.cache = {cache};
  args.x = {x.f32->address};
  args.step = g.step();
  args.n_kv_head = n_kv_head;
  args.d = d;
  const double n_rows = static_cast<double>(g.shape().n_tokens) * n_kv_head;
  g.launch({.id = KernelId::kv_store, .type = type}, args, {n_kv_head, g.shape().n_tokens, 1},
           {.bytes = n_rows * static_cast<double>(quant::row_bytes(type, d))}, overlaps_previous);
}

// The cache is read once per step; scores, softmax and outputs are computed for every position that a token sees, of
// which a window leaves so many at most.
Cost attention_cost(const Graph& g, const AttentionShape& shape) {
  const uint64_t position_bytes = shape.n_kv_head * (quant::row_bytes(g.memory().type_k, shape.d_k) +
                                                     quant::row_bytes(g.memory().type_v, shape.d_v));
  uint64_t n_seen = g.shape().n_seen, n_cached = g.shape().n_cached;
  if (shape.window != 0) {
    n_seen = std::min(n_seen, uint64_t{shape.window} * g.shape().n_tokens);
    n_cached = std::min(n_cached, uint64_t{shape.window} * g.shape().n_seqs + g.shape().n_tokens);
  }
  const double pairs = static_cast<double>(n_seen) * shape.n_head;
  return {.bytes = static_cast<double>(n_cached * position_bytes),
          .f32_operations = pairs * (2.0 * shape.d_k + 2.0 * shape.d_v + 5.0)};
}

bool can_split(Graph& g, const AttentionShape& shape) {
  const Backend& backend = g.backend();
  // attn_prefill sums in another order.
  return backend.caps().wide && !backend.caps().deterministic && shape.d_k % 4 == 0 && shape.d_v % 4 == 0 &&
         backend.has({.id = KernelId::attn_split,
                      .type = g.memory().type_k,
                      .variant = static_cast<uint8_t>(g.memory().type_v)}) &&
         backend.has({.id = KernelId::attn_merge});
}

// attn_decode in two launches: ranges of the cache side by side, then their sum.
void split_attention(Graph& g, const kernels::AttnDecodeArgs& whole, Cost cost) {
  const uint32_t n_tokens = g.shape().n_tokens;
  const uint32_t n_ranges = std::max((g.memory().n_ctx + kernels::kRangeTokens - 1) / kernels::kRangeTokens, 1u);
  const auto part =
      g.allocate(uint64_t{n_tokens} * whole.n_head * n_ranges * (uint64_t{whole.d_v} + 2) * sizeof(float));
  kernels::AttnSplitArgs split{};
  split.part = {part->address};
  split.q = whole.q;
  split.k_cache = whole.k_cache;
  split.v_cache = whole.v_cache;
  split.step = whole.step;
  split.n_head = whole.n_head;
  split.n_kv_head = whole.n_kv_head;
  split.d_k = whole.d_k;
  split.d_v = whole.d_v;
  split.n_ranges = n_ranges;
  split.window = whole.window;
  split.scale = whole.scale;
  g.launch({.id = KernelId::attn_split, .type = g.memory().type_k, .variant = static_cast<uint8_t>(g.memory().type_v)},
           split, {whole.n_kv_head, n_tokens, std::min(n_ranges, kMostRanges)}, cost);
  kernels::AttnMergeArgs merge{};
  merge.out = whole.out;
  merge.part = split.part;
  merge.sinks = whole.sinks;
  merge.step = whole.step;
  merge.n_head = whole.n_head;
  merge.d_v = whole.d_v;
  merge.n_ranges = n_ranges;
  merge.window = whole.window;
  g.launch({.id = KernelId::attn_merge}, merge, {whole.n_head, n_tokens, 1});
}

// Multiplies every head of x by the sigmoid of its gate.
void sigmoid_gate(Graph& g, const Tensor& x, const Tensor& gates, const AttentionShape& shape) {
  kernels::SigmoidGateArgs args{};
  args.y = {x.f32->address};
  args.gate = {gates.f32->address + shape.d_k * sizeof(float)};
  args.step = g.step();
  args.n_head = shape.n_head;
  args.n = shape.d_v;
  args.pitch = 2 * shape.d_k;
  g.launch({.id = KernelId::sigmoid_gate}, args, {(args.n + 63) / 64, args.n_head, g.shape().n_tokens},
           {.f32_operations = 8.0 * g.shape().n_tokens * x.n});
}

}  // namespace

Tensor attention(Graph& g, const Tensor& h, const AttentionWeights& w, const AttentionShape& shape,
                 const RopeTable& rope, uint32_t layer) {
  g.set_stage(Stage::attention);
  const LayerState& state = g.memory().layers[layer];
  auto qkv = linears(g, h, {&w.q, &w.k, &w.v});
  Tensor &q = qkv[0], &k = qkv[1], &v = qkv[2];
  const Tensor gates = q;  // behind each head's query, where there are any
  if (w.q_bias) add_bias(g, q, *w.q_bias);
  if (w.k_bias) add_bias(g, k, *w.k_bias, w.q_bias.has_value());
  if (w.v_bias) add_bias(g, v, *w.v_bias, w.k_bias.has_value());
  if (shape.gated) {
    q = norm_heads_apart(g, gates, *w.q_norm, shape.n_head, shape.eps);
  } else if (w.q_norm) {
    rms_norm_heads(g, q, *w.q_norm, shape.eps);
  }
  if (w.k_norm) rms_norm_heads(g, k, *w.k_norm, shape.eps, w.q_norm.has_value());
  if (w.v_norm) rms_norm_heads(g, v, *w.v_norm, shape.eps, w.k_norm.has_value());
  if (rope.n_rot != 0) {
    rope_heads(g, q, shape.n_head, shape.d_k, rope, false);
    rope_heads(g, k, shape.n_kv_head, shape.d_k, rope, true);
  }
  store(g, k, state.k_cache, g.memory().type_k, shape.n_kv_head, shape.d_k, false);
  store(g, v, state.v_cache, g.memory().type_v, shape.n_kv_head, shape.d_v, true);

  const Tensor out = attend(g, q, w.sinks, shape, layer);
  if (shape.gated) sigmoid_gate(g, out, gates, shape);
  Tensor y = linear(g, out, w.o);
  if (w.o_bias) add_bias(g, y, *w.o_bias);
  return y;
}

Tensor attend(Graph& g, const Tensor& q, const std::optional<Vector>& sinks, const AttentionShape& shape,
              uint32_t layer) {
  const LayerState& state = g.memory().layers[layer];
  Tensor out = g.tensor({kernels::kRowsOfTokens, 1}, shape.n_head * shape.d_v);
  kernels::AttnDecodeArgs args{};
  args.out = {out.f32->address};
  args.q = {q.f32->address};
  args.k_cache = {state.k_cache};
  args.v_cache = {state.v_cache};
  if (sinks) args.sinks = {sinks->address};
  args.step = g.step();
  args.n_head = shape.n_head;
  args.n_kv_head = shape.n_kv_head;
  args.d_k = shape.d_k;
  args.d_v = shape.d_v;
  args.window = shape.window;
  args.scale = shape.scale;
  const uint32_t n_tokens = g.shape().n_tokens;
  const bool few = n_tokens < kPrefillTokens;
  if (few && can_split(g, shape)) {
    split_attention(g, args, attention_cost(g, shape));
    return out;
  }
  KernelKey key{.id = few ? KernelId::attn_decode : KernelId::attn_prefill,
                .type = g.memory().type_k,
                .variant = static_cast<uint8_t>(g.memory().type_v)};
  Grid grid{shape.n_kv_head, few ? n_tokens : (n_tokens + 15) / 16, 1};
  KernelKey on_matrices = key;
  on_matrices.variant |= backend::kMatrixVariant;
  const bool fits = std::max(shape.d_k, shape.d_v) <= 128 && shape.d_k % 16 == 0 && shape.d_v % 16 == 0;
  if (n_tokens >= kMatrixTokens && fits && g.backend().has(on_matrices)) {
    key = on_matrices;
    grid.y = (n_tokens * (shape.n_head / shape.n_kv_head) + 63) / 64;
  }
  g.launch(key, args, grid, attention_cost(g, shape));
  return out;
}

namespace {

// Heads as rows, or rows of all heads: the same values, whose 8- and 16-bit forms differ.
Tensor reshaped(const Tensor& x, Rows rows, uint32_t n) {
  Tensor y;
  y.f32 = x.f32;
  y.rows = rows;
  y.n = n;
  return y;
}

// (n_tokens, n_head, kv_rank + n_rot): the plain part of each head's query in terms of the cached vector, and the part
// that is rotated.
Tensor latent_query(Graph& g, const Tensor& q, const LatentWeights& w, const LatentShape& shape, const RopeTable& rope,
                    const HeadEntries& heads) {
  const Rows per_token{kernels::kRowsOfTokens, 1}, per_head{kernels::kRowsOfTokens, shape.n_head};
  const uint32_t d = shape.d_plain + shape.n_rot, d_k = shape.kv_rank + shape.n_rot;
  const Tensor plain = g.tensor(per_head, shape.d_plain);
  copy_columns(g, {plain.f32->address, shape.d_plain}, {q.f32->address, d}, per_head, shape.d_plain);
  const Tensor absorbed = head_products(g, plain, w.k_up, heads);
  Tensor query = g.tensor(per_token, shape.n_head * d_k);
  copy_columns(g, {query.f32->address, d_k}, {absorbed.f32->address, shape.kv_rank}, per_head, shape.kv_rank);
  copy_columns(g, {query.f32->address + shape.kv_rank * sizeof(float), d_k},
               {q.f32->address + shape.d_plain * sizeof(float), d}, per_head, shape.n_rot, true);
  rope_heads(g, query, shape.n_head, d_k, rope, false, shape.kv_rank);
  return query;
}

}  // namespace

Tensor latent_attention(Graph& g, const Tensor& h, const LatentWeights& w, const LatentShape& shape,
                        const RopeTable& rope, const HeadEntries& heads, uint32_t layer) {
  g.set_stage(Stage::attention);
  const LayerState& state = g.memory().layers[layer];
  const Rows per_token{kernels::kRowsOfTokens, 1}, per_head{kernels::kRowsOfTokens, shape.n_head};
  const uint32_t d_k = shape.kv_rank + shape.n_rot;
  auto projected = linears(g, h, {w.q_down ? &*w.q_down : &w.q, &w.kv, &w.k_rot});
  Tensor q = projected[0];
  if (w.q_down) q = linear(g, rms_norm(g, q, w.q_norm, shape.eps, {&w.q}), w.q);
  const Tensor query = latent_query(g, q, w, shape, rope, heads);

  const Tensor value = rms_norm(g, projected[1], w.kv_norm, shape.eps);
  Tensor key = g.tensor(per_token, d_k);
  copy_columns(g, {key.f32->address, d_k}, {value.f32->address, shape.kv_rank}, per_token, shape.kv_rank);
  copy_columns(g, {key.f32->address + shape.kv_rank * sizeof(float), d_k}, {projected[2].f32->address, shape.n_rot},
               per_token, shape.n_rot, true);
  rope_heads(g, key, 1, d_k, rope, false, shape.kv_rank);
  store(g, key, state.k_cache, g.memory().type_k, 1, d_k, false);
  store(g, value, state.v_cache, g.memory().type_v, 1, shape.kv_rank, true);

  const AttentionShape of_cache{
      .n_head = shape.n_head, .n_kv_head = 1, .d_k = d_k, .d_v = shape.kv_rank, .scale = shape.scale};
  const Tensor sums = attend(g, query, {}, of_cache, layer);
  const Tensor out = head_products(g, reshaped(sums, per_head, shape.kv_rank), w.v_up, heads);
  return linear(g, reshaped(out, per_token, shape.n_head * shape.d_v), w.o);
}

Tensor short_conv(Graph& g, const Tensor& h, const ShortConvWeights& w, uint32_t layer) {
  g.set_stage(Stage::convolution);
  const Tensor bcx = linear(g, h, w.in);
  Tensor y = g.tensor(h.rows, w.out.k);
  kernels::Conv1dArgs args{};
  args.y = {y.f32->address};
  args.x = {bcx.f32->address};
  args.w = {w.conv.address};
  args.state = {g.memory().layers[layer].recurrent};
  args.step = g.step();
  args.n = w.out.k;
  args.l = w.l;
  args.slot_stride = static_cast<uint32_t>(g.memory().slot_stride);
  args.n_rows = w.l - 1 + g.memory().n_rewind;
  args.stride = bcx.n;
  args.form = kernels::kConvGated;
  const double state_bytes = 2.0 * g.shape().n_seqs * (w.l - 1) * args.n * sizeof(float);  // read and replaced
  g.launch(
      {.id = KernelId::conv1d}, args, {(args.n + 63) / 64, g.shape().n_tokens, 1},
      {.bytes = 4.0 * args.n * w.l + state_bytes, .f32_operations = (2.0 * w.l + 2.0) * g.shape().n_tokens * args.n});
  return linear(g, y, w.out);
}

}  // namespace sluice::ops
