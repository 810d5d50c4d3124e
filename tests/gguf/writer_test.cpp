#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "gguf/expect.h"
#include "quant/quant.h"
#include "support/temp_dir.h"

namespace sluice::gguf {
namespace {

size_t n_entries(const std::filesystem::path& folder) {
  return static_cast<size_t>(
      std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator{}));
}

Value make(Kind kind, decltype(Value::data) data, Kind element = Kind::u32) {
  Value value;
  value.kind = kind;
  value.element = element;
  value.data = std::move(data);
  return value;
}

bool same(const Value& a, const Value& b);

bool same(const Array& a, const Array& b) {
  if (a.index() != b.index()) return false;
  if (const auto* va = std::get_if<std::vector<Value>>(&a)) {
    return std::ranges::equal(*va, std::get<std::vector<Value>>(b),
                              [](const Value& x, const Value& y) { return same(x, y); });
  }
  return std::visit(
      [&](const auto& va) {
        using V = std::decay_t<decltype(va)>;
        if constexpr (std::is_same_v<V, std::vector<Value>>)
          return false;
        else
          return va == std::get<V>(b);
      },
      a);
}

bool same(const Value& a, const Value& b) {
  if (a.kind != b.kind || a.data.index() != b.data.index()) return false;
  if (const Array* array = a.as_array()) return a.element == b.element && same(*array, *b.as_array());
  if (const auto* v = std::get_if<uint64_t>(&a.data)) return *v == std::get<uint64_t>(b.data);
  if (const auto* v = std::get_if<int64_t>(&a.data)) return *v == std::get<int64_t>(b.data);
  if (const auto* v = std::get_if<double>(&a.data)) {
    const double w = std::get<double>(b.data);
    return *v == w || (std::isnan(*v) && std::isnan(w));
  }
  return *a.as_string() == *b.as_string();
}

const std::vector<std::pair<std::string, Value>>& all_kinds() {
  using Unsigned = std::vector<uint64_t>;
  using Signed = std::vector<int64_t>;
  using Floats = std::vector<double>;
  static const std::vector<std::pair<std::string, Value>> kAll = {
      {"u8", make(Kind::u8, uint64_t{255})},
      {"i8", make(Kind::i8, int64_t{-128})},
      {"u16", make(Kind::u16, uint64_t{65535})},
      {"i16", make(Kind::i16, int64_t{-32768})},
      {"u32", Value::of(0xffffffffu)},
      {"i32", Value::of(std::numeric_limits<int32_t>::min())},
      {"f32", Value::of(-0.1f)},
      {"nan", Value::of(std::numeric_limits<float>::quiet_NaN())},
      {"inf", Value::of(-std::numeric_limits<float>::infinity())},
      {"true", Value::of(true)},
      {"false", Value::of(false)},
      {"string", Value::of(std::string("a\0\xff \n", 6))},
      {"empty", Value::of("")},
      {"u64", Value::of(UINT64_MAX)},
      {"i64", Value::of(INT64_MIN)},
      {"f64", Value::of(0.1)},
      {"u8s", make(Kind::array, Array(Unsigned{0, 255}), Kind::u8)},
      {"i8s", make(Kind::array, Array(Signed{-128, 127}), Kind::i8)},
      {"u16s", make(Kind::array, Array(Unsigned{65535}), Kind::u16)},
      {"i16s", make(Kind::array, Array(Signed{-1, 1}), Kind::i16)},
      {"u32s", Value::of(std::vector<uint32_t>{1, 0xffffffffu})},
      {"i32s", Value::of(std::vector<int32_t>{-1, 5, 0})},
      {"f32s", Value::of(std::vector<float>{0.5f, -0.0f, 1e-40f})},
      {"bools", make(Kind::array, Array(Unsigned{1, 0, 1}), Kind::boolean)},
      {"strings", Value::of(std::vector<std::string>{"", "ж", std::string(1000, 'z')})},
      {"u64s", make(Kind::array, Array(Unsigned{UINT64_MAX}), Kind::u64)},
      {"i64s", make(Kind::array, Array(Signed{INT64_MIN, INT64_MAX}), Kind::i64)},
      {"f64s", make(Kind::array, Array(Floats{0.1, 1e300}), Kind::f64)},
      {"no strings", Value::of(std::vector<std::string>{})},
      {"nested",
       make(Kind::array,
            Array(std::vector<Value>{Value::of(std::vector<uint32_t>{1, 2}), Value::of(std::vector<std::string>{"x"}),
                                     Value::of(std::vector<float>{})}),
            Kind::array)},
  };
  return kAll;
}

TEST(GgufWriter, EveryKindComesBack) {
  const test::TempDir dir;
  const std::string path = dir.file("out.gguf");
  auto writer = Writer::create(path);
  ASSERT_TRUE(writer) << writer.error().message;
  for (const auto& [key, value] : all_kinds()) writer->set(key, value);
  ASSERT_TRUE(writer->write_header());
  EXPECT_FALSE(std::filesystem::exists(path));
  ASSERT_TRUE(writer->finish());
  const auto file = File::open(path);
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->version(), 3u);
  ASSERT_EQ(file->metadata().size(), all_kinds().size());
  for (size_t i = 0; i < all_kinds().size(); ++i) {
    EXPECT_EQ(file->metadata()[i].key, all_kinds()[i].first);
    EXPECT_TRUE(same(file->metadata()[i].value, all_kinds()[i].second)) << all_kinds()[i].first;
  }
}

