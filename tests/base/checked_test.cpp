#include "base/checked.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(Checked, Add) {
  EXPECT_EQ(checked_add(UINT64_MAX - 1, 1), UINT64_MAX);
  EXPECT_EQ(checked_add(UINT64_MAX, 1), std::nullopt);
  EXPECT_EQ(checked_add(UINT64_MAX, UINT64_MAX), std::nullopt);
}

TEST(Checked, Multiply) {
  EXPECT_EQ(checked_mul(0, UINT64_MAX), 0u);
  EXPECT_EQ(checked_mul(UINT64_MAX, 0), 0u);
  EXPECT_EQ(checked_mul(1ull << 32, (1ull << 32) - 1), UINT64_MAX - (1ull << 32) + 1);
  EXPECT_EQ(checked_mul(1ull << 32, 1ull << 32), std::nullopt);
  EXPECT_EQ(checked_mul(3, UINT64_MAX / 3 + 1), std::nullopt);
}

TEST(Checked, AlignUp) {
  EXPECT_EQ(checked_align_up(0, 32), 0u);
  EXPECT_EQ(checked_align_up(1, 32), 32u);
  EXPECT_EQ(checked_align_up(32, 32), 32u);
  EXPECT_EQ(checked_align_up(UINT64_MAX - 30, 32), std::nullopt);
  EXPECT_TRUE(is_power_of_two(1));
  EXPECT_FALSE(is_power_of_two(0));
  EXPECT_FALSE(is_power_of_two(48));
}

}  // namespace
}  // namespace sluice
