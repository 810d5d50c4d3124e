#include <algorithm>

#include "support/kernel_case.h"

namespace sluice::test {
namespace {

constexpr KernelKey kKey{KernelId::ssm_scan, Type::F32, Layout::row_major, 0};

struct SsmScanCase {
  std::string name;
  uint32_t size = 16, n_state = 8, n_head = 1, n_group = 1, n_slots = 3;
  uint32_t pad = 0, beside = 0;  // floats of other layers between the slots, and behind a token's dt
  uint32_t n_rows = 1;           // of the ring
  std::vector<Sequence> sequences = {{.n_tokens = 1}};
  float dt_scale = 2.0f;

  KernelKey key() const { return kKey; }
  uint32_t n_x() const { return n_head * size; }
  uint32_t n_b() const { return n_group * n_state; }
  uint32_t state_floats() const { return n_head * n_state * size; }
  uint32_t slot_stride() const { return n_rows * state_floats() + pad; }
  size_t n_tokens() const { return make_step(sequences).n_tokens(); }
  std::vector<float> xbc() const { return Random(1).normals(n_tokens() * (n_x() + 2 * n_b())); }
  std::vector<float> dt() const { return Random(2).normals(n_tokens() * (n_head + beside), dt_scale); }
  std::vector<float> dt_bias() const { return Random(3).normals(n_head); }
  std::vector<float> a() const {
    std::vector<float> values = Random(4).normals(n_head);
    for (float& value : values) value = -std::abs(value);
    return values;
  }
  std::vector<float> d() const { return Random(5).normals(n_head); }
  std::vector<float> state() const { return Random(6).normals(size_t{n_slots} * slot_stride()); }

  Outputs run(Job& job) const {
    const Step step = make_step(sequences);
    const size_t n_y = n_tokens() * n_x();
    const kernels::SsmScanArgs args{.y = job.out<float>(n_y),
                                    .xbc = job.in(xbc()),
                                    .dt = job.in(dt()),
                                    .dt_bias = job.in(dt_bias()),
                                    .a = job.in(a()),
                                    .d = job.in(d()),
                                    .state = job.in(state()),
                                    .step = job.step(step),
                                    .size = size,
                                    .n_state = n_state,
                                    .n_head = n_head,
                                    .n_group = n_group,
                                    .dt_stride = n_head + beside,
                                    .slot_stride = slot_stride(),
                                    .n_rows = n_rows};
    job.launch(kKey, args, {ceil_div(size, 64), n_head, static_cast<uint32_t>(step.seqs.size()) + 1});
    return {{.name = "y", .reals = reals(job.read(args.y, n_y))},
            {.name = "state", .reals = reals(job.read(args.state, size_t{n_slots} * slot_stride()))}};
  }

