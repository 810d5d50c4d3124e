#include <algorithm>

#include "support/kernel_case.h"

namespace sluice::test {
namespace {

constexpr KernelKey kKey{KernelId::delta_net, Type::F32, Layout::row_major, 0};

double softplus(double x) { return std::log1p(std::exp(x)); }

struct DeltaNetCase {
  std::string name;
  uint32_t size = 16, n_key = 1, n_value = 1, n_slots = 3, pad = 0;  // pad: floats of other layers between the slots
  bool grouped = false;
  uint32_t n_rows = 1;  // of the ring
  std::vector<Sequence> sequences = {{.n_tokens = 1}};
  float alpha_scale = 2.0f;

  KernelKey key() const { return kKey; }
  uint32_t state_floats() const { return n_value * size * size; }
  uint32_t slot_stride() const { return n_rows * state_floats() + pad; }
  size_t n_tokens() const { return make_step(sequences).n_tokens(); }
  std::vector<float> qkv() const { return Random(1).normals(n_tokens() * (2 * n_key + n_value) * size); }
  std::vector<float> beta() const { return Random(2).normals(n_tokens() * n_value * (grouped ? 2 : 1), alpha_scale); }
  std::vector<float> alpha() const { return Random(3).normals(n_tokens() * n_value, alpha_scale); }
  std::vector<float> dt_bias() const { return Random(4).normals(n_value); }
  std::vector<float> a() const {
    std::vector<float> values = Random(5).normals(n_value);
    for (float& value : values) value = -std::abs(value);
    return values;
  }
  std::vector<float> state() const { return Random(6).normals(size_t{n_slots} * slot_stride(), 0.3f); }

  Outputs run(Job& job) const {
    const Step step = make_step(sequences);
    const size_t n_y = n_tokens() * n_value * size;
    const kernels::DeltaNetArgs args{.y = job.out<float>(n_y),
                                     .qkv = job.in(qkv()),
                                     .beta = job.in(beta()),
                                     .alpha = grouped ? DevPtr<float>() : job.in(alpha()),
                                     .a = job.in(a()),
                                     .dt_bias = job.in(dt_bias()),
                                     .state = job.in(state()),
                                     .step = job.step(step),
                                     .size = size,
                                     .n_key = n_key,
                                     .n_value = n_value,
                                     .heads = grouped ? kernels::kValueHeadsGrouped : kernels::kValueHeadsTiled,
                                     .slot_stride = slot_stride(),
                                     .n_rows = n_rows,
                                     .eps = 1e-6f};
    job.launch(kKey, args, {ceil_div(size, 64), n_value, static_cast<uint32_t>(step.seqs.size()) + 1});
    return {{.name = "y", .reals = reals(job.read(args.y, n_y))},
            {.name = "state", .reals = reals(job.read(args.state, size_t{n_slots} * slot_stride()))}};
  }

  // One token of one head; m is (key, value).
  void update(size_t token, size_t head, std::vector<double>& m, double* y) const {
    const std::vector<float> rows = qkv(), betas = beta(), alphas = alpha();
    const size_t r = n_value / n_key, key_head = grouped ? head / r : head % n_key, n_heads = 2 * n_key + n_value;
    const auto row = [&](size_t h, bool normed) {
      std::vector<double> values;
      double squares = 0;
      for (size_t i = 0; i < size; ++i) {
        values.push_back(double{rows[(token * n_heads + h) * size + i]});
        squares += values[i] * values[i];
      }
      for (double& value : values) value /= normed ? std::sqrt(squares + 1e-6) : 1.0;
      return values;
    };
    const std::vector<double> q = row(key_head, true), k = row(n_key + key_head, true),
                              v = row(2 * n_key + head, false);
    const size_t at = grouped ? (token * n_key + key_head) * 2 * r + head % r : token * n_value + head;
    const double alpha_here = double{grouped ? betas[at + r] : alphas[at]};
    const double decay = std::exp(double{a()[head]} * softplus(alpha_here + double{dt_bias()[head]}));
    const double rate = 1.0 / (1.0 + std::exp(-double{betas[at]}));
    for (size_t j = 0; j < size; ++j) {
      double read = 0;
      for (size_t i = 0; i < size; ++i) read += k[i] * (m[i * size + j] *= decay);
      y[j] = 0;
      for (size_t i = 0; i < size; ++i) {
        m[i * size + j] += k[i] * rate * (v[j] - read);
        y[j] += q[i] * m[i * size + j] / std::sqrt(static_cast<double>(size));
      }
    }
  }

