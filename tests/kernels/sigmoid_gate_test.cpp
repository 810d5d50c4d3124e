#include "support/kernel_case.h"

namespace sluice::test {
namespace {

struct SigmoidGateCase {
  std::string name;
  uint32_t n = 64, n_tokens = 1, n_head = 1;
  uint32_t before = 0;  // floats in front of every head's gate
  float scale = 1.0f;

  KernelKey key() const { return {KernelId::sigmoid_gate, Type::F32, Layout::row_major, 0}; }
  uint32_t pitch() const { return before + n; }
  size_t n_heads() const { return size_t{n_tokens} * n_head; }
  std::vector<float> y() const { return Random(1).normals(n_heads() * n, scale); }
  std::vector<float> gate() const { return Random(2).normals(n_heads() * pitch(), scale); }

  Outputs run(Job& job) const {
    const DevPtr<float> all = job.in(gate());
    const kernels::SigmoidGateArgs args{.y = job.in(y()),
                                        .gate = {all.address + before * sizeof(float)},
                                        .step = job.step(make_step(n_tokens)),
                                        .n_head = n_head,
                                        .n = n,
                                        .pitch = pitch()};
    job.launch(key(), args, {ceil_div(n, 64), n_head, n_tokens});
    return {{.name = "y", .reals = reals(job.read(args.y, n_heads() * n))}};
  }

  Outputs expected() const {
    const std::vector<float> values = y(), gates = gate();
    std::vector<double> out;
    for (size_t i = 0; i < values.size(); ++i) {
      const float g = gates[i / n * pitch() + before + i % n];
      out.push_back(double{values[i]} / (1.0 + std::exp(-double{g})));
    }
    return {{.name = "y", .reals = out}};
  }
};

const SigmoidGateCase kCases[] = {
    {.name = "one head"},
    {.name = "queries lie before the gates", .n = 77, .n_tokens = 3, .n_head = 4, .before = 77},
    {.name = "one value", .n = 1, .n_tokens = 2, .n_head = 3},
    {.name = "exp overflows for one sign", .n_tokens = 2, .scale = 300.0f},
    {.name = "no tokens", .n_tokens = 0},
};

SLUICE_KERNEL_CASES(SigmoidGate, SigmoidGateCase, kCases);

}  // namespace
}  // namespace sluice::test
