#include <algorithm>

#include "support/kernel_case.h"

namespace sluice::test {
namespace {

constexpr KernelKey kKey{KernelId::conv1d, Type::F32, Layout::row_major, 0};

struct Conv1dCase {
  std::string name;
  uint32_t n = 64, l = 3, n_slots = 3, pad = 0;  // pad: floats of other layers between the slots
  uint32_t more_rows = 0;                        // of the ring, beyond l - 1
  std::vector<Sequence> sequences = {{.n_tokens = 1}};
  float scale = 1.0f;
  uint form = kernels::kConvGated;
  bool bias = false;
  uint32_t beside = 0;  // floats of other things in a token's row

  KernelKey key() const { return kKey; }
  bool gated() const { return form == kernels::kConvGated; }
  uint32_t stride() const { return (gated() ? 3 : 1) * n + beside; }
  uint32_t n_rows() const { return l - 1 + more_rows; }
  uint32_t slot_stride() const { return n_rows() * n + pad; }
  std::vector<float> x() const { return Random(n).normals(size_t{make_step(sequences).n_tokens()} * stride(), scale); }
  std::vector<float> w() const { return Random(l).normals(size_t{n} * l); }
  std::vector<float> biases() const { return Random(7).normals(n); }
  std::vector<float> state() const { return Random(n_slots).normals(size_t{n_slots} * slot_stride(), scale); }

  Outputs run(Job& job) const {
    const Step step = make_step(sequences);
    const size_t n_y = size_t{step.n_tokens()} * n;
    const kernels::Conv1dArgs args{.y = job.out<float>(n_y),
                                   .x = job.in(x()),
                                   .w = job.in(w()),
                                   .bias = bias ? job.in(biases()) : DevPtr<float>(),
                                   .state = job.in(state()),
                                   .step = job.step(step),
                                   .n = n,
                                   .l = l,
                                   .slot_stride = slot_stride(),
                                   .n_rows = n_rows(),
                                   .stride = stride(),
                                   .form = form};
    job.launch(kKey, args, {ceil_div(n, 64), static_cast<uint32_t>(step.seqs.size()) * 2 + 1, 1});
    return {{.name = "y", .reals = reals(job.read(args.y, n_y))},
            {.name = "state", .reals = reals(job.read(args.state, size_t{n_slots} * slot_stride())), .tier_bound = 0}};
  }

