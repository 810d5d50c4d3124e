#include "ops/recurrent.h"

#include "ops/linear.h"
#include "ops/norm.h"

namespace sluice::ops {
namespace {

struct Convolution {
  uint64_t x;       // the first channel of the first token
  uint32_t stride;  // floats from a token to the next
  const Vector &w, *bias;
  uint32_t n, n_taps;

  uint32_t n_rows(const Graph& g) const { return n_taps - 1 + g.memory().n_rewind; }
};

Tensor convolve(Graph& g, const Convolution& c, uint32_t layer) {
  Tensor y = g.tensor({kernels::kRowsOfTokens, 1}, c.n);
  kernels::Conv1dArgs args{};
  args.y = {y.f32->address};
  args.x = {c.x};
  args.w = {c.w.address};
  if (c.bias != nullptr) args.bias = {c.bias->address};
  args.state = {g.memory().layers[layer].recurrent};
  args.step = g.step();
  args.n = c.n;
  args.l = c.n_taps;
  args.slot_stride = static_cast<uint32_t>(g.memory().slot_stride);
  args.n_rows = c.n_rows(g);
  args.stride = c.stride;
  args.form = kernels::kConvSilu;
  const double state_bytes = 2.0 * g.shape().n_seqs * (c.n_taps - 1) * c.n * sizeof(float);  // read and replaced
  g.launch({.id = KernelId::conv1d}, args, {(c.n + 63) / 64, g.shape().n_tokens, 1},
           {.bytes = 4.0 * c.n * c.n_taps + state_bytes,
            .f32_operations = (2.0 * c.n_taps + 8.0) * g.shape().n_tokens * c.n});
  return y;
}

// Of the states behind a layer's convolution.
uint64_t states_address(const Graph& g, const Convolution& c, uint32_t layer) {
  return g.memory().layers[layer].recurrent + uint64_t{c.n_rows(g)} * c.n * sizeof(float);
}

// A step of the recurrence passes over a state about `passes` times, and reads and replaces that of every sequence.
Cost recurrence_cost(const Graph& g, uint64_t state_floats, double passes) {
  const auto n = static_cast<double>(state_floats);
  return {.bytes = 2.0 * g.shape().n_seqs * n * sizeof(float), .f32_operations = passes * g.shape().n_tokens * n};
}

}  // namespace

Tensor delta_net(Graph& g, const Tensor& h, const DeltaNetWeights& w, const DeltaNetShape& shape, uint32_t layer) {
  g.set_stage(Stage::convolution);
  const bool tiled = shape.heads == kernels::kValueHeadsTiled;
  const auto in = tiled ? linears(g, h, {&w.qkv, &w.z, &w.beta, &w.alpha}) : linears(g, h, {&w.qkv, &w.z, &w.beta});
  const Convolution conv{in[0].f32->address, in[0].n, w.conv, nullptr, shape.n_conv(), shape.n_taps};
  const Tensor qkv = convolve(g, conv, layer);
  const Tensor y = g.tensor(h.rows, shape.n_value * shape.size);
  kernels::DeltaNetArgs args{};
  args.y = {y.f32->address};
  args.qkv = {qkv.f32->address};
  args.beta = {in[2].f32->address};
  if (tiled) args.alpha = {in[3].f32->address};
  args.a = {w.a.address};
  args.dt_bias = {w.dt_bias.address};
  args.state = {states_address(g, conv, layer)};
  args.step = g.step();
  args.size = shape.size;
  args.n_key = shape.n_key;
  args.n_value = shape.n_value;
  args.heads = shape.heads;
  args.slot_stride = static_cast<uint32_t>(g.memory().slot_stride);
  args.n_rows = 1 + g.memory().n_rewind;
  args.eps = shape.eps;
  g.launch({.id = KernelId::delta_net}, args, {(shape.size + 63) / 64, shape.n_value, g.shape().n_tokens},
           recurrence_cost(g, shape.state_floats(), 7));
  const HeadGate gate{.z = in[1].f32->address, .z_stride = in[1].n};
  return linear(g, gated_norm(g, y, w.norm, shape.n_value, shape.eps, gate), w.out);
}

Tensor mamba(Graph& g, const Tensor& h, const MambaWeights& w, const MambaShape& shape, uint32_t layer) {
  g.set_stage(Stage::convolution);
  const Tensor in = linear(g, h, w.in);
  const uint64_t z = in.f32->address, xbc = z + shape.n_inner() * sizeof(float);
  const Convolution conv{xbc, in.n, w.conv, &w.conv_bias, shape.n_conv(), shape.n_taps};
  const Tensor convolved = convolve(g, conv, layer);
  const Tensor y = g.tensor(h.rows, shape.n_inner());
  kernels::SsmScanArgs args{};
  args.y = {y.f32->address};
  args.xbc = {convolved.f32->address};
  args.dt = {xbc + shape.n_conv() * sizeof(float)};
  args.dt_bias = {w.dt_bias.address};
  args.a = {w.a.address};
  args.d = {w.d.address};
  args.state = {states_address(g, conv, layer)};
  args.step = g.step();
  args.size = shape.size;
  args.n_state = shape.n_state;
  args.n_head = shape.n_head;
  args.n_group = shape.n_group;
  args.dt_stride = in.n;
  args.slot_stride = static_cast<uint32_t>(g.memory().slot_stride);
  args.n_rows = 1 + g.memory().n_rewind;
  g.launch({.id = KernelId::ssm_scan}, args, {(shape.size + 63) / 64, shape.n_head, g.shape().n_tokens},
           recurrence_cost(g, shape.state_floats(), 5));
  const HeadGate gate{.z = z, .z_stride = in.n, .first = true};
  return linear(g, gated_norm(g, y, w.norm, shape.n_group, shape.eps, gate), w.out);
}

}  // namespace sluice::ops