// Two pieces of code that were written apart give the same bytes.
TEST(GgufWriter, WritesWhatTheBuilderBuilds) {
  for (const uint32_t alignment : {0u, 8u, 64u, 4096u}) {
    test::GgufBuilder builder;
    const test::TempDir dir;
    auto writer = Writer::create(dir.file("out.gguf"));
    ASSERT_TRUE(writer);
    for (const auto& [key, value] : all_kinds()) {
      builder.set(key, value);
      writer->set(key, Value::of("replaced below"));
      writer->set(key, value);
    }
    if (alignment != 0) {
      builder.set("general.alignment", Value::of(alignment));
      writer->set("general.alignment", Value::of(alignment));
    }
    std::vector<std::vector<std::byte>> data;
    for (const auto& [name, dims, type] : {std::tuple{"a", std::vector<uint64_t>{3}, Type::F32},
                                           {"b", std::vector<uint64_t>{32, 3}, Type::Q4_0},
                                           {"c", std::vector<uint64_t>{256, 1, 2, 1}, Type::Q6_K},
                                           {"d", std::vector<uint64_t>{5, 5}, Type::BF16}}) {
      uint64_t n = 1;
      for (const uint64_t dim : dims) n *= dim;
      const auto values = test::random_values(n, 3);
      builder.add(name, dims, type, values);
      ASSERT_TRUE(writer->declare(name, dims, type));
      data.emplace_back(quant::row_bytes(type, n));
      quant::codec(type).quantize(values.data(), data.back().data(), n);
    }
    ASSERT_TRUE(writer->write_header());
    for (const auto& bytes : data) {  // in pieces
      ASSERT_TRUE(writer->data(std::span(bytes).first(5)));
      ASSERT_TRUE(writer->data({}));
      ASSERT_TRUE(writer->data(std::span(bytes).subspan(5)));
    }
    ASSERT_TRUE(writer->finish());
    EXPECT_EQ(test::read_bytes(dir.file("out.gguf")), builder.bytes());
    EXPECT_EQ(n_entries(dir.path()), 1u);
  }
}