  Outputs expected() const {
    const Step step = make_step(sequences);
    const std::vector<float> all = x(), weight = w(), add = biases();
    std::vector<double> y(size_t{step.n_tokens()} * n), slots = reals(state());
    for (const kernels::SeqSlice& seq : step.seqs) {
      for (size_t channel = 0; channel < n; ++channel) {
        // A window of one keeps no state.
        double* slot = slots.empty() ? nullptr : slots.data() + size_t{seq.state_slot} * slot_stride() + channel;
        std::vector<double> u;  // from l - 1 before the step on
        for (size_t j = l - 1; j > 0; --j)
          u.push_back(seq.first_pos < j ? 0 : slot[(seq.first_pos - j) % n_rows() * n]);
        for (size_t t = 0; t < seq.n_tokens; ++t) {
          const float* token = all.data() + (seq.first_token + t) * stride() + channel;
          u.push_back(double{token[0]} * (gated() ? double{token[2 * n]} : 1.0));
          double sum = 0;
          for (size_t j = 0; j < l; ++j) sum += double{weight[channel * l + j]} * u[t + j];
          if (bias) sum += double{add[channel]};
          y[(seq.first_token + t) * n + channel] = gated() ? double{token[n]} * sum : sum / (1.0 + std::exp(-sum));
        }
        for (size_t t = 0; t < seq.n_tokens && n_rows() != 0; ++t)
          slot[(seq.first_pos + t) % n_rows() * n] = u[l - 1 + t];
      }
    }
    return {{.name = "y", .reals = y}, {.name = "state", .reals = slots}};
  }
};

const Conv1dCase kCases[] = {
    {.name = "one token from the start"},
    {.name = "one token later on", .sequences = {{.n_tokens = 1, .first_pos = 9, .slot = 1}}},
    {.name = "two tokens, fewer than the window", .l = 4, .sequences = {{.n_tokens = 2, .first_pos = 9}}},
    {.name = "prompt", .n = 77, .sequences = {{.n_tokens = 33}}},
    {.name = "K01 several sequences of unequal lengths",
     .n = 65,
     .n_slots = 5,
     .pad = 7,
     .sequences = {{.n_tokens = 4, .slot = 3},
                   {.n_tokens = 1, .first_pos = 20},
                   {.n_tokens = 9, .first_pos = 5, .slot = 4}}},
    {.name = "K02 reused slot from position 0", .sequences = {{.n_tokens = 2, .slot = 2}}},
    {.name = "window of one", .l = 1, .sequences = {{.n_tokens = 3, .first_pos = 2}}},
    {.name = "wide window", .l = 9, .sequences = {{.n_tokens = 3, .first_pos = 2}}},
    {.name = "second token, half of the window before the start", .sequences = {{.n_tokens = 1, .first_pos = 1}}},
    {.name = "ring with room, the step wraps around", .more_rows = 5, .sequences = {{.n_tokens = 4, .first_pos = 12}}},
    {.name = "ring with room, more tokens than rows",
     .n = 131,
     .pad = 3,
     .more_rows = 4,
     .sequences = {{.n_tokens = 9, .first_pos = 3}, {.n_tokens = 20, .slot = 2}}},
    {.name = "window of one with a ring", .l = 1, .more_rows = 3, .sequences = {{.n_tokens = 5, .first_pos = 2}}},
    {.name = "one channel", .n = 1, .sequences = {{.n_tokens = 5}}},
    {.name = "huge activations", .sequences = {{.n_tokens = 5}}, .scale = 1e10f},
    {.name = "no sequences", .sequences = {}},
    {.name = "silu", .n = 131, .l = 4, .sequences = {{.n_tokens = 9, .first_pos = 2}}, .form = kernels::kConvSilu},
    {.name = "silu of rows with more in them, biased",
     .n = 70,
     .l = 4,
     .n_slots = 5,
     .pad = 7,
     .more_rows = 2,
     .sequences = {{.n_tokens = 4, .slot = 3}, {.n_tokens = 1, .first_pos = 20}, {.n_tokens = 9, .slot = 4}},
     .form = kernels::kConvSilu,
     .bias = true,
     .beside = 11},
    {.name = "silu of huge activations", .sequences = {{.n_tokens = 5}}, .scale = 1e10f, .form = kernels::kConvSilu},
};

SLUICE_KERNEL_CASES(Conv1d, Conv1dCase, kCases);

// A prompt in pieces of any size gives the bits of one pass.
TEST(Conv1d, steps_equal_one_pass) {
  constexpr uint32_t kN = 70, kL = 3, kTokens = 20;
  const std::vector<float> bcx = Random(1).normals(size_t{kTokens} * 3 * kN), w = Random(2).normals(size_t{kN} * kL);
  for (const Subject& subject : subjects()) {
    if (!subject.device->has(kKey)) continue;
    SCOPED_TRACE(subject.name);
    Job job(*subject.device);
    const auto pass = [&](const std::vector<uint32_t>& pieces) {
      const DevPtr<float> state = job.in(std::vector<float>((kL - 1) * kN, kNaN));
      std::vector<float> y;
      uint32_t done = 0;
      for (const uint32_t n : pieces) {
        const Sequence piece{.n_tokens = n, .first_pos = done, .slot = 0};
        const auto at = bcx.begin() + size_t{done} * 3 * kN;
        const kernels::Conv1dArgs args{.y = job.out<float>(size_t{n} * kN),
                                       .x = job.in(std::vector<float>(at, at + size_t{n} * 3 * kN)),
                                       .w = job.in(w),
                                       .bias = {},
                                       .state = state,
                                       .step = job.step(make_step(std::span(&piece, 1))),
                                       .n = kN,
                                       .l = kL,
                                       .slot_stride = (kL - 1) * kN,
                                       .n_rows = kL - 1,
                                       .stride = 3 * kN,
                                       .form = kernels::kConvGated};
        job.launch(kKey, args, {ceil_div(kN, 64), 1, 1});
        const std::vector<float> part = job.read(args.y, size_t{n} * kN);
        y.insert(y.end(), part.begin(), part.end());
        done += n;
      }
      const std::vector<float> last = job.read(state, (kL - 1) * kN);
      y.insert(y.end(), last.begin(), last.end());
      return y;
    };
    const std::vector<float> whole = pass({kTokens});
    EXPECT_EQ(pass({1, 1, 2, 3, 7, 6}), whole);
    EXPECT_EQ(pass(std::vector<uint32_t>(kTokens, 1)), whole);
  }
}

// Tokens are taken back by going on from an earlier position: the bits are those of a pass that never had them.
TEST(Conv1d, tokens_are_taken_back) {
  constexpr uint32_t kN = 70, kL = 4, kRows = kL - 1 + 6, kTokens = 24;
  const std::vector<float> bcx = Random(1).normals(size_t{kTokens} * 3 * kN), w = Random(2).normals(size_t{kN} * kL);
  const std::vector<float> wrong = Random(3).normals(size_t{kTokens} * 3 * kN);
  for (const Subject& subject : subjects()) {
    if (!subject.device->has(kKey)) continue;
    SCOPED_TRACE(subject.name);
    Job job(*subject.device);
    const auto pass = [&](uint32_t n_draft, uint32_t n_good) {
      const DevPtr<float> state = job.in(std::vector<float>(kRows * kN, kNaN));
      std::vector<float> y;
      uint32_t done = 0;
      while (done < kTokens) {
        const uint32_t n = std::min(n_draft, kTokens - done), good = std::min(n, n_good);
        const Sequence piece{.n_tokens = n, .first_pos = done, .slot = 0};
        std::vector<float> x(bcx.begin() + done * 3 * kN, bcx.begin() + (done + good) * 3 * kN);
        x.insert(x.end(), wrong.begin(), wrong.begin() + (n - good) * 3 * kN);
        const kernels::Conv1dArgs args{.y = job.out<float>(size_t{n} * kN),
                                       .x = job.in(x),
                                       .w = job.in(w),
                                       .bias = {},
                                       .state = state,
                                       .step = job.step(make_step(std::span(&piece, 1))),
                                       .n = kN,
                                       .l = kL,
                                       .slot_stride = kRows * kN,
                                       .n_rows = kRows,
                                       .stride = 3 * kN,
                                       .form = kernels::kConvGated};
        job.launch(kKey, args, {ceil_div(kN, 64), 1, 1});
        const std::vector<float> part = job.read(args.y, size_t{n} * kN);
        y.insert(y.end(), part.begin(), part.begin() + good * kN);
        done += good;
      }
      return y;
    };
    const std::vector<float> whole = pass(kTokens, kTokens);
    EXPECT_EQ(pass(1, 1), whole);
    EXPECT_EQ(pass(7, 1), whole);
    EXPECT_EQ(pass(8, 3), whole);
    EXPECT_EQ(pass(3, 2), whole);
  }
}

}  // namespace
}  // namespace sluice::test
