#include "support/gated_case.h"

namespace sluice::test {
namespace {

SLUICE_KERNEL_CASES(GateUp, Group<GatedCase>, gated_cases(KernelId::gate_up));

TEST(GateUp, equals_both_products_and_swiglu) { expect_equals_chain(KernelId::gate_up); }

}  // namespace
}  // namespace sluice::test
