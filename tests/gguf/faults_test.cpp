// Files that are damaged or made to do harm, each by one field.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "gguf/expect.h"
#include "support/temp_dir.h"

namespace sluice::gguf {
namespace {

using test::expect_loads;
using test::expect_refused;
using test::GgufBuilder;
using test::small_file;

constexpr uint64_t kHuge[] = {1ull << 31, (1ull << 48) - 1, 1ull << 60, (1ull << 63), UINT64_MAX, UINT64_MAX - 7};

TEST(GgufFaults, F01_CutAtEveryByte) {
  const auto bytes = small_file().bytes();
  ASSERT_TRUE(File::parse(bytes));
  for (size_t size = 0; size < bytes.size(); ++size) {
    // A copy of its own, so that a sanitizer sees a read past the end.
    const std::vector<std::byte> cut(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(size));
    SCOPED_TRACE(size);
    expect_refused([&] { return File::parse(cut); }, {"(memory)"});
  }
}

TEST(GgufFaults, F01_CutAtEveryFieldTellsWhere) {
  const GgufBuilder builder = small_file();
  const auto bytes = builder.bytes();
  for (const test::Field& field : builder.fields()) {
    for (const size_t size : {field.offset, field.offset + field.size / 2}) {
      SCOPED_TRACE(field.name);
      const std::vector<std::byte> cut(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(size));
      const bool in_data = field.name.ends_with("/data");
      expect_refused([&] { return File::parse(cut); }, {in_data ? field.name.substr(7, 8) : "'(memory)'"});
    }
  }
}

TEST(GgufFaults, F01_CutFilesOnDiskNameTheTensor) {
  const test::TempDir dir;
  const std::string path = dir.file("cut.gguf");
  const auto bytes = small_file().bytes();
  for (size_t i = 0; i < 40; ++i) {
    const size_t size = i == 39 ? bytes.size() - 1 : i * bytes.size() / 40;
    test::write_bytes(path, std::span(bytes).first(size));
    for (const bool mmap : {true, false}) {
      const std::string message = expect_refused([&] { return File::open(path, {.mmap = mmap}); }, {"cut.gguf"});
      if (i == 39) {
        EXPECT_NE(message.find("tensor 'b.weight' ends at byte " + std::to_string(bytes.size())), std::string::npos);
      }
    }
  }
}

TEST(GgufFaults, F02_Alignment) {
  for (uint32_t alignment = 8; alignment <= 4096; alignment *= 2) {
    GgufBuilder b = small_file();
    b.set("general.alignment", Value::of(alignment));
    const auto bytes = b.bytes();
    const auto file = File::parse(bytes);
    ASSERT_TRUE(file) << file.error().message;
    EXPECT_EQ(file->alignment(), alignment);
    EXPECT_EQ(file->tensors()[0].file_offset % alignment, 0u);
  }
  for (const uint32_t alignment : {0u, 1u, 2u, 3u, 4u, 48u, 1u << 30, 0x80000000u, 0xffffffffu}) {
    expect_refused(small_file().set("general.alignment", Value::of(alignment)),
                   {"general.alignment is " + std::to_string(alignment), "power of two"});
  }
  for (const Value& value : {Value::of(int32_t{32}), Value::of("32"), Value::of(uint64_t{32}), Value::of(32.0f),
                             Value::of(true), Value::of(std::vector<uint32_t>{32})}) {
    expect_refused(small_file().set("general.alignment", value), {"general.alignment", "not u32"});
  }
}

TEST(GgufFaults, F04_SameTensorTwice) {
  GgufBuilder b = small_file();
  b.add_random("a.weight", {32}, Type::F32);
  expect_refused(b, {"tensor 'a.weight' stands twice"});
}

TEST(GgufFaults, F04_SameKeyTwice) {
  expect_refused(small_file().set_again("tiny.block_count", Value::of(uint32_t{2})),
                 {"key 'tiny.block_count' stands twice"});
}

TEST(GgufFaults, F06_HugeLengths) {
  const auto base = small_file();
  for (const test::Field& field : base.fields()) {
    const bool is_length = field.name.ends_with("/length") || field.name.ends_with("/count");
    if (!is_length || field.size != 8) continue;
    for (const uint64_t length : kHuge) {
      SCOPED_TRACE(field.name + " = " + std::to_string(length));
      expect_refused(GgufBuilder(base).patch(field.name, length), {"left in the file"});
    }
  }
}

TEST(GgufFaults, F06_LengthsJustBeyondTheFile) {
  GgufBuilder b = small_file();
  const auto bytes = b.bytes();
  for (const test::Field& field : b.fields()) {
    if (!field.name.ends_with("/length")) continue;
    const uint64_t left = bytes.size() - field.offset - 8;
    SCOPED_TRACE(field.name);
    expect_refused(GgufBuilder(b).patch(field.name, left + 1), {"left in the file"});
    expect_refused(GgufBuilder(b).patch(field.name, left), {"(memory)"});  // all the rest of the file as one string
  }
}

TEST(GgufFaults, F06_HugeArraysOfEveryKind) {
  for (uint32_t kind = 0; kind <= static_cast<uint32_t>(Kind::f64); ++kind) {
    GgufBuilder b;
    b.set("array", Value::of(std::vector<uint32_t>{1, 2, 3}));
    b.patch("key/array/element", kind);
    for (const uint64_t count : kHuge) {
      SCOPED_TRACE(kind);
      expect_refused(GgufBuilder(b).patch("key/array/count", count), {"'array'", "left in the file"});
    }
  }
}

// Tiny elements take up to 32 times their room in memory: a large file must not be able to use that.
TEST(GgufFaults, F06_WidenedArraysAreBounded) {
  Value value;
  value.kind = Kind::array;
  value.element = Kind::u8;
  value.data = Array(std::vector<uint64_t>(1000, 7));
  GgufBuilder b;
  b.set("array", value);
  auto bytes = b.bytes();
  const size_t count_at = 24 + 8 + 5 + 4 + 4;
  const uint64_t count = 100'000'000;
  bytes.resize(count_at + 8 + count);
  std::memcpy(bytes.data() + count_at, &count, 8);
  const std::string message = expect_refused([&] { return File::parse(bytes); }, {"'array'", "more memory"});
  // The same bytes as an array of empty strings.
  const auto kind = static_cast<uint32_t>(Kind::string);
  const uint64_t n_strings = count / 8;
  std::memset(bytes.data() + count_at + 8, 0, count);
  std::memcpy(bytes.data() + count_at - 4, &kind, 4);
  std::memcpy(bytes.data() + count_at, &n_strings, 8);
  expect_refused([&] { return File::parse(bytes); }, {"'array'", "more memory"});
}

TEST(GgufFaults, F08_Counts) {
  for (const uint64_t count : kHuge) {
    expect_refused(small_file().patch("n_tensors", count), {std::to_string(count) + " tensors"});
    expect_refused(small_file().patch("n_metadata", count), {std::to_string(count) + " metadata entries"});
  }
  expect_refused(small_file().patch("n_tensors", uint64_t{3}), {"(memory)"});
  expect_refused(small_file().patch("n_metadata", uint64_t{6}), {"(memory)"});
}

TEST(GgufFaults, F08_Dimensions) {
  const auto dims = [](std::vector<uint64_t> d, uint32_t type_id = 0) {
    return GgufBuilder().add_raw("big", std::move(d), type_id, std::vector<std::byte>(64));
  };
  for (const auto& d : std::vector<std::vector<uint64_t>>{{1ull << 32, 1ull << 32},
                                                          {UINT64_MAX},
                                                          {1ull << 63},
                                                          {1ull << 16, 1ull << 16, 1ull << 16, 1ull << 16},
                                                          {UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX},
                                                          {3, UINT64_MAX / 3 + 1},
                                                          {1ull << 62, 1},  // elements fit, bytes do not
                                                          {0},
                                                          {32, 0},
                                                          {1, 1, 1, 0}}) {
    expect_refused(dims(d), {"tensor 'big' has impossible dimensions"});
  }
  // Sizes that can be stated, in a small file.
  for (const auto& d : std::vector<std::vector<uint64_t>>{{1ull << 31, 2}, {1ull << 32, 4}, {1ull << 61}, {17}}) {
    expect_refused(dims(d), {"tensor 'big' ends at byte"});
  }
  // M02: just below, at and above 2^31 and 2^32 elements: the sizes are exact.
  for (const uint64_t n :
       {(1ull << 31) - 32, 1ull << 31, (1ull << 31) + 32, (1ull << 32) - 32, 1ull << 32, (1ull << 32) + 32}) {
    expect_refused(dims({n / 32, 32}), {"ends at byte " + std::to_string(96 + n * 4)});
  }
}

TEST(GgufFaults, F08_OffsetsAndTheirSums) {
  for (const uint64_t offset : {UINT64_MAX - 31, UINT64_MAX - 63, uint64_t{1} << 63}) {
    expect_refused(small_file().patch("tensor/a.weight/offset", offset), {"tensor 'a.weight'"});
  }
  expect_refused(small_file().patch("tensor/b.weight/offset", uint64_t{96}), {"tensor 'b.weight' ends at byte"});
  expect_refused(small_file().patch("tensor/b.weight/offset", uint64_t{65}), {"not a multiple of the alignment 32"});
  expect_refused(small_file().patch("tensor/b.weight/offset", uint64_t{32}), {"'a.weight' and 'b.weight' overlap"});
  expect_refused(small_file().patch("tensor/b.weight/offset", uint64_t{0}), {"overlap"});
}

TEST(GgufFaults, F10_NumberOfDimensions) {
  for (const uint32_t n_dims : {0u, 5u, 8u, 9u, 1u << 31, 0xffffffffu}) {
    expect_refused(small_file().patch("tensor/a.weight/n_dims", n_dims),
                   {"tensor 'a.weight' has " + std::to_string(n_dims) + " dimensions"});
  }
}

TEST(GgufFaults, F11_ByteSwapped) {
  const std::string message = expect_refused(small_file().big_endian(), {"big-endian"});
  EXPECT_EQ(message.find("50331648"), std::string::npos);
  expect_refused(small_file().big_endian().patch("version", uint32_t{0x02000000}), {"big-endian"});
  expect_refused(small_file().patch_bytes("magic", "FUGG"), {"big-endian"});
}

TEST(GgufFaults, Versions) {
  expect_loads(small_file().patch("version", uint32_t{2}));
  expect_refused(small_file().patch("version", uint32_t{1}), {"version 1"});
  expect_refused(small_file().patch("version", uint32_t{0}), {"version 0"});
  expect_refused(small_file().patch("version", uint32_t{4}), {"version 4"});
  expect_refused(small_file().patch("version", 0xffffffffu), {"version 4294967295"});
}

TEST(GgufFaults, Kinds) {
  for (const uint32_t kind : {13u, 255u, 0xffffffffu}) {
    expect_refused(small_file().patch("key/tiny.block_count/kind", kind),
                   {"'tiny.block_count'", "kind " + std::to_string(kind)});
    expect_refused(small_file().patch("key/tokenizer.scores/element", kind), {"'tokenizer.scores'"});
  }
  for (const uint8_t value : {uint8_t{2}, uint8_t{255}}) {
    expect_refused(small_file().patch("key/tiny.causal/value", value), {"'tiny.causal'", "boolean"});
  }
  Value flags = Value::of(std::vector<uint32_t>{1, 0, 3});
  flags.element = Kind::boolean;
  expect_refused(GgufBuilder().set("flags", flags), {"'flags'", "boolean"});
}

TEST(GgufFaults, NestedArrays) {
  const auto nested = [](int depth) {
    Value value = Value::of(std::vector<uint32_t>{1});
    for (int i = 1; i < depth; ++i) {
      Value outer;
      outer.kind = outer.element = Kind::array;
      outer.data = Array(std::vector<Value>{value});
      value = outer;
    }
    return GgufBuilder().set("deep", value);
  };
  expect_loads(nested(4));
  expect_refused(nested(5), {"'deep' nests arrays"});

  // A million levels, which would overflow the stack of a reader without a limit.
  auto bytes = nested(1).bytes();
  const size_t value_at = 24 + 8 + 4 + 4;
  bytes.resize(value_at + 12 * 1'000'000);
  const auto kind = static_cast<uint32_t>(Kind::array);
  const uint64_t count = 1;
  for (size_t at = value_at; at < bytes.size(); at += 12) {
    std::memcpy(bytes.data() + at, &kind, 4);
    std::memcpy(bytes.data() + at + 4, &count, 8);
  }
  expect_refused([&] { return File::parse(bytes); }, {"'deep' nests arrays"});
}

TEST(GgufFaults, A09_UnknownTypesLoadWithoutSize) {
  for (const uint32_t id : {4u, 5u, 31u, 255u, 0xffffffffu}) {
    GgufBuilder b = small_file();
    b.patch("tensor/b.weight/type", id);
    const auto bytes = b.bytes();
    const auto file = File::parse(bytes);
    ASSERT_TRUE(file) << file.error().message;
    const TensorInfo* tensor = file->find_tensor("b.weight");
    ASSERT_NE(tensor, nullptr);
    EXPECT_EQ(tensor->type, nullptr);
    EXPECT_EQ(tensor->type_id, id);
    EXPECT_EQ(tensor->n_elements, 24u);
    EXPECT_EQ(tensor->n_bytes, 0u);
    EXPECT_TRUE(file->data(*tensor).empty());
  }
}

TEST(GgufFaults, A09_ForeignTypesAreSizedAndChecked) {
  const auto q8_k = [](uint64_t row, size_t n_bytes) {
    return GgufBuilder().add_raw("w", {row, 2}, 15, std::vector<std::byte>(n_bytes));
  };
  const auto bytes = q8_k(512, 4 * 292).bytes();
  const auto file = File::parse(bytes);
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->tensors()[0].type, nullptr);
  EXPECT_EQ(file->tensors()[0].n_bytes, 4u * 292);
  EXPECT_EQ(file->data(file->tensors()[0]).size(), 4u * 292);
  expect_refused(q8_k(500, 4 * 292), {"tensor 'w' has rows of 500 weights", "256", "Q8_K"});
  expect_refused(q8_k(512, 3 * 292), {"tensor 'w' ends at byte"});
}

TEST(GgufFaults, RowsThatAreNoWholeBlocks) {
  for (const auto& [id, row] : {std::pair{2u, 33u}, {2u, 16u}, {8u, 48u}, {14u, 128u}}) {
    expect_refused(GgufBuilder().add_raw("w", {row, 32}, id, std::vector<std::byte>(4096)), {"tensor 'w' has rows of"});
  }
}

TEST(GgufFaults, NamesCannotReachTheTerminal) {
  const std::string evil = "\x1b]0;owned\x07\n" + std::string(3000, 'x') + "\xff";
  GgufBuilder b;
  b.add_raw(evil, {16}, 0, std::vector<std::byte>(64));
  b.patch("tensor/" + evil + "/n_dims", uint32_t{7});
  const std::string message = expect_refused(b, {"\\x1b]0;owned\\x07\\n", "..."});
  EXPECT_LT(message.size(), 300u);
  expect_refused(GgufBuilder().set(evil, Value::of(true)).patch("key/" + evil + "/value", uint8_t{3}), {"\\x1b"});
  expect_refused([&] { return File::open("none/\x1b[2J.gguf"); }, {"'none/\\x1b[2J.gguf'"});
  expect_refused([&] { return File::open(evil); }, {"..."});
}

TEST(GgufFaults, LongNames) {
  expect_loads(GgufBuilder().set(std::string(65535, 'k'), Value::of(true)));
  expect_refused(GgufBuilder().set(std::string(65536, 'k'), Value::of(true)), {"65536 bytes"});
  expect_refused(GgufBuilder().add_random(std::string(65536, 't'), {32}, Type::F32), {"65536 bytes"});
}

}  // namespace
}  // namespace sluice::gguf
