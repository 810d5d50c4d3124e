#include "base/partial_file.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/small_file.h"
#include "support/temp_dir.h"

namespace sluice {
namespace {

std::span<const std::byte> bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

TEST(PartialFile, GrowsOverRunsAndGetsItsName) {
  const test::TempDir dir;
  const std::string path = dir.file("a.incomplete"), name = dir.file("a");
  ASSERT_TRUE(PartialFile::open(path)->append(bytes("one ")));
  auto file = PartialFile::open(path);
  ASSERT_TRUE(file);
  EXPECT_EQ(file->size(), 4u);
  ASSERT_TRUE(file->append(bytes("two")));
  ASSERT_TRUE(file->commit(name));
  EXPECT_EQ(read_small_file(name), "one two");
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(PartialFile, StartsAnewAndIsRemoved) {
  const test::TempDir dir;
  auto file = PartialFile::open(dir.file("a"));
  ASSERT_TRUE(file->append(bytes("wrong")));
  ASSERT_TRUE(file->clear());
  ASSERT_TRUE(file->append(bytes("right")));
  EXPECT_EQ(file->size(), 5u);
  EXPECT_EQ(read_small_file(dir.file("a")), "right");
  file->remove();
  EXPECT_FALSE(std::filesystem::exists(dir.file("a")));
}

TEST(PartialFile, TwoWritersAreNoticed) {
  const test::TempDir dir;
  auto one = PartialFile::open(dir.file("a")), two = PartialFile::open(dir.file("a"));
  ASSERT_TRUE(one->append(bytes("x")));
  const auto written = two->append(bytes("y"));
  ASSERT_FALSE(written);
  EXPECT_NE(written.error().message.find("another process"), std::string::npos);
}

TEST(PartialFile, WhatIsNoPlaceForAFile) {
  const test::TempDir dir;
  std::filesystem::create_symlink(dir.file("elsewhere"), dir.file("link"));
  for (const std::string& path :
       {dir.path().string(), dir.file("absent/a"), dir.file("link"), std::string("/dev/null")}) {
    const auto file = PartialFile::open(path);
    ASSERT_FALSE(file) << path;
    EXPECT_NE(file.error().message.find("cannot write"), std::string::npos);
  }
  EXPECT_FALSE(std::filesystem::exists(dir.file("elsewhere")));
}

TEST(FileLock, OneAtATime) {
  const test::TempDir dir;
  int n_waits = 0;
  const auto twice = [&n_waits] { return ++n_waits < 2; };
  {
    const auto lock = FileLock::take(dir.file("lock"), twice);
    ASSERT_TRUE(lock);
    EXPECT_EQ(n_waits, 0);
    const auto other = FileLock::take(dir.file("lock"), twice);
    ASSERT_FALSE(other);
    EXPECT_EQ(other.error().code, Code::cancelled);
    EXPECT_EQ(n_waits, 2);
  }
  EXPECT_TRUE(FileLock::take(dir.file("lock"), twice));
}

}  // namespace
}  // namespace sluice