  Outputs expected() const {
    const Step step = make_step(sequences);
    const std::vector<float> rows = xbc(), dts = dt(), bias = dt_bias(), decays = a(), skip = d();
    std::vector<double> y(n_tokens() * n_x()), slots = reals(state());
    for (const kernels::SeqSlice& seq : step.seqs) {
      for (size_t t = 0; t < seq.n_tokens; ++t) {
        const size_t token = seq.first_token + t, position = seq.first_pos + t;
        const float* row = rows.data() + token * (n_x() + 2 * n_b());
        double* slot = slots.data() + size_t{seq.state_slot} * slot_stride();
        for (size_t channel = 0; channel < n_x(); ++channel) {
          const size_t head = channel / size, group = head / (n_head / n_group);
          const float *b = row + n_x() + group * n_state, *c = b + n_b();
          const double step_here =
              std::log1p(std::exp(double{dts[token * (n_head + beside) + head]} + double{bias[head]}));
          const double x = double{row[channel]};
          double sum = double{skip[head]} * x;
          for (size_t i = 0; i < n_state; ++i) {
            const size_t at = (head * n_state + i) * size + channel % size;
            const double before = position == 0 ? 0.0 : slot[(position - 1) % n_rows * state_floats() + at];
            const double m = std::exp(step_here * double{decays[head]}) * before + step_here * x * double{b[i]};
            slot[position % n_rows * state_floats() + at] = m;
            sum += m * double{c[i]};
          }
          y[token * n_x() + channel] = sum;
        }
      }
    }
    return {{.name = "y", .reals = y}, {.name = "state", .reals = slots}};
  }
};

const std::vector<Sequence> kSeveral = {
    {.n_tokens = 4, .slot = 3}, {.n_tokens = 1, .first_pos = 20}, {.n_tokens = 9, .first_pos = 5, .slot = 4}};

const SsmScanCase kCases[] = {
    {.name = "one token from the start, whatever the slot holds"},
    {.name = "one token later on", .sequences = {{.n_tokens = 1, .first_pos = 9, .slot = 1}}},
    {.name = "heads share groups", .n_head = 6, .n_group = 2, .sequences = {{.n_tokens = 5}}},
    {.name = "size beyond a group, odd", .size = 67, .n_state = 5, .n_head = 2, .sequences = {{.n_tokens = 3}}},
    {.name = "state of published models", .size = 64, .n_state = 128, .sequences = {{.n_tokens = 2, .first_pos = 7}}},
    {.name = "fewer rows than threads for a column", .size = 3, .n_state = 2, .sequences = {{.n_tokens = 4}}},
    {.name = "K01 several sequences of unequal lengths",
     .n_head = 4,
     .n_group = 2,
     .n_slots = 5,
     .pad = 7,
     .beside = 3,
     .sequences = kSeveral},
    {.name = "ring, the step wraps around", .n_head = 2, .n_slots = 5, .pad = 3, .n_rows = 4, .sequences = kSeveral},
    {.name = "extreme steps", .n_head = 4, .sequences = {{.n_tokens = 8}}, .dt_scale = 60.0f},
    {.name = "no sequences", .sequences = {}},
};

SLUICE_KERNEL_CASES(SsmScan, SsmScanCase, kCases);

// Pieces of any size give the bits of one pass, also where tokens were taken back in between.
TEST(SsmScan, steps_equal_one_pass) {
  constexpr uint32_t kTokens = 20, kRows = 6;
  const SsmScanCase all{.name = "", .n_head = 4, .n_group = 2, .n_rows = kRows, .sequences = {{.n_tokens = kTokens}}};
  const std::vector<float> xbc = all.xbc(), dt = all.dt(), wrong = Random(9).normals(xbc.size());
  const uint32_t row = all.n_x() + 2 * all.n_b();
  for (const Subject& subject : subjects()) {
    if (!subject.device->has(kKey)) continue;
    SCOPED_TRACE(subject.name);
    Job job(*subject.device);
    // Steps of n tokens, of which n_good are kept.
    const auto pass = [&](uint32_t n_step, uint32_t n_good) {
      const DevPtr<float> state = job.in(std::vector<float>(all.slot_stride(), kNaN));
      std::vector<float> y;
      for (uint32_t done = 0; done < kTokens;) {
        const uint32_t n = std::min(n_step, kTokens - done), good = std::min(n, n_good);
        std::vector<float> x(xbc.begin() + done * row, xbc.begin() + (done + good) * row);
        x.insert(x.end(), wrong.begin(), wrong.begin() + (n - good) * row);
        const Sequence piece{.n_tokens = n, .first_pos = done, .slot = 0};
        const kernels::SsmScanArgs args{
            .y = job.out<float>(size_t{n} * all.n_x()),
            .xbc = job.in(x),
            .dt = job.in(std::vector<float>(dt.begin() + done * all.n_head, dt.begin() + (done + n) * all.n_head)),
            .dt_bias = job.in(all.dt_bias()),
            .a = job.in(all.a()),
            .d = job.in(all.d()),
            .state = state,
            .step = job.step(make_step(std::span(&piece, 1))),
            .size = all.size,
            .n_state = all.n_state,
            .n_head = all.n_head,
            .n_group = all.n_group,
            .dt_stride = all.n_head,
            .slot_stride = all.slot_stride(),
            .n_rows = kRows};
        job.launch(kKey, args, {1, all.n_head, 1});
        const std::vector<float> rows = job.read(args.y, size_t{n} * all.n_x());
        y.insert(y.end(), rows.begin(), rows.begin() + good * all.n_x());
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
