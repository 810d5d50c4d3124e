#include "ops/linear.h"

#include <cassert>

#include "quant/quant.h"

namespace sluice::ops {
namespace {

// Fewer rows leave most of a tile unused; they also keep the bits that they have one by one.
constexpr uint64_t kMatrixRows = 32;

// Of matrices with so few rows, such as a router, tiles are too few to keep a GPU busy: a group per row of x does.
constexpr uint32_t kNarrow = 64;

bool on_matrices(Graph& g, const Tensor& x, const Weight& w) {
  return ops::on_matrices(g, w, KernelId::gemm, g.max_rows(x.rows));
}

void product(Graph& g, const Tensor& x, uint64_t input, const Weight& w, uint64_t y, bool overlaps_previous) {
  assert(x.n == w.k);
  kernels::GemvArgs args{};
  args.y = {y};
  args.x = {input};
  args.w = {w.address};
  args.step = g.step();
  args.rows = x.rows;
  args.m = w.m;
  args.k = w.k;
  const uint64_t rows = g.max_rows(x.rows);
  const bool matrices = on_matrices(g, x, w), narrow = w.m <= kNarrow && !g.backend().caps().unified;
  const bool few = !matrices && (rows <= kGemvRows || narrow);
  const uint32_t tile = matrices ? backend::kMatrixTile : 16;
  const Grid grid = few ? Grid{(w.m + 7) / 8, static_cast<uint32_t>(rows), 1}
                        : Grid{(w.m + tile - 1) / tile, static_cast<uint32_t>((rows + tile - 1) / tile), 1};
  g.launch({.id = few ? KernelId::gemv : KernelId::gemm,
            .type = w.type,
            .layout = w.layout,
            .variant = matrices ? backend::kMatrixVariant : uint8_t{0}},
           args, grid, product_cost(w, 1, static_cast<double>(rows)), overlaps_previous);
}

// What adapters add to the product at y.
void add_low_rank(Graph& g, const Tensor& x, const Weight& w, uint64_t y) {
  if (!w.low_rank) return;
  for (const LowRank& part : *w.low_rank) add_to(g, y, linear(g, linear(g, x, part.a), part.b));
}

uint64_t f16_rows(Graph& g, const Tensor& x) {
  if (!*x.f16) {
    const uint64_t rows = g.max_rows(x.rows);
    *x.f16 = g.allocate(rows * kernels::f16_row_bytes(x.n));
    kernels::QuantizeF16Args args{};
    args.out = {(*x.f16)->address};
    args.x = {x.f32->address};
    args.step = g.step();
    args.rows = x.rows;
    args.k = x.n;
    g.launch({.id = KernelId::quantize_f16}, args, {1, static_cast<uint32_t>(rows), 1},
             {.f32_operations = 2.0 * static_cast<double>(rows) * x.n});
  }
  return (*x.f16)->address;
}

}  // namespace

Cost product_cost(const Weight& w, double n_matrices, double rows) {
  Cost cost{.bytes = n_matrices * static_cast<double>(w.matrix_bytes)};
  (w.wants_q8() ? cost.int8_operations : cost.f32_operations) = 2.0 * w.m * w.k * rows;
  return cost;
}

bool on_matrices(Graph& g, const Weight& w, KernelId id, uint64_t rows) {
  if (rows < kMatrixRows || w.k % 32 != 0) return false;
  return g.backend().has({.id = id, .type = w.type, .layout = w.layout, .variant = backend::kMatrixVariant});
}

uint64_t input_for(Graph& g, const Tensor& x, const Weight& w, bool matrices) {
  if (matrices) return f16_rows(g, x);
  if (!w.wants_q8()) {
    assert(x.f32);
    return x.f32->address;
  }
  if (!*x.q8) {
    *x.q8 = g.allocate(g.max_rows(x.rows) * kernels::q8_row_bytes(x.n));
    kernels::QuantizeQ8Args args{};
    args.out = {(*x.q8)->address};
    args.x = {x.f32->address};
    args.step = g.step();
    args.rows = x.rows;
    args.k = x.n;
    const double elements = static_cast<double>(g.max_rows(x.rows)) * x.n;
    g.launch({.id = KernelId::quantize_q8}, args, {x.n / 32, static_cast<uint32_t>(g.max_rows(x.rows)), 1},
             {.f32_operations = 4 * elements});
  }
  return (*x.q8)->address;
}

std::vector<Tensor> linears(Graph& g, const Tensor& x, std::initializer_list<const Weight*> weights) {
  std::vector<Tensor> results;
  std::vector<uint64_t> inputs;
  for (const Weight* w : weights) {
    inputs.push_back(input_for(g, x, *w, on_matrices(g, x, *w)));
    results.push_back(g.tensor(x.rows, w->m));
  }
  size_t i = 0;
  for (const Weight* w : weights) {
    product(g, x, inputs[i], *w, results[i].f32->address, i != 0);
    ++i;
  }
  i = 0;
  for (const Weight* w : weights) add_low_rank(g, x, *w, results[i++].f32->address);
  return results;
}

Tensor linear(Graph& g, const Tensor& x, const Weight& w) { return std::move(linears(g, x, {&w})[0]); }

void linear_into(Graph& g, const Tensor& x, const Weight& w, uint64_t y) {
  product(g, x, input_for(g, x, w, on_matrices(g, x, w)), w, y, false);
  add_low_rank(g, x, w, y);
}

void add_to(Graph& g, uint64_t y, const Tensor& b) {
  kernels::AddArgs args{};
  args.y = args.a = {y};
  args.b = {b.f32->address};
  args.step = g.step();
  args.rows = b.rows;
  args.n = b.n;
  const uint64_t rows = g.max_rows(args.rows);
  g.launch({.id = KernelId::add}, args, {(args.n + 63) / 64, static_cast<uint32_t>(rows), 1},
           {.f32_operations = static_cast<double>(rows) * args.n});
}

Tensor embed(Graph& g, const Weight& w, float scale) {
  Tensor x;
  x.rows = {kernels::kRowsOfTokens, 1};
  x.n = w.k;
  x.f32 = std::make_shared<Block>();
  x.f32->address = g.memory().residual;
  kernels::EmbedArgs args{};
  args.out = {g.memory().residual};
  args.w = {w.address};
  args.step = g.step();
  args.k = w.k;
  args.scale = scale;
  const double n_tokens = g.shape().n_tokens;
  g.launch({.id = KernelId::embed, .type = w.type, .layout = w.layout}, args, {(w.k + 63) / 64, g.shape().n_tokens, 1},
           {.bytes = n_tokens * static_cast<double>(quant::row_bytes(w.type, w.k)), .f32_operations = n_tokens * w.k});
  return x;
}

void copy_columns(Graph& g, Columns to, Columns from, Rows rows, uint32_t n, bool overlaps_previous) {
  kernels::CopyColumnsArgs args{};
  args.y = {to.address};
  args.x = {from.address};
  args.step = g.step();
  args.rows = rows;
  args.n = n;
  args.y_stride = to.stride;
  args.x_stride = from.stride;
  g.launch({.id = KernelId::copy_columns}, args, {(n + 63) / 64, static_cast<uint32_t>(g.max_rows(rows)), 1}, {},
           overlaps_previous);
}

Tensor gather_out(Graph& g, const Tensor& x) {
  Tensor y = g.tensor({kernels::kRowsOfOut, 1}, x.n);
  kernels::GatherRowsArgs args{};
  args.out = {y.f32->address};
  args.x = {x.f32->address};
  args.step = g.step();
  args.n = x.n;
  g.launch({.id = KernelId::gather_rows}, args, {(x.n + 63) / 64, g.shape().n_out, 1});
  return y;
}

void sample_greedy(Graph& g, uint32_t n_vocab) {
  kernels::ArgmaxArgs args{};
  args.out = {g.memory().sampled};
  args.logits = {g.memory().logits};
  args.step = g.step();
  args.n_vocab = n_vocab;
  g.set_stage(Stage::head);
  g.launch({.id = KernelId::argmax}, args, {1, g.shape().n_out, 1});
}

void sample_by_rules(Graph& g, uint32_t n_vocab) {
  kernels::SampleTokenArgs args{};
  args.out = {g.memory().sampled};
  args.logits = {g.memory().logits};
  args.step = g.step();
  args.n_vocab = n_vocab;
  g.set_stage(Stage::head);
  g.launch({.id = KernelId::sample_token}, args, {1, g.shape().n_out, 1});
}

Tensor gated_output(Graph& g, Rows rows, uint32_t n, const Weight& reader) {
  Tensor y;
  y.rows = rows;
  y.n = n;
  if (reader.wants_q8()) *y.q8 = g.allocate(g.max_rows(rows) * kernels::q8_row_bytes(n));
  if (reader.wants_f32()) y.f32 = g.allocate(g.max_rows(rows) * n * sizeof(float));
  return y;
}

Tensor swiglu(Graph& g, const Tensor& gate, const Tensor& up, const Weight& reader, const Gating& how) {
  Tensor y = gated_output(g, gate.rows, gate.n, reader);
  const uint64_t rows = g.max_rows(y.rows);
  kernels::SwigluArgs args{};
  if (y.f32) args.y = {y.f32->address};
  if (*y.q8) args.y_q8 = {(*y.q8)->address};
  args.gate = {gate.f32->address};
  args.up = {up.f32->address};
  args.gate_bias = {how.gate_bias};
  args.up_bias = {how.up_bias};
  args.sel_expert = {how.sel_expert};
  args.step = g.step();
  args.rows = y.rows;
  args.n = y.n;
  args.activation = how.activation;
  const double elements = static_cast<double>(rows) * y.n;
  g.launch({.id = KernelId::swiglu}, args, {(y.n + 63) / 64, static_cast<uint32_t>(rows), 1},
           {.f32_operations = 8 * elements});
  return y;
}

Tensor relu_squared(Graph& g, const Tensor& x, const Weight& reader) {
  Tensor y = gated_output(g, x.rows, x.n, reader);
  const uint64_t rows = g.max_rows(y.rows);
  kernels::ReluSquaredArgs args{};
  if (y.f32) args.y = {y.f32->address};
  if (*y.q8) args.y_q8 = {(*y.q8)->address};
  args.x = {x.f32->address};
  args.step = g.step();
  args.rows = y.rows;
  args.n = y.n;
  g.launch({.id = KernelId::relu_squared}, args, {(y.n + 63) / 64, static_cast<uint32_t>(rows), 1},
           {.f32_operations = 2.0 * static_cast<double>(rows) * y.n});
  return y;
}

bool can_fuse(Graph& g, const Weight& gate, const Weight& up, const Weight& reader, KernelId id, bool few) {
  if (g.backend().caps().wide && !few) return false;
  if (gate.low_rank || up.low_rank) return false;
  if (reader.wants_q8() && reader.wants_f32()) return false;  // they write one of both
  const bool alike = gate.type == up.type && gate.layout == up.layout && gate.m == up.m && gate.k == up.k;
  return alike && g.backend().has({.id = id, .type = gate.type, .layout = gate.layout});
}

Tensor gate_up(Graph& g, const Tensor& x, const Weight& gate, const Weight& up, const Weight& reader,
               uint32_t activation) {
  const auto rows = static_cast<uint32_t>(g.max_rows(x.rows));
  if (activation != kernels::kSilu || on_matrices(g, x, gate) ||
      !can_fuse(g, gate, up, reader, KernelId::gate_up, rows <= kGemvRows)) {
    auto both = linears(g, x, {&gate, &up});
    return swiglu(g, both[0], both[1], reader, {.activation = activation});
  }
  kernels::GateUpArgs args{};
  args.x = {input_for(g, x, gate)};
  Tensor y = gated_output(g, x.rows, gate.m, reader);
  if (y.f32) args.y = {y.f32->address};
  if (*y.q8) args.y_q8 = {(*y.q8)->address};
  args.gate = {gate.address};
  args.up = {up.address};
  args.step = g.step();
  args.rows = x.rows;
  args.m = gate.m;
  args.k = gate.k;
  g.launch({.id = KernelId::gate_up, .type = gate.type, .layout = gate.layout}, args, {(gate.m + 3) / 4, rows, 1},
           product_cost(gate, 2, 2.0 * rows));
  return y;
}

Tensor dense_ffn(Graph& g, const Tensor& x, const Weight& gate, const Weight& up, const Weight& down,
                 uint32_t activation) {
  return linear(g, gate_up(g, x, gate, up, down, activation), down);
}

void softcap_logits(Graph& g, uint32_t n_vocab, float cap) {
  kernels::SoftcapArgs args{};
  args.y = {g.memory().logits};
  args.step = g.step();
  args.rows = {kernels::kRowsOfOut, 1};
  args.n = n_vocab;
  args.cap = cap;
  g.launch({.id = KernelId::softcap}, args, {(n_vocab + 63) / 64, g.shape().n_out, 1},
           {.f32_operations = 8.0 * g.shape().n_out * n_vocab});
}

Tensor relu_squared_ffn(Graph& g, const Tensor& x, const Weight& up, const Weight& down) {
  return linear(g, relu_squared(g, linear(g, x, up), down), down);
}

}  // namespace sluice::ops
