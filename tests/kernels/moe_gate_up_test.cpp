#include "support/gated_case.h"

namespace sluice::test {
namespace {

SLUICE_KERNEL_CASES(MoeGateUp, Group<GatedCase>, gated_cases(KernelId::moe_gate_up));

TEST(MoeGateUp, equals_both_products_and_swiglu) { expect_equals_chain(KernelId::moe_gate_up); }

}  // namespace
}  // namespace sluice::test