  Outputs expected() const {
    const Step step = make_step(sequences);
    std::vector<double> y(n_tokens() * n_value * size), slots = reals(state());
    for (const kernels::SeqSlice& seq : step.seqs) {
      for (size_t head = 0; head < n_value; ++head) {
        const auto row_of = [&](size_t position) {
          return slots.begin() + static_cast<ptrdiff_t>(size_t{seq.state_slot} * slot_stride() +
                                                        position % n_rows * state_floats() + head * size * size);
        };
        std::vector<double> m(size * size);
        if (seq.first_pos != 0) std::copy_n(row_of(seq.first_pos - 1), size * size, m.begin());
        for (size_t t = 0; t < seq.n_tokens; ++t) {
          const size_t token = seq.first_token + t;
          update(token, head, m, &y[(token * n_value + head) * size]);
          std::copy(m.begin(), m.end(), row_of(seq.first_pos + t));
        }
      }
    }
    return {{.name = "y", .reals = y}, {.name = "state", .reals = slots}};
  }
};

const std::vector<Sequence> kSeveral = {
    {.n_tokens = 4, .slot = 3}, {.n_tokens = 1, .first_pos = 20}, {.n_tokens = 9, .first_pos = 5, .slot = 4}};

const DeltaNetCase kCases[] = {
    {.name = "one token from the start, whatever the slot holds"},
    {.name = "one token later on", .sequences = {{.n_tokens = 1, .first_pos = 9, .slot = 1}}},
    {.name = "tiled heads", .n_key = 2, .n_value = 6, .sequences = {{.n_tokens = 5}}},
    {.name = "grouped heads", .n_key = 2, .n_value = 6, .grouped = true, .sequences = {{.n_tokens = 5}}},
    {.name = "size beyond a group, odd", .size = 67, .n_value = 2, .sequences = {{.n_tokens = 3, .first_pos = 1}}},
    {.name = "size of published models", .size = 128, .sequences = {{.n_tokens = 2, .first_pos = 7}}},
    {.name = "fewer rows than threads for a column", .size = 2, .n_value = 3, .sequences = {{.n_tokens = 4}}},
    {.name = "K01 several sequences of unequal lengths",
     .n_key = 2,
     .n_value = 4,
     .n_slots = 5,
     .pad = 7,
     .sequences = kSeveral},
    {.name = "ring, the step wraps around", .n_value = 2, .n_slots = 5, .pad = 3, .n_rows = 4, .sequences = kSeveral},
    {.name = "extreme gates", .n_value = 4, .sequences = {{.n_tokens = 8}}, .alpha_scale = 60.0f},
    {.name = "no sequences", .sequences = {}},
};

SLUICE_KERNEL_CASES(DeltaNet, DeltaNetCase, kCases);

// Pieces of any size give the bits of one pass, also where tokens were taken back in between.
TEST(DeltaNet, steps_equal_one_pass) {
  constexpr uint32_t kTokens = 20, kRows = 6;
  const DeltaNetCase all{.name = "", .n_key = 2, .n_value = 4, .n_rows = kRows, .sequences = {{.n_tokens = kTokens}}};
  const std::vector<float> qkv = all.qkv(), beta = all.beta(), alpha = all.alpha(),
                           wrong = Random(9).normals(qkv.size());
  const uint32_t row = (2 * all.n_key + all.n_value) * all.size, out_row = all.n_value * all.size;
  for (const Subject& subject : subjects()) {
    if (!subject.device->has(kKey)) continue;
    SCOPED_TRACE(subject.name);
    Job job(*subject.device);
    const auto part = [&](const std::vector<float>& from, uint32_t first, uint32_t n, uint32_t width) {
      return std::vector<float>(from.begin() + first * width, from.begin() + (first + n) * width);
    };
    // Steps of n tokens, of which n_good are kept.
    const auto pass = [&](uint32_t n_step, uint32_t n_good) {
      const DevPtr<float> state = job.in(std::vector<float>(all.slot_stride(), kNaN));
      std::vector<float> y;
      for (uint32_t done = 0; done < kTokens;) {
        const uint32_t n = std::min(n_step, kTokens - done), good = std::min(n, n_good);
        std::vector<float> x = part(qkv, done, good, row);
        x.insert(x.end(), wrong.begin(), wrong.begin() + (n - good) * row);
        const Sequence piece{.n_tokens = n, .first_pos = done, .slot = 0};
        const kernels::DeltaNetArgs args{.y = job.out<float>(size_t{n} * out_row),
                                         .qkv = job.in(x),
                                         .beta = job.in(part(beta, done, n, all.n_value)),
                                         .alpha = job.in(part(alpha, done, n, all.n_value)),
                                         .a = job.in(all.a()),
                                         .dt_bias = job.in(all.dt_bias()),
                                         .state = state,
                                         .step = job.step(make_step(std::span(&piece, 1))),
                                         .size = all.size,
                                         .n_key = all.n_key,
                                         .n_value = all.n_value,
                                         .heads = kernels::kValueHeadsTiled,
                                         .slot_stride = all.slot_stride(),
                                         .n_rows = kRows,
                                         .eps = 1e-6f};
        job.launch(kKey, args, {1, all.n_value, 1});
        const std::vector<float> rows = job.read(args.y, size_t{n} * out_row);
        y.insert(y.end(), rows.begin(), rows.begin() + good * out_row);
        done += good;
      }
      return y;
    };
    const std::vector<float> whole = pass(kTokens, kTokens);
    EXPECT_EQ(pass(1, 1), whole);
    EXPECT_EQ(pass(7, 7), whole);
    EXPECT_EQ(pass(6, 1), whole);
    EXPECT_EQ(pass(5, 3), whole);
  }
}

}  // namespace
}  // namespace sluice::test
