#include "quant/panel.h"

#include <gtest/gtest.h>

#include <random>

#include "quant/half.h"
#include "quant/quant.h"

namespace sluice::quant {
namespace {

constexpr Type kPanelTypes[] = {Type::Q4_0,   Type::Q8_0,  Type::Q6_K, Type::Q4_K, Type::Q5_K,
                                Type::IQ4_NL, Type::MXFP4, Type::Q4_1, Type::Q5_0, Type::Q5_1};

struct Matrix {
  std::vector<std::byte> rows, panels;
  std::vector<float> values;
};

Matrix make(Type type, size_t m, size_t k) {
  Matrix matrix;
  std::mt19937 random(static_cast<unsigned>(m + k));
  std::vector<float> x(m * k);
  for (float& v : x) v = static_cast<float>(random() % 2001) / 1000.0f - 1.0f;
  const size_t row = row_bytes(type, k);
  matrix.rows.resize(m * row);
  matrix.values.resize(m * k);
  for (size_t r = 0; r < m; ++r) {
    codec(type).quantize(&x[r * k], &matrix.rows[r * row], k);
    codec(type).dequantize(&matrix.rows[r * row], &matrix.values[r * k], k);
  }
  matrix.panels.assign(panel16_bytes(type, m, k), std::byte{0xff});
  pack_panel16(type, matrix.rows.data(), m, k, matrix.panels.data());
  return matrix;
}

unsigned at(const Matrix& matrix, size_t byte) { return std::to_integer<unsigned>(matrix.panels[byte]); }
float half_at(const Matrix& matrix, size_t byte) {
  return f16_to_f32(static_cast<uint16_t>(at(matrix, byte) | at(matrix, byte + 1) << 8));
}

TEST(Panel16, has_the_size_of_whole_panels_in_the_file) {
  for (const Type type : kPanelTypes) {
    EXPECT_EQ(panel16_bytes(type, 16, 512), 16 * row_bytes(type, 512));
    EXPECT_EQ(panel16_bytes(type, 17, 512), 32 * row_bytes(type, 512));
    EXPECT_EQ(panel16_bytes(type, 0, 512), 0u);
  }
  EXPECT_FALSE(has_panel16(Type::F32));
  EXPECT_FALSE(has_panel16(Type::BF16));
}

TEST(Panel16, rows_come_back) {
  for (const Type type : kPanelTypes) {
    EXPECT_TRUE(has_panel16(type));
    for (const size_t m : {1u, 3u, 15u, 16u, 17u, 33u}) {
      constexpr size_t kK = 512;
      const Matrix matrix = make(type, m, kK);
      for (size_t r = 0; r < m; ++r) {
        std::vector<float> row(kK), scales(kK / 16), mins(kK / 32);
        std::vector<int8_t> codes(kK);
        panel16_row(type, matrix.panels.data(), r, kK, row.data());
        ASSERT_EQ(row, std::vector<float>(&matrix.values[r * kK], &matrix.values[r * kK] + kK));
        const PanelGroups groups =
            panel16_codes(type, matrix.panels.data(), r, kK, codes.data(), scales.data(), mins.data());
        for (size_t c = 0; c < kK; ++c) {
          const size_t g = c / groups.n_columns;
          const float product = static_cast<float>(codes[c]) * scales[g];
          ASSERT_EQ(groups.has_mins ? product - mins[g] : product, row[c]);
        }
      }
    }
  }
}

TEST(Panel16, padding_rows_are_zero) {
  for (const Type type : kPanelTypes) {
    const Matrix matrix = make(type, 17, 256);
    for (size_t r = 17; r < 32; ++r) {
      std::vector<float> row(256, 1.0f);
      panel16_row(type, matrix.panels.data(), r, 256, row.data());
      for (const float v : row) ASSERT_EQ(v, 0.0f);
    }
  }
}

TEST(Panel16, whole_panels_can_be_packed_apart) {
  for (const Type type : kPanelTypes) {
    const Matrix matrix = make(type, 40, 256);
    std::vector<std::byte> panels(matrix.panels.size());
    const size_t row = row_bytes(type, 256);
    pack_panel16(type, matrix.rows.data() + 16 * row, 24, 256, panels.data() + 16 * row);
    pack_panel16(type, matrix.rows.data(), 16, 256, panels.data());
    EXPECT_EQ(panels, matrix.panels);
  }
}

// Where panel.h says each weight lies, read without the packer.
TEST(Panel16, bytes_lie_as_documented) {
  constexpr size_t kK = 512, kM = 16;
  const Matrix q4 = make(Type::Q4_0, kM, kK), q8 = make(Type::Q8_0, kM, kK), q6 = make(Type::Q6_K, kM, kK);
  for (size_t r = 0; r < kM; ++r) {
    for (size_t c = 0; c < kK; ++c) {
      const size_t b = c / 32, in = c % 32, half = in / 16, j = in % 16 / 4, i = in % 4;
      const size_t nibble_shift = 4 * half;

      const unsigned q4_code = at(q4, b * 256 + j * 64 + r * 4 + i) >> nibble_shift & 15;
      const float q4_d = half_at(q4, kK / 32 * 256 + (b * 16 + r) * 2);
      ASSERT_EQ((static_cast<float>(q4_code) - 8) * q4_d, q4.values[r * kK + c]);

      const unsigned q8_code = at(q8, b * 512 + in / 4 * 64 + r * 4 + i);
      const float q8_d = half_at(q8, kK / 32 * 512 + (b * 16 + r) * 2);
      ASSERT_EQ((static_cast<float>(q8_code) - 128) * q8_d, q8.values[r * kK + c]);

      const unsigned low = at(q6, b * 384 + j * 64 + r * 4 + i) >> nibble_shift & 15;
      const unsigned high = at(q6, b * 384 + (4 + half) * 64 + r * 4 + i) >> (2 * j) & 3;
      const size_t scales = kK / 32 * 384, supers = scales + kK / 16 * 16;
      const auto scale = static_cast<int8_t>(at(q6, scales + c / 16 * 16 + r));
      const float q6_d = half_at(q6, supers + (c / 256 * 16 + r) * 2) * static_cast<float>(scale);
      ASSERT_EQ((static_cast<float>(low | high << 4) - 32) * q6_d, q6.values[r * kK + c]);
    }
  }
}

}  // namespace
}  // namespace sluice::quant
