#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "quant/q4_0.h"
#include "quant/q6_k.h"
#include "quant/q8_0.h"
#include "quant/quant.h"
#include "support/gguf_builder.h"
#include "support/types.h"

namespace sluice::quant {
namespace {

std::vector<float> there_and_back(Type type, const std::vector<float>& x) {
  std::vector<std::byte> bytes(row_bytes(type, x.size()));
  std::vector<float> out(x.size());
  codec(type).quantize(x.data(), bytes.data(), x.size());
  codec(type).dequantize(bytes.data(), out.data(), x.size());
  return out;
}

// Root of (squared error / squared values).
double relative_rmse(const std::vector<float>& x, const std::vector<float>& y) {
  double error = 0, total = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    error += (double{x[i]} - y[i]) * (double{x[i]} - y[i]);
    total += double{x[i]} * x[i];
  }
  return std::sqrt(error / total);
}

TEST(Quantize, Q4_0TakesTheExtremeWeightAsMinusEight) {
  std::vector<float> x(32, 0.0f);
  x[3] = 4.0f, x[20] = -2.0f, x[31] = 0.2f;  // extreme 4: d = -0.5
  std::vector<std::byte> bytes(18);
  q4_0::quantize_row(x.data(), bytes.data(), 32);
  EXPECT_EQ(bytes[0], std::byte{0x00});
  EXPECT_EQ(bytes[1], std::byte{0xb8});
  EXPECT_EQ(bytes[2 + 3], std::byte{0x80});   // weight 3: code 0, weight 19: code 8
  EXPECT_EQ(bytes[2 + 4], std::byte{0xc8});   // weight 20: -2 / -0.5 + 8 = 12
  EXPECT_EQ(bytes[2 + 15], std::byte{0x88});  // weight 31: 0.2 / -0.5 + 8.5 = 8.1
}

TEST(Quantize, Q8_0RoundsHalfAwayFromZero) {
  std::vector<float> x(32, 0.0f);
  x[0] = 127.0f, x[1] = 0.5f, x[2] = -0.5f, x[3] = 1.49f, x[4] = -127.0f;  // d = 1
  std::vector<std::byte> bytes(34);
  q8_0::quantize_row(x.data(), bytes.data(), 32);
  const int expected[] = {127, 1, -1, 1, -127};
  for (int i = 0; i < 5; ++i) EXPECT_EQ(static_cast<int8_t>(bytes[2 + i]), expected[i]) << i;
}

TEST(Quantize, ZerosStayZeros) {
  for (const Type type : test::kAllTypes) {
    if (test::is_read_only(type)) continue;
    SCOPED_TRACE(type_info(type).name);
    for (const float v : there_and_back(type, std::vector<float>(512, 0.0f))) ASSERT_EQ(v, 0.0f);
  }
}

TEST(Quantize, ErrorsOfNormalWeights) {
  const auto x = test::random_values(256 * 64, 7, 0.05f);
  EXPECT_EQ(there_and_back(Type::F32, x), x);
  EXPECT_LT(relative_rmse(x, there_and_back(Type::F16, x)), 3e-4);
  EXPECT_LT(relative_rmse(x, there_and_back(Type::BF16, x)), 2e-3);
  EXPECT_LT(relative_rmse(x, there_and_back(Type::Q8_0, x)), 6e-3);
  EXPECT_LT(relative_rmse(x, there_and_back(Type::Q6_K, x)), 0.0175);
  EXPECT_LT(relative_rmse(x, there_and_back(Type::Q4_0, x)), 0.09);
}

// What ggml's quantisers have on these weights: no more than 5 % above it.
TEST(Quantize, ErrorsOfNormalWeightsAreThoseOfTheField) {
  const auto x = test::random_values(256 * 64, 7, 0.05f);
  const std::pair<Type, double> kTheirs[] = {{Type::Q2_K, 0.28742},   {Type::Q3_K, 0.14684},  {Type::Q4_K, 0.06949},
                                             {Type::Q5_K, 0.03507},   {Type::Q6_K, 0.01701},  {Type::Q4_1, 0.07639},
                                             {Type::Q5_0, 0.04118},   {Type::Q5_1, 0.03682},  {Type::MXFP4, 0.11666},
                                             {Type::IQ4_NL, 0.07727}, {Type::IQ4_XS, 0.07511}};
  for (const auto& [type, theirs] : kTheirs) {
    EXPECT_LT(relative_rmse(x, there_and_back(type, x)), 1.05 * theirs) << type_info(type).name;
  }
}

TEST(Quantize, TypesWithAMinKeepOneSidedGroups) {
  for (const float sign : {1.0f, -1.0f}) {
    auto x = test::random_values(256 * 16, 13, 0.1f);
    for (float& v : x) v = sign * std::fabs(v);
    EXPECT_LT(relative_rmse(x, there_and_back(Type::Q4_K, x)), 0.045) << sign;
    EXPECT_LT(relative_rmse(x, there_and_back(Type::Q5_K, x)), 0.0225) << sign;
  }
}

TEST(Quantize, GroupsOfOneValueStayIt) {
  for (const Type type : {Type::Q4_1, Type::Q5_1, Type::Q2_K, Type::Q4_K, Type::Q5_K}) {
    for (const float value : {0.25f, -0.25f}) {
      for (const float v : there_and_back(type, std::vector<float>(256, value)))
        ASSERT_NEAR(v, value, 3e-4f) << type_info(type).name;
    }
  }
}

TEST(Quantize, Q6_KIsExactWhereItCanBe) {
  // 16 groups of scales -128..127, each holding the codes -32..31 that its step makes.
  std::vector<float> x(256);
  for (size_t w = 0; w < 256; ++w) x[w] = (w < 16 ? -128.0f : static_cast<float>(w / 16 * 8)) * 0.125f;
  for (size_t w = 0; w < 256; ++w) x[w] *= static_cast<float>(w % 16 == 0 ? -32 : static_cast<int>(w % 16) * 2 - 16);
  EXPECT_EQ(there_and_back(Type::Q6_K, x), x);
}

TEST(Quantize, Q6_KGroupsOfUnequalScale) {
  auto x = test::random_values(256 * 16, 11);
  for (size_t i = 0; i < x.size(); ++i) x[i] *= std::exp2(-static_cast<float>(i / 16 % 5));
  EXPECT_LT(relative_rmse(x, there_and_back(Type::Q6_K, x)), 0.02);
}

TEST(Quantize, UnusualWeightsDoNoHarm) {
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const float tiny = std::numeric_limits<float>::denorm_min(), huge = std::numeric_limits<float>::max();
  for (const Type type : test::kAllTypes) {
    if (type_info(type).block == 1 || test::is_read_only(type)) continue;
    SCOPED_TRACE(type_info(type).name);
    for (const float special : {infinity, -infinity, nan, tiny, -tiny, huge, -huge, 1e-38f, 1e-20f, 1e6f}) {
      std::vector<float> x(256, 0.25f);
      x[17] = special;
      const auto mixed = there_and_back(type, x);
      const auto alone = there_and_back(type, std::vector<float>(256, special));
      if (std::fabs(special) < 1e-6f) {
        ASSERT_LT(std::fabs(mixed[17]), 0.02f);
        for (const float v : alone) ASSERT_LT(std::fabs(v), 1e-6f);
      }
      // The blocks beside it are untouched.
      if (type_info(type).block <= 32) {
        ASSERT_NEAR(mixed[64], 0.25f, 0.002f);
      }
    }
  }
}

}  // namespace
}  // namespace sluice::quant
