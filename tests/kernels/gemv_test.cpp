#include <set>

#include "backend/cpu/simd/tiers.h"
#include "support/matmul_case.h"

namespace sluice::test {
namespace {

SLUICE_KERNEL_CASES(Gemv, Group<MatmulCase>, matmul_cases(KernelId::gemv));

// What a tier must bring itself: without it a forced tier would quietly be the reference.
TEST(Gemv, Q03_every_tier_has_its_own_products) {
  for (const backend::cpu::Tier tier : backend::cpu::tiers()) {
    if (tier == backend::cpu::Tier::scalar) continue;
    SCOPED_TRACE(backend::cpu::tier_name(tier));
    for (const KernelId id : {KernelId::gemv, KernelId::gemm, KernelId::moe_gemv, KernelId::moe_gemm, KernelId::gate_up,
                              KernelId::moe_gate_up}) {
      for (const Type type : {Type::Q4_0, Type::Q8_0, Type::Q6_K}) {
        const KernelKey key{id, type, Layout::panel16, 0};
        std::set<backend::cpu::KernelFn> found;
        for (const backend::cpu::TierKernel& kernel : backend::cpu::kernels_of(tier)) {
          if (kernel.key == key) found.insert(kernel.fn);
        }
        EXPECT_EQ(found.size(), 1u) << kernel_name(id) << " of " << type_info(type).name;
      }
    }
  }
}

}  // namespace
}  // namespace sluice::test
