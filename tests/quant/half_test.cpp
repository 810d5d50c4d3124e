#include "quant/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace sluice::quant {
namespace {

// The value of a finite half by its definition.
double defined_value(uint32_t half) {
  const int exponent = half >> 10 & 31, mantissa = half & 1023;
  const double magnitude = exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return half & 0x8000 ? -magnitude : magnitude;
}

TEST(Half, EveryHalfDecodesToItsValueAndBack) {
  for (uint32_t half = 0; half < 65536; ++half) {
    const float value = f16_to_f32(static_cast<uint16_t>(half));
    if ((half & 0x7c00) != 0x7c00) {
      ASSERT_EQ(value, defined_value(half)) << half;
      ASSERT_EQ(std::signbit(value), (half & 0x8000) != 0) << half;
    } else if ((half & 0x3ff) == 0) {
      ASSERT_TRUE(std::isinf(value)) << half;
    } else {
      ASSERT_TRUE(std::isnan(value)) << half;
    }
    const uint32_t quiet = std::isnan(value) ? 0x200u : 0u;
    ASSERT_EQ(f32_to_f16(value), half | quiet) << half;
  }
}

TEST(Half, RoundsToNearestEven) {
  for (uint32_t half = 0; half < 0x7bff; ++half) {
    const auto low = static_cast<uint16_t>(half), high = static_cast<uint16_t>(half + 1);
    const auto middle = static_cast<float>((defined_value(low) + defined_value(high)) / 2);
    const float infinity = std::numeric_limits<float>::infinity();
    ASSERT_EQ(f32_to_f16(middle), half % 2 == 0 ? low : high) << half;
    ASSERT_EQ(f32_to_f16(std::nextafter(middle, 0.0f)), low) << half;
    ASSERT_EQ(f32_to_f16(std::nextafter(middle, infinity)), high) << half;
    ASSERT_EQ(f32_to_f16(-middle), (half % 2 == 0 ? low : high) | 0x8000) << half;
  }
}

TEST(Half, Limits) {
  EXPECT_EQ(f32_to_f16(65504.0f), 0x7bff);
  EXPECT_EQ(f32_to_f16(std::nextafter(65520.0f, 0.0f)), 0x7bff);
  EXPECT_EQ(f32_to_f16(65520.0f), 0x7c00);
  EXPECT_EQ(f32_to_f16(std::numeric_limits<float>::max()), 0x7c00);
  EXPECT_EQ(f32_to_f16(-std::numeric_limits<float>::infinity()), 0xfc00);
  EXPECT_EQ(f32_to_f16(0x1p-25f), 0x0000);  // a tie: to the even zero
  EXPECT_EQ(f32_to_f16(std::nextafter(0x1p-25f, 1.0f)), 0x0001);
  EXPECT_EQ(f32_to_f16(-0.0f), 0x8000);
  EXPECT_EQ(f32_to_f16(std::numeric_limits<float>::denorm_min()), 0x0000);
  EXPECT_EQ(f32_to_f16(std::bit_cast<float>(0x7f800001u)), 0x7e00);
}

TEST(Bfloat, RoundsToNearestEvenAndKeepsSpecialValues) {
  EXPECT_EQ(f32_to_bf16(1.0f), 0x3f80);
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3f808000u)), 0x3f80);  // ties
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3f818000u)), 0x3f82);
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3f808001u)), 0x3f81);
  EXPECT_EQ(f32_to_bf16(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_EQ(f32_to_bf16(-std::numeric_limits<float>::infinity()), 0xff80);
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x7f800001u)), 0x7fc0);  // not infinity
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const float value = bf16_to_f32(static_cast<uint16_t>(bits));
    ASSERT_EQ(f32_to_bf16(value), bits | (std::isnan(value) ? 0x40u : 0u)) << bits;
  }
}

}  // namespace
}  // namespace sluice::quant
