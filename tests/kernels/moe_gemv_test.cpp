#include "support/far_expert.h"
#include "support/matmul_case.h"

namespace sluice::test {
namespace {

SLUICE_KERNEL_CASES(MoeGemv, Group<MoeCase>, moe_cases(KernelId::moe_gemv));

TEST(MoeGemv, M01_expert_beyond_4_gib) { expect_far_expert(KernelId::moe_gemv); }

}  // namespace
}  // namespace sluice::test
