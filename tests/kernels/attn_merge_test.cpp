#include "support/kernel_case.h"

namespace sluice::test {
namespace {

// attn_split_test.cpp has the two kernels together; here the parts are made up.
struct AttnMergeCase {
  std::string name;
  uint32_t n_head = 2, d_v = 64, pos = 0, n_ranges = 1, window = 0;
  float most_scale = 1.0f;
  bool sinks = false;  // 0.5 for every head

  KernelKey key() const { return {KernelId::attn_merge, Type::F32, Layout::row_major, 0}; }
  uint32_t n_used() const { return pos / kernels::kRangeTokens + 1; }
  uint32_t first_used() const { return kernels::first_seen(pos, window) / kernels::kRangeTokens; }
  // NaN in ranges that hold nothing seen: they were not written.
  std::vector<float> parts() const {
    std::vector<float> values(size_t{n_head} * n_ranges * (d_v + 2), kNaN);
    Random random(d_v);
    for (size_t row = 0; row < size_t{n_head} * n_ranges; ++row) {
      if (row % n_ranges < first_used() || row % n_ranges >= n_used()) continue;
      const std::vector<float> drawn = random.normals(d_v + 2);
      float* part = &values[row * (d_v + 2)];
      std::copy(drawn.begin(), drawn.end(), part);
      part[d_v] *= most_scale;
      part[d_v + 1] = 1 + std::fabs(part[d_v + 1]);
    }
    return values;
  }

  Outputs run(Job& job) const {
    const size_t n_out = size_t{n_head} * d_v;
    const Sequence sequence{.n_tokens = 1, .first_pos = pos};
    kernels::AttnMergeArgs args{.out = job.out<float>(n_out),
                                .part = job.in(parts()),
                                .step = job.step(make_step(std::span(&sequence, 1))),
                                .n_head = n_head,
                                .d_v = d_v,
                                .n_ranges = n_ranges,
                                .window = window};
    if (sinks) args.sinks = job.in(std::vector<float>(n_head, 0.5f));
    job.launch(key(), args, {n_head, 1, 1});
    return {{.name = "out", .reals = reals(job.read(args.out, n_out))}};
  }

  Outputs expected() const {
    const std::vector<float> all = parts();
    std::vector<double> out;
    for (size_t h = 0; h < n_head; ++h) {
      const float* part = &all[h * n_ranges * (d_v + 2)];
      double most = sinks ? 0.5 : -std::numeric_limits<double>::infinity();
      std::vector<double> sums(d_v, 0.0);
      for (size_t r = first_used(); r < n_used(); ++r) most = std::max(most, double{part[r * (d_v + 2) + d_v]});
      double total = sinks ? std::exp(0.5 - most) : 0;
      for (size_t r = first_used(); r < n_used(); ++r) {
        const float* row = part + r * (d_v + 2);
        const double e = std::exp(double{row[d_v]} - most);
        total += e * double{row[d_v + 1]};
        for (size_t i = 0; i < d_v; ++i) sums[i] += e * double{row[i]};
      }
      for (const double sum : sums) out.push_back(sum / total);
    }
    return {{.name = "out", .reals = out}};
  }
};

const AttnMergeCase kCases[] = {
    {.name = "one range"},
    {.name = "room for more", .pos = kernels::kRangeTokens - 1, .n_ranges = 3},
    {.name = "last of a range", .pos = 2 * kernels::kRangeTokens - 1, .n_ranges = 2},
    {.name = "first of a range", .pos = 2 * kernels::kRangeTokens, .n_ranges = 3},
    {.name = "more ranges than threads", .n_head = 3, .d_v = 20, .pos = 200 * kernels::kRangeTokens, .n_ranges = 201},
    {.name = "one range wins", .pos = 5 * kernels::kRangeTokens, .n_ranges = 6, .most_scale = 1000.0f},
    {.name = "a window", .pos = 5 * kernels::kRangeTokens, .n_ranges = 6, .window = 200},
    {.name = "sinks", .pos = 2 * kernels::kRangeTokens, .n_ranges = 3, .sinks = true},
    {.name = "widest values", .d_v = 1024, .pos = 3 * kernels::kRangeTokens, .n_ranges = 4},
};

SLUICE_KERNEL_CASES(AttnMerge, AttnMergeCase, kCases);

}  // namespace
}  // namespace sluice::test
