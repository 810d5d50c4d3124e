// Split sets: names count from 1, split.no from 0, split.tensors.count is over all files.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "gguf/expect.h"
#include "support/temp_dir.h"

namespace sluice::gguf {
namespace {

using test::expect_refused;
using test::GgufBuilder;

Value of_u16(uint64_t v) {
  Value value = Value::of(static_cast<uint32_t>(v));
  value.kind = Kind::u16;
  return value;
}

// Part `no` of three; the parts hold 2, 1 and 1 tensors.
GgufBuilder shard(uint32_t no) {
  GgufBuilder b;
  if (no == 0) b.set("general.architecture", Value::of("tiny"));
  b.set("split.no", of_u16(no)).set("split.count", of_u16(3)).set("split.tensors.count", Value::of(int32_t{4}));
  b.add_random(fmt::format("part{}.weight", no), {32, no + 1}, Type::F32);
  if (no == 0) b.add_random("more.weight", {64}, Type::Q8_0);
  return b;
}

struct SplitSet : testing::Test {
  test::TempDir dir;
  std::string path(uint32_t number, uint32_t count = 3) const {
    return dir.file(fmt::format("m-{:05}-of-{:05}.gguf", number, count));
  }
  void SetUp() override {
    for (uint32_t no = 0; no < 3; ++no) shard(no).write(path(no + 1));
  }
};

TEST_F(SplitSet, F12_FirstFileOpensAll) {
  for (const bool mmap : {true, false}) {
    auto file = File::open(path(1), {.mmap = mmap});
    ASSERT_TRUE(file) << file.error().message;
    ASSERT_TRUE(file->load_data());
    EXPECT_EQ(file->n_files(), 3u);
    EXPECT_EQ(file->tensors().size(), 4u);
    EXPECT_EQ(file->path(), path(1));
    uint64_t total = 0;
    for (uint32_t i = 1; i <= 3; ++i) total += std::filesystem::file_size(path(i));
    EXPECT_EQ(file->file_bytes(), total);
    for (uint32_t no = 0; no < 3; ++no) {
      const TensorInfo* tensor = file->find_tensor(fmt::format("part{}.weight", no));
      ASSERT_NE(tensor, nullptr);
      EXPECT_EQ(tensor->file_idx, no);
      std::vector<std::byte> expected(tensor->n_bytes);
      const auto bytes = test::read_bytes(path(no + 1));
      std::copy_n(bytes.begin() + static_cast<ptrdiff_t>(tensor->file_offset), tensor->n_bytes, expected.begin());
      EXPECT_TRUE(std::ranges::equal(file->data(*tensor), expected));
      file->release(file->data(*tensor));
      EXPECT_TRUE(std::ranges::equal(file->data(*tensor), expected));
    }
  }
}

TEST_F(SplitSet, F12_AnotherFileNamesTheFirst) {
  for (uint32_t number : {2u, 3u}) {
    expect_refused([&] { return File::open(path(number)); },
                   {fmt::format("is part {} of 3", number), "m-00001-of-00003.gguf"});
  }
}

TEST_F(SplitSet, F12_MissingFileIsNamed) {
  std::filesystem::remove(path(3));
  expect_refused([&] { return File::open(path(1)); }, {"part 3 of 3", "is missing", "m-00003-of-00003.gguf"});
}

TEST_F(SplitSet, F12_FileOfAnotherModelIsNamed) {
  const auto refused = [&](const GgufBuilder& second, std::string_view why) {
    second.write(path(2));
    expect_refused([&] { return File::open(path(1)); }, {"m-00002-of-00003.gguf' is not part 2 of this model", why});
  };
  refused(shard(1).set("split.count", of_u16(4)), "4 parts");
  refused(shard(1).set("split.no", of_u16(2)), "it is part 3");
  refused(shard(1).set("split.tensors.count", Value::of(int32_t{9})), "9 tensors, not 4");
  refused(shard(1).set("general.architecture", Value::of("other")), "architecture is 'other', not 'tiny'");
  refused(test::small_file(), "a whole file");
}

TEST_F(SplitSet, F12_DamagedFileIsNamed) {
  const auto bytes = shard(1).bytes();
  test::write_bytes(path(2), std::span(bytes).first(bytes.size() - 1));
  expect_refused([&] { return File::open(path(1)); }, {"m-00002-of-00003.gguf", "tensor 'part1.weight' ends"});
}

TEST_F(SplitSet, F12_TensorTotalIsOverAllFiles) {
  shard(1).add_random("surplus", {32}, Type::F32).write(path(2));
  expect_refused([&] { return File::open(path(1)); }, {"5 tensors together, not 4"});
}

TEST_F(SplitSet, F04_SameTensorInTwoFiles) {
  GgufBuilder second;
  second.set("split.no", of_u16(1)).set("split.count", of_u16(3)).set("split.tensors.count", Value::of(int32_t{4}));
  second.add_random("part0.weight", {32}, Type::F32).write(path(2));
  expect_refused([&] { return File::open(path(1)); }, {"tensor 'part0.weight' stands in two files"});
}

TEST_F(SplitSet, F12_RenamedFilesAreRefused) {
  shard(0).write(dir.file("renamed.gguf"));
  expect_refused([&] { return File::open(dir.file("renamed.gguf")); }, {"-00001-of-00003.gguf"});
}

TEST_F(SplitSet, F12_HeaderAlone) {
  const auto file = File::open(path(2), {.metadata_only = true});
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->n_files(), 1u);
  EXPECT_EQ(file->tensors().size(), 1u);
  const auto bytes = shard(0).bytes();
  expect_refused([&] { return File::parse(bytes); }, {"part 1 of 3"});
}

TEST_F(SplitSet, F12_ImpossibleKeys) {
  const std::string first = path(1);
  const auto refused = [&](const GgufBuilder& b, std::string_view why) {
    b.write(first);
    expect_refused([&] { return File::open(first); }, {why});
  };
  refused(shard(0).set("split.count", Value::of(0xffffffffu)), "of 4294967295");
  refused(shard(0).set("split.no", of_u16(3)), "part 3 (counted from 0) of 3");
  refused(shard(0).set("split.no", Value::of("0")), "'split.no'");
  refused(shard(0).set("split.count", Value::of(int32_t{-1})), "'split.count'");
  refused(shard(0).set("split.tensors.count", Value::of(int32_t{-4})), "'split.tensors.count'");
}

TEST_F(SplitSet, F13_WholeFilesNamedLikeParts) {
  for (const uint32_t count : {1u, 13u}) {
    const std::string name = path(1, count);
    test::small_file().write(name);
    const auto file = File::open(name);
    ASSERT_TRUE(file) << file.error().message;
    EXPECT_EQ(file->n_files(), 1u);
  }
  // Some splitters write the keys of a set of one.
  const std::string name = dir.file("single.gguf");
  test::small_file().set("split.count", of_u16(1)).set("split.no", of_u16(0)).write(name);
  EXPECT_TRUE(File::open(name));
}

}  // namespace
}  // namespace sluice::gguf