TEST(GgufWriter, WithoutFinishNothingIsLeft) {
  const test::TempDir dir;
  test::write_text(dir.file("out.gguf"), "old");
  {
    auto writer = Writer::create(dir.file("out.gguf"));
    ASSERT_TRUE(writer);
    ASSERT_TRUE(writer->declare("w", {32}, Type::F32));
    ASSERT_TRUE(writer->write_header());
    ASSERT_TRUE(writer->data(std::vector<std::byte>(100)));
    const auto early = writer->finish();
    ASSERT_FALSE(early);
    EXPECT_NE(early.error().message.find("tensor 'w' is not complete"), std::string::npos);
  }
  EXPECT_EQ(n_entries(dir.path()), 1u);
  EXPECT_EQ(test::read_bytes(dir.file("out.gguf")).size(), 3u);
}

TEST(GgufWriter, RefusesWhatNoReaderWouldTake) {
  const test::TempDir dir;
  auto writer = Writer::create(dir.file("out.gguf"));
  ASSERT_TRUE(writer);
  for (const std::vector<uint64_t>& dims : std::vector<std::vector<uint64_t>>{
           {}, {1, 1, 1, 1, 1}, {0}, {32, 0}, {33}, {1ull << 32, 1ull << 32}, {UINT64_MAX}}) {
    const auto result = writer->declare("w", dims, Type::Q4_0);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, Code::invalid_argument);
    test::expect_good_message(result.error().message);
  }
  ASSERT_TRUE(writer->declare("w", {32}, Type::Q4_0));
  EXPECT_FALSE(writer->declare("w", {32}, Type::Q4_0));
  EXPECT_FALSE(writer->data(std::vector<std::byte>(18)));  // before the header
  EXPECT_FALSE(writer->finish());
  ASSERT_TRUE(writer->write_header());
  EXPECT_FALSE(writer->write_header());
  EXPECT_FALSE(writer->declare("late", {32}, Type::Q4_0));
  EXPECT_FALSE(writer->data(std::vector<std::byte>(19)));
  ASSERT_TRUE(writer->data(std::vector<std::byte>(18)));
  EXPECT_FALSE(writer->data(std::vector<std::byte>(1)));
  EXPECT_TRUE(writer->finish());
}

TEST(GgufWriter, RefusesValuesThatDoNotFitTheirKind) {
  const test::TempDir dir;
  for (const Value& value :
       {make(Kind::u8, uint64_t{256}), make(Kind::i8, int64_t{-129}), make(Kind::boolean, uint64_t{2}),
        make(Kind::u32, uint64_t{1} << 32), make(Kind::i32, uint64_t{1}), make(Kind::f32, 1e300), make(Kind::u32, 1.0),
        make(Kind::string, uint64_t{1}), make(Kind::u32, std::string("1")), make(Kind::array, uint64_t{1}),
        make(Kind::array, Array(std::vector<uint64_t>{256}), Kind::u8),
        make(Kind::array, Array(std::vector<uint64_t>{1}), Kind::string),
        make(Kind::array, Array(std::vector<Value>{Value::of(true)}), Kind::array),
        make(Kind::u32, Array(std::vector<uint64_t>{1}))}) {
    auto writer = Writer::create(dir.file("out.gguf"));
    writer->set("key", value);
    const auto result = writer->write_header();
    ASSERT_FALSE(result);
    EXPECT_NE(result.error().message.find("key 'key'"), std::string::npos);
  }
  for (const Value& value :
       {Value::of(uint32_t{48}), Value::of(int32_t{32}), Value::of(uint32_t{0}), Value::of("32")}) {
    auto writer = Writer::create(dir.file("out.gguf"));
    writer->set("general.alignment", value);
    EXPECT_FALSE(writer->write_header());
  }
  EXPECT_EQ(n_entries(dir.path()), 0u);
}

TEST(GgufWriter, RefusesADirectory) {
  const test::TempDir dir;
  EXPECT_FALSE(Writer::create(dir.path().string()));
  EXPECT_FALSE(Writer::create(dir.file("none/out.gguf")));
}

}  // namespace
}  // namespace sluice::gguf
