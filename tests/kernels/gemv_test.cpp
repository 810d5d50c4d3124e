#include <set>

#include "backend/cpu/simd/tiers.h"
#include "quant/panel.h"
#include "support/matmul_case.h"
#include "support/types.h"

namespace sluice::test {
namespace {

SLUICE_KERNEL_CASES(Gemv, Group<MatmulCase>, matmul_cases(KernelId::gemv));

// What a tier must bring itself: without it a forced tier would quietly be the reference.
TEST(Gemv, Q03_every_tier_has_its_own_products) {
  for (const backend::cpu::Tier tier : backend::cpu::tiers()) {
    if (tier == backend::cpu::Tier::scalar) continue;
    SCOPED_TRACE(backend::cpu::tier_name(tier));
    const auto n_found = [&](const KernelKey& key) {
      std::set<backend::cpu::KernelFn> found;
      for (const backend::cpu::TierKernel& kernel : backend::cpu::kernels_of(tier)) {
        if (kernel.key == key) found.insert(kernel.fn);
      }
      return found.size();
    };
    for (const KernelId id : {KernelId::gemv, KernelId::gemm, KernelId::moe_gemv, KernelId::moe_gemm, KernelId::gate_up,
                              KernelId::moe_gate_up}) {
      const bool gated = id == KernelId::gate_up || id == KernelId::moe_gate_up;
      for (const Type type : kAllTypes) {
        SCOPED_TRACE(std::string(kernel_name(id)) + " of " + std::string(type_info(type).name));
        EXPECT_EQ(n_found({id, type, Layout::panel16, 0}), quant::has_panel16(type) ? 1u : 0u);
        // The tier below this one has them.
        if (tier == backend::cpu::Tier::neon_i8mm || gated) continue;
        EXPECT_EQ(n_found({id, type, Layout::row_major, 0}), 1u);
      }
    }
  }
}

}  // namespace
}  // namespace sluice::test
