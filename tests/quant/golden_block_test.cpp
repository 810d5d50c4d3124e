// Blocks written out by hand from the format, and those of tests/fixtures/blocks; the exact values that they decode to.
#include <gtest/gtest.h>

#include <bit>
#include <cctype>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "quant/quant.h"
#include "support/gguf_builder.h"
#include "support/source_dir.h"
#include "support/types.h"

namespace sluice::quant {
namespace {

std::vector<float> decode(Type type, const std::vector<uint8_t>& bytes, size_t n) {
  std::vector<float> out(n, -1e30f);
  EXPECT_EQ(bytes.size(), row_bytes(type, n));
  codec(type).dequantize(reinterpret_cast<const std::byte*>(bytes.data()), out.data(), n);
  return out;
}

TEST(GoldenBlocks, F32) {
  EXPECT_EQ(decode(Type::F32, {0x00, 0x00, 0x80, 0x3f, 0x00, 0x00, 0x20, 0xc1}, 2), (std::vector<float>{1.0f, -10.0f}));
}

TEST(GoldenBlocks, F16) {
  EXPECT_EQ(decode(Type::F16, {0x00, 0x3c, 0x00, 0xc9, 0x01, 0x00}, 3), (std::vector<float>{1.0f, -10.0f, 0x1p-24f}));
}

TEST(GoldenBlocks, BF16) {
  EXPECT_EQ(decode(Type::BF16, {0x80, 0x3f, 0x20, 0xc1}, 2), (std::vector<float>{1.0f, -10.0f}));
}

TEST(GoldenBlocks, Q4_0) {
  std::vector<uint8_t> block = {0x00, 0x38};  // d = 0.5
  for (int i = 0; i < 16; ++i) block.push_back(static_cast<uint8_t>(i | (15 - i) << 4));
  const auto values = decode(Type::Q4_0, block, 32);
  for (int i = 0; i < 16; ++i) {
    EXPECT_EQ(values[i], (i - 8) * 0.5f) << i;
    EXPECT_EQ(values[i + 16], (7 - i) * 0.5f) << i;
  }
}

TEST(GoldenBlocks, Q8_0) {
  std::vector<uint8_t> block = {0x00, 0xb4};  // d = -0.25
  for (int i = 0; i < 32; ++i) block.push_back(static_cast<uint8_t>(i * 8 - 128));
  const auto values = decode(Type::Q8_0, block, 32);
  for (int i = 0; i < 32; ++i) EXPECT_EQ(values[i], (i * 8 - 128) * -0.25f) << i;
}

TEST(GoldenBlocks, Q6_K) {
  std::vector<uint8_t> block(210, 0);
  uint8_t *ql = block.data(), *qh = ql + 128, *scales = ql + 192;
  block[208] = 0x00, block[209] = 0x3c;  // d = 1
  for (int g = 0; g < 16; ++g) scales[g] = static_cast<uint8_t>(g + 1);
  scales[15] = 0x80;  // -128
  // First half, column 0: weights 0, 32, 64, 96.
  ql[0] = 0xa3, ql[32] = 0x5c, qh[0] = 0b11100100;
  // Second half, column 31: weights 159, 191, 223, 255.
  ql[64 + 31] = 0xf0, ql[96 + 31] = 0x0f, qh[32 + 31] = 0b11000011;
  const auto values = decode(Type::Q6_K, block, 256);
  EXPECT_EQ(values[0], (0x03 - 32) * 1.0f);
  EXPECT_EQ(values[32], (0x1c - 32) * 3.0f);
  EXPECT_EQ(values[64], (0x2a - 32) * 5.0f);
  EXPECT_EQ(values[96], (0x35 - 32) * 7.0f);
  EXPECT_EQ(values[159], (0x30 - 32) * 10.0f);
  EXPECT_EQ(values[191], (0x0f - 32) * 12.0f);
  EXPECT_EQ(values[223], (0x0f - 32) * 14.0f);
  EXPECT_EQ(values[255], (0x30 - 32) * -128.0f);
  EXPECT_EQ(values[1], -32.0f);  // untouched codes are 0
  EXPECT_EQ(values[17], -64.0f);
}

TEST(GoldenBlocks, EveryTypeDecodesItsFixture) {
  for (const Type type : test::kAllTypes) {
    const TypeInfo& info = type_info(type);
    if (info.block == 1) continue;
    SCOPED_TRACE(info.name);
    std::string name(info.name);
    for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    std::ifstream in(test::source_dir() / "tests" / "fixtures" / "blocks" / (name + ".bin"), std::ios::binary);
    const std::string file(std::istreambuf_iterator<char>(in), {});
    const size_t n = 2 * size_t{info.block}, n_bytes = 2 * size_t{info.block_bytes};
    ASSERT_EQ(file.size(), n_bytes + n * sizeof(float));
    std::vector<float> expected(n);
    std::memcpy(expected.data(), file.data() + n_bytes, n * sizeof(float));
    EXPECT_EQ(decode(type, {file.begin(), file.begin() + static_cast<ptrdiff_t>(n_bytes)}, n), expected);
  }
}

// FNV-1a of the bits of finite values, by words.
uint64_t hash_of(const std::vector<float>& values) {
  uint64_t hash = 14695981039346656037u;
  for (const float v : values) hash = (hash ^ (std::isfinite(v) ? std::bit_cast<uint32_t>(v) : 0)) * 1099511628211u;
  return hash;
}

// Random bytes, enough of them to meet every entry of a codebook; hashes of the Python package gguf.
TEST(GoldenBlocks, RandomBlocksOfTypesThatAreOnlyRead) {
  const std::map<Type, uint64_t> kExpected = {{Type::IQ2_XXS, 0x830542bdc64940b5}, {Type::IQ2_XS, 0xec1003d0bb865801},
                                              {Type::IQ3_XXS, 0x6d7a3d1c980967a5}, {Type::IQ1_S, 0x036bc1ef03a80445},
                                              {Type::IQ3_S, 0x2601969b30c0da95},   {Type::IQ2_S, 0x3b5670433057b4fd},
                                              {Type::IQ1_M, 0xdee93187f08158a5},   {Type::TQ1_0, 0xc7e230381a8ae325},
                                              {Type::TQ2_0, 0x45d3c7b23c92e325},   {Type::NVFP4, 0x755b2a9b7efa2325}};
  for (const Type type : test::kAllTypes) {
    if (!test::is_read_only(type)) continue;
    SCOPED_TRACE(type_info(type).name);
    constexpr size_t kBlocks = 1024;
    std::vector<float> values(kBlocks * type_info(type).block);
    const auto bytes = test::random_bytes(kBlocks * type_info(type).block_bytes, static_cast<uint32_t>(type));
    codec(type).dequantize(bytes.data(), values.data(), values.size());
    ASSERT_TRUE(kExpected.contains(type));
    EXPECT_EQ(hash_of(values), kExpected.at(type));
  }
}

TEST(GoldenBlocks, RowsOfSeveralBlocksAreBlocksInOrder) {
  std::vector<uint8_t> row;
  for (const uint8_t high : {0x3c, 0x40}) {  // d = 1, 2
    row.push_back(0x00), row.push_back(high);
    row.insert(row.end(), 32, 3);
  }
  const auto values = decode(Type::Q8_0, row, 64);
  EXPECT_EQ(values[31], 3.0f);
  EXPECT_EQ(values[32], 6.0f);
}

}  // namespace
}  // namespace sluice::quant
