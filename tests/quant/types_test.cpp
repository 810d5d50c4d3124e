#include <gtest/gtest.h>

#include "quant/foreign.h"
#include "quant/quant.h"
#include "sluice/type.h"

namespace sluice {
namespace {

TEST(Types, EachRowIsFoundByIdAndName){
#define SLUICE_TYPE(TYPE, ID, BLOCK, BYTES, HEADER)                         \
  {                                                                         \
    const TypeInfo* info = find_type(uint32_t{ID});                         \
    ASSERT_NE(info, nullptr);                                               \
    EXPECT_EQ(info, find_type(std::string_view(#TYPE)));                    \
    EXPECT_EQ(info, &type_info(Type::TYPE));                                \
    EXPECT_EQ(info->name, #TYPE);                                           \
    EXPECT_EQ(info->block, uint32_t{BLOCK});                                \
    EXPECT_EQ(info->block_bytes, uint32_t{BYTES});                          \
    EXPECT_EQ(foreign_type_name(ID), #TYPE);                                \
    EXPECT_NE(quant::codec(Type::TYPE).dequantize, nullptr);                \
    EXPECT_EQ(quant::row_bytes(Type::TYPE, 512), 512u / (BLOCK) * (BYTES)); \
  }
#include "sluice/types.inc"
#undef SLUICE_TYPE
}

TEST(Types, UnknownOnesAreNone) {
  for (const uint32_t id : {4u, 5u, 31u, 36u, 255u, 256u, 0xffffffffu}) EXPECT_EQ(find_type(id), nullptr) << id;
  EXPECT_EQ(find_type("q4_0"), nullptr);
  EXPECT_EQ(find_type(""), nullptr);
}

TEST(Types, ForeignOnesHaveTheirPublishedNames) {
  EXPECT_EQ(foreign_type_name(12), "Q4_K");
  EXPECT_EQ(foreign_type_name(15), "Q8_K");
  EXPECT_EQ(foreign_type_name(39), "MXFP4");
  EXPECT_EQ(foreign_type_name(41), "Q1_0");
  EXPECT_EQ(foreign_type_name(4), "type 4");
  EXPECT_EQ(foreign_type_name(255), "type 255");
  EXPECT_EQ(foreign_type_name(256), "an unknown type");
  EXPECT_EQ(foreign_type_name(0xffffffffu), "an unknown type");
}

TEST(Types, ForeignSizes) {
  const quant::ForeignType* q8_k = quant::find_foreign_type(15);
  ASSERT_NE(q8_k, nullptr);
  EXPECT_EQ(q8_k->block, 256u);
  EXPECT_EQ(q8_k->block_bytes, 292u);
  EXPECT_EQ(quant::find_foreign_type(4), nullptr);
  for (uint32_t id = 0; id < 64; ++id) {
    if (const auto* type = quant::find_foreign_type(id)) {
      EXPECT_GT(type->block, 0u) << id;
      EXPECT_GT(type->block_bytes, 0u) << id;
      EXPECT_EQ(find_type(id), nullptr) << "type " << id << " stands in both tables";
    }
  }
}

}  // namespace
}  // namespace sluice
