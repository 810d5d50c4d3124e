// Says why there is no GPU here, whatever this build has.
#include "support/gpu.h"

namespace sluice::test {
namespace {

TEST(Gpu, VulkanIsHere) { SLUICE_NEED_VULKAN(); }

}  // namespace
}  // namespace sluice::test
