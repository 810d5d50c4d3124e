#include "support/kernel_case.h"

namespace sluice::test {
namespace {

struct ArgmaxCase {
  std::string name;
  uint32_t n_vocab = 64, n_out = 1;
  std::vector<std::pair<uint32_t, float>> set = {};  // of row 0
  std::vector<uint32_t> nan_rows = {};

  KernelKey key() const { return {KernelId::argmax, Type::F32, Layout::row_major, 0}; }
  std::vector<float> logits() const {
    std::vector<float> values = Random(n_vocab).normals(size_t{n_out} * n_vocab);
    for (const auto& [i, value] : set) values[i] = value;
    for (const uint32_t row : nan_rows) std::fill_n(values.begin() + row * n_vocab, n_vocab, kNaN);
    return values;
  }

  Outputs run(Job& job) const {
    Step step = make_step(n_out);
    for (uint32_t i = 0; i < n_out; ++i) step.out_token.push_back(i);
    const kernels::ArgmaxArgs args{
        .out = job.out<uint>(n_out), .logits = job.in(logits()), .step = job.step(step), .n_vocab = n_vocab};
    job.launch(key(), args, {1, n_out, 1});
    return {{.name = "out", .ints = job.read(args.out, n_out)}};
  }

  Outputs expected() const {
    const std::vector<float> all = logits();
    std::vector<uint32_t> ids;
    for (uint32_t row = 0; row < n_out; ++row) {
      double most = -std::numeric_limits<double>::infinity();
      uint32_t id = 0xffffffff;
      for (uint32_t i = n_vocab; i-- > 0;) {
        const double logit = double{all[row * n_vocab + i]};
        if (logit >= most) {
          most = logit;
          id = i;
        }
      }
      ids.push_back(id);
    }
    return {{.name = "out", .ints = ids}};
  }
};

const ArgmaxCase kCases[] = {
    {.name = "one row"},
    {.name = "rows of a large vocabulary", .n_vocab = 65537, .n_out = 3},
    {.name = "one id", .n_vocab = 1, .n_out = 2},
    {.name = "ties go to the lower id", .n_vocab = 1000, .set = {{999, 50.0f}, {3, 50.0f}, {259, 50.0f}, {4, 50.0f}}},
    {.name = "the two zeros are equal", .n_vocab = 2, .set = {{0, -0.0f}, {1, 0.0f}}},
    {.name = "all negative", .n_vocab = 3, .set = {{0, -3.0f}, {1, -1.0f}, {2, -2.0f}}},
    {.name = "one NaN", .n_vocab = 300, .set = {{0, kNaN}, {299, 9.0f}}},
    {.name = "infinite", .n_vocab = 300, .set = {{7, kInf}, {8, 1e38f}}},
    {.name = "minus infinity alone", .n_vocab = 2, .set = {{0, -kInf}, {1, -kInf}}},
    {.name = "a row of NaN", .n_vocab = 77, .n_out = 3, .nan_rows = {1}},
    {.name = "no rows", .n_out = 0},
};

SLUICE_KERNEL_CASES(Argmax, ArgmaxCase, kCases);

}  // namespace
}  // namespace sluice::test
