#include "support/far_expert.h"
#include "support/matmul_case.h"

namespace sluice::test {
namespace {

SLUICE_KERNEL_CASES(MoeGemm, Group<MoeCase>, moe_cases(KernelId::moe_gemm));
SLUICE_MATRIX_CASES(MoeGemmMatrix, Group<MoeCase>, moe_matrix_cases());

TEST(MoeGemm, M01_expert_beyond_4_gib) { expect_far_expert(KernelId::moe_gemm); }

// The decode chain and the prefill chain must agree to the bit.
TEST(MoeGemm, equals_moe_gemv) {
  for (const auto& [type, layout] : weight_kinds()) {
    for (const uint32_t by_entry : {0u, 1u}) {
      MoeCase c{.id = KernelId::moe_gemv,
                .type = type,
                .layout = layout,
                .m = 33,
                .k = 512,
                .n_used = 3,
                .n_tokens = 21,
                .x_by_entry = by_entry};
      MoeCase grouped = c;
      grouped.id = KernelId::moe_gemm;
      for (const Subject& subject : subjects()) {
        if (!subject.device->has(c.key()) || !subject.device->has(grouped.key())) continue;
        SCOPED_TRACE(subject.name + ", " + std::string(type_info(type).name));
        Job job(*subject.device), grouped_job(*subject.device);
        ASSERT_EQ(c.run(job)[0].reals, grouped.run(grouped_job)[0].reals);
      }
    }
  }
}

}  // namespace
}  // namespace sluice::test
