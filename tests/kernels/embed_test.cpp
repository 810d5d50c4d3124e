#include "quant/panel.h"
#include "quant/quant.h"
#include "support/far_expert.h"
#include "support/matmul_case.h"

namespace sluice::test {
namespace {

struct EmbedCase {
  std::string name;
  Type type = Type::F32;
  Layout layout = Layout::row_major;
  uint32_t n_vocab = 40, k = 256;
  std::vector<uint> ids = {3};
  float scale = 1.0f;

  KernelKey key() const { return {KernelId::embed, type, layout, 0}; }

  Outputs run(Job& job) const {
    Step step = make_step(static_cast<uint32_t>(ids.size()));
    step.token = ids;
    const kernels::EmbedArgs args{.out = job.out<float>(ids.size() * k),
                                  .w = job.bytes(expert_weights(type, layout, n_vocab, k, 1)[0].bytes),
                                  .step = job.step(step),
                                  .k = k,
                                  .scale = scale};
    job.launch(key(), args, {ceil_div(k, 64), step.n_tokens(), 1});
    return {{.name = "out", .reals = reals(job.read(args.out, ids.size() * k)), .truth_bound = 1e-13, .tier_bound = 0}};
  }

  Outputs expected() const {
    const std::vector<float>& w = expert_weights(type, layout, n_vocab, k, 1)[0].values;
    std::vector<double> out;
    for (const uint id : ids) {
      for (size_t i = 0; i < k; ++i) out.push_back(double{w[id * k + i]} * double{scale});
    }
    return {{.name = "out", .reals = out}};
  }
};

std::vector<Group<EmbedCase>> cases() {
  std::vector<Group<EmbedCase>> groups;
  for (const auto& [type, layout] : weight_kinds()) {
    const char* suffix = layout == Layout::panel16 ? " panel16" : " row_major";
    groups.push_back({std::string(type_info(type).name) + suffix,
                      {{.name = "first, last and a repeated id", .type = type, .layout = layout, .ids = {0, 39, 7, 7}},
                       {.name = "scaled", .type = type, .layout = layout, .k = 512, .ids = {16, 15}, .scale = 11.5f},
                       {.name = "no tokens", .type = type, .layout = layout, .ids = {}}}});
  }
  return groups;
}

SLUICE_KERNEL_CASES(Embed, Group<EmbedCase>, cases());

// Rows whose element or byte offsets lie around 2^31 and 2^32.
TEST(Embed, M02_offsets_beyond_32_bits) {
  constexpr uint64_t kK = 12288, kVocab = 400'000;
  const SparseMemory matrix(kVocab * kK * sizeof(float));
  if (matrix.data() == nullptr) GTEST_SKIP() << "no address space";
  std::vector<uint> ids = {0, kVocab - 1};
  for (const uint64_t power : {uint64_t{1} << 29, uint64_t{1} << 30, uint64_t{1} << 31, uint64_t{1} << 32}) {
    for (uint64_t near = power / kK; near <= power / kK + 1; ++near) ids.push_back(static_cast<uint>(near));
  }
  for (const uint id : ids) reinterpret_cast<float*>(matrix.data())[id * kK + 77] = static_cast<float>(id + 1);
  for (const Subject& subject : subjects()) {
    const KernelKey key{KernelId::embed, Type::F32, Layout::row_major, 0};
    if (!subject.host_memory || !subject.device->has(key)) continue;
    SCOPED_TRACE(subject.name);
    Job job(*subject.device);
    Step step = make_step(static_cast<uint32_t>(ids.size()));
    step.token = ids;
    const kernels::EmbedArgs args{.out = job.out<float>(ids.size() * kK),
                                  .w = {reinterpret_cast<uint64_t>(matrix.data())},
                                  .step = job.step(step),
                                  .k = kK,
                                  .scale = 1.0f};
    job.launch(key, args, {ceil_div(kK, 64), step.n_tokens(), 1});
    const std::vector<float> out = job.read(args.out, ids.size() * kK);
    for (size_t i = 0; i < ids.size(); ++i) {
      ASSERT_EQ(out[i * kK + 77], static_cast<float>(ids[i] + 1));
      ASSERT_EQ(out[i * kK + 78], 0.0f);
    }
  }
}

TEST(Embed, M02_sizes_beyond_32_bits) {
  EXPECT_EQ(quant::row_bytes(Type::F32, uint64_t{1} << 30), uint64_t{1} << 32);
  EXPECT_EQ(quant::panel16_bytes(Type::Q8_0, 262144, 12288), uint64_t{262144} * 12288 / 32 * 34);
  EXPECT_EQ(quant::panel16_bytes(Type::Q4_0, 262143, 1 << 20), uint64_t{262144} * (1 << 20) / 32 * 18);
}

}  // namespace
}  // namespace sluice::test
