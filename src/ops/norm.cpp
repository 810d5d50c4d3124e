#include "ops/norm.h"

#include "ops/linear.h"

namespace sluice::ops {
namespace {

// y and y_q8: where to, 0 for not in that form.
void norm_to(Graph& g, uint64_t y, uint64_t y_q8, const Tensor& x, const Tensor* add, const Vector& w, float eps) {
  kernels::RmsNormArgs args{};
  args.y = {y};
  args.y_q8 = {y_q8};
  args.x = {x.f32->address};
  if (add != nullptr) args.add = {add->f32->address};
  if (add != nullptr) args.sum = args.x;
  args.w = {w.address};
  args.step = g.step();
  args.rows = x.rows;
  args.n = x.n;
  args.eps = eps;
  const double elements = static_cast<double>(g.max_rows(x.rows)) * x.n;
  g.launch({.id = KernelId::rms_norm}, args, {1, static_cast<uint32_t>(g.max_rows(x.rows)), 1},
           {.bytes = 4.0 * w.n, .f32_operations = 4 * elements});
}

Tensor norm(Graph& g, const Tensor& x, const Tensor* add, const Vector& w, float eps,
            std::initializer_list<const Weight*> readers) {
  bool q8 = false, f32 = readers.size() == 0;
  for (const Weight* reader : readers) {
    q8 |= reader->wants_q8();
    f32 |= reader->wants_f32();
  }
  Tensor y;
  y.rows = x.rows;
  y.n = x.n;
  if (f32) y.f32 = g.allocate(g.max_rows(x.rows) * x.n * sizeof(float));
  if (q8) *y.q8 = g.allocate(g.max_rows(x.rows) * kernels::q8_row_bytes(x.n));
  norm_to(g, f32 ? y.f32->address : 0, q8 ? (*y.q8)->address : 0, x, add, w, eps);
  return y;
}

void launch_head_norm(Graph& g, const Tensor& x, const Tensor& y, const Vector& w, uint32_t n_head, float eps,
                      const HeadGate& gate) {
  kernels::GatedNormArgs args{};
  args.y = {y.f32->address};
  args.x = {x.f32->address};
  args.z = {gate.z};
  args.w = {w.address};
  args.step = g.step();
  args.n_head = n_head;
  args.n = y.n / n_head;
  args.n_w = w.n / args.n;
  args.x_pitch = x.n / n_head;
  args.z_stride = gate.z_stride;
  args.gate_first = gate.first ? 1 : 0;
  args.eps = eps;
  const double elements = static_cast<double>(g.shape().n_tokens) * y.n;
  g.launch({.id = KernelId::gated_norm}, args, {n_head, g.shape().n_tokens, 1},
           {.bytes = 4.0 * w.n, .f32_operations = (gate.z != 0 ? 12 : 4) * elements});
}

}  // namespace

Tensor rms_norm(Graph& g, Residual& residual, const Vector& w, float eps,
                std::initializer_list<const Weight*> readers) {
  Tensor y = norm(g, residual.x, residual.pending ? &*residual.pending : nullptr, w, eps, readers);
  residual.pending.reset();
  return y;
}

Tensor rms_norm(Graph& g, const Tensor& x, const Vector& w, float eps, std::initializer_list<const Weight*> readers) {
  return norm(g, x, nullptr, w, eps, readers);
}

void rms_norm_into(Graph& g, const Tensor& x, const Vector& w, float eps, uint64_t y) {
  norm_to(g, y, 0, x, nullptr, w, eps);
}

void rms_norm_heads(Graph& g, Tensor& x, const Vector& w, float eps, bool overlaps_previous) {
  kernels::RmsNormArgs args{};
  args.y = args.x = {x.f32->address};
  args.w = {w.address};
  args.step = g.step();
  args.rows = {x.rows.of, x.rows.per * (x.n / w.n)};
  args.n = w.n;
  args.eps = eps;
  const uint64_t rows = g.max_rows(args.rows);
  g.launch({.id = KernelId::rms_norm}, args, {1, static_cast<uint32_t>(rows), 1},
           {.bytes = 4.0 * w.n, .f32_operations = 4.0 * static_cast<double>(rows) * w.n}, overlaps_previous);
}

Tensor norm_heads_apart(Graph& g, const Tensor& x, const Vector& w, uint32_t n_head, float eps) {
  Tensor y = g.tensor(x.rows, n_head * w.n);
  launch_head_norm(g, x, y, w, n_head, eps, {});
  return y;
}

Tensor gated_norm(Graph& g, const Tensor& x, const Vector& w, uint32_t n_head, float eps, const HeadGate& gate) {
  Tensor y = g.tensor(x.rows, x.n);
  launch_head_norm(g, x, y, w, n_head, eps, gate);
  return y;
}

void add_bias(Graph& g, Tensor& x, const Vector& b, bool overlaps_previous) {
  kernels::AddArgs args{};
  args.y = args.a = {x.f32->address};
  args.b = {b.address};
  args.step = g.step();
  args.rows = x.rows;
  args.n = x.n;
  args.b_is_row = 1;
  const uint64_t rows = g.max_rows(args.rows);
  g.launch({.id = KernelId::add}, args, {(args.n + 63) / 64, static_cast<uint32_t>(rows), 1},
           {.bytes = 4.0 * b.n, .f32_operations = static_cast<double>(rows) * args.n}, overlaps_previous);
}

void settle(Graph& g, Residual& residual) {
  if (!residual.pending) return;
  add_to(g, residual.x.f32->address, *residual.pending);
  residual.pending.reset();
}

}  // namespace sluice::ops
