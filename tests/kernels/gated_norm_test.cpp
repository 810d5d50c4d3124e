#include "support/kernel_case.h"

namespace sluice::test {
namespace {

struct GatedNormCase {
  std::string name;
  uint32_t n = 64, n_tokens = 1, n_head = 1, n_w = 1;
  uint32_t apart = 0, beside = 0;  // floats behind a head of x, and behind a token's z
  bool gate = true, gate_first = false, in_place = false;
  float scale = 1.0f, eps = 1e-5f;

  KernelKey key() const { return {KernelId::gated_norm, Type::F32, Layout::row_major, 0}; }
  uint32_t x_pitch() const { return n + apart; }
  uint32_t z_stride() const { return n_head * n + beside; }
  size_t n_heads() const { return size_t{n_tokens} * n_head; }
  std::vector<float> x() const { return Random(1).normals(n_heads() * x_pitch(), scale); }
  std::vector<float> z() const { return Random(2).normals(size_t{n_tokens} * z_stride(), 2.0f); }
  std::vector<float> w() const { return Random(3).normals(size_t{n_w} * n); }

  Outputs run(Job& job) const {
    const DevPtr<float> in = job.in(x());
    const kernels::GatedNormArgs args{.y = in_place ? in : job.out<float>(n_heads() * n),
                                      .x = in,
                                      .z = gate ? job.in(z()) : DevPtr<float>(),
                                      .w = job.in(w()),
                                      .step = job.step(make_step(n_tokens)),
                                      .n_head = n_head,
                                      .n = n,
                                      .n_w = n_w,
                                      .x_pitch = x_pitch(),
                                      .z_stride = z_stride(),
                                      .gate_first = gate_first ? 1u : 0u,
                                      .eps = eps};
    job.launch(key(), args, {n_head, n_tokens, 1});
    return {{.name = "y", .reals = reals(job.read(args.y, n_heads() * n))}};
  }

  Outputs expected() const {
    const std::vector<float> in = x(), gates = z(), weight = w();
    std::vector<double> y;
    for (size_t head = 0; head < n_heads(); ++head) {
      std::vector<double> h, silu;
      double squares = 0;
      for (size_t i = 0; i < n; ++i) {
        const double g = double{gates[head / n_head * z_stride() + head % n_head * n + i]};
        silu.push_back(gate ? g / (1.0 + std::exp(-g)) : 1.0);
        h.push_back(double{in[head * x_pitch() + i]} * (gate_first ? silu[i] : 1.0));
        squares += h[i] * h[i];
      }
      for (size_t i = 0; i < n; ++i) {
        const double normed = h[i] / std::sqrt(squares / n + double{eps}) * double{weight[head % n_head % n_w * n + i]};
        y.push_back(gate_first ? normed : normed * silu[i]);
      }
    }
    return {{.name = "y", .reals = y}};
  }
};

const GatedNormCase kCases[] = {
    {.name = "one head, gated after"},
    {.name = "gated before", .gate_first = true},
    {.name = "heads share weights", .n = 33, .n_tokens = 3, .n_head = 4},
    {.name = "groups with weights of their own, z in longer rows",
     .n = 200,
     .n_tokens = 3,
     .n_head = 2,
     .n_w = 2,
     .beside = 19,
     .gate_first = true},
    {.name = "no gate, heads apart", .n = 77, .n_tokens = 3, .n_head = 4, .apart = 77, .gate = false},
    {.name = "in place", .n = 65, .n_tokens = 2, .n_head = 3, .in_place = true},
    {.name = "eps matters", .n = 32, .n_tokens = 2, .scale = 1e-4f, .eps = 1e-6f},
    {.name = "zeros stay zeros", .n_tokens = 2, .scale = 0.0f},
    {.name = "no tokens", .n_tokens = 0},
};

SLUICE_KERNEL_CASES(GatedNorm, GatedNormCase, kCases);

}  // namespace
}  // namespace sluice::test
