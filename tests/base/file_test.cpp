#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>

#include "base/file_io.h"
#include "base/file_map.h"
#include "support/gguf_builder.h"
#include "support/temp_dir.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

std::string content(const std::string& path) {
  const auto bytes = test::read_bytes(path);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

size_t n_entries(const fs::path& folder) {
  return static_cast<size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator{}));
}

TEST(InputFile, ReadsParts) {
  const test::TempDir dir;
  test::write_text(dir.file("a"), "0123456789");
  auto file = InputFile::open(dir.file("a"));
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->size(), 10u);
  std::string part(4, ' ');
  ASSERT_TRUE(file->read_at(3, std::as_writable_bytes(std::span(part))));
  EXPECT_EQ(part, "3456");
  const auto past = file->read_at(8, std::as_writable_bytes(std::span(part)));
  ASSERT_FALSE(past);
  EXPECT_EQ(past.error().code, Code::io);
}

TEST(InputFile, RefusesWhatIsNoFile) {
  const test::TempDir dir;
  const auto missing = InputFile::open(dir.file("none"));
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Code::not_found);
  const auto folder = InputFile::open(dir.path().string());
  ASSERT_FALSE(folder);
  EXPECT_NE(folder.error().message.find("is a directory"), std::string::npos);
  ASSERT_EQ(::mkfifo(dir.file("pipe").c_str(), 0600), 0);
  EXPECT_FALSE(InputFile::open(dir.file("pipe")));  // and does not wait for a writer
  EXPECT_FALSE(InputFile::open(""));
  EXPECT_FALSE(InputFile::open(std::string("a\0b", 3)));
  EXPECT_FALSE(InputFile::open("/dev/null"));
}

TEST(FileMap, ShowsTheBytesAndTakesHints) {
  const test::TempDir dir;
  std::string text(100000, 'a');
  text[70000] = 'b';
  test::write_text(dir.file("a b 🙂"), text);
  auto map = FileMap::open(dir.file("a b 🙂"));
  ASSERT_TRUE(map) << map.error().message;
  ASSERT_EQ(map->size(), text.size());
  for (const Access access : {Access::will_need, Access::sequential, Access::random, Access::normal}) {
    map->advise(map->bytes().subspan(5, 70000), access);
  }
  map->release(map->bytes());
  map->release(map->bytes().subspan(60001));
  map->release({});
  const std::byte elsewhere{};
  map->release({&elsewhere, 1});  // not ours: nothing happens
  EXPECT_EQ(std::memcmp(map->bytes().data(), text.data(), text.size()), 0);
  const FileMap moved = std::move(*map);
  EXPECT_EQ(moved.bytes()[70000], std::byte{'b'});
}

TEST(FileMap, EmptyFile) {
  const test::TempDir dir;
  test::write_text(dir.file("empty"), "");
  const auto map = FileMap::open(dir.file("empty"));
  ASSERT_TRUE(map);
  EXPECT_TRUE(map->bytes().empty());
}

TEST(ByteBuffer, ImpossibleSizesAreErrors) {
  const auto buffer = ByteBuffer::allocate(1000);
  ASSERT_TRUE(buffer);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->bytes().data()) % 64, 0u);
  const auto none = ByteBuffer::allocate(UINT64_MAX);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Code::out_of_memory);
}

TEST(AtomicFile, AppearsOnlyOnCommit) {
  const test::TempDir dir;
  const std::string path = dir.file("out");
  test::write_text(path, "old");
  {
    auto file = AtomicFile::create(path);
    ASSERT_TRUE(file) << file.error().message;
    ASSERT_TRUE(file->write(bytes_of("new ")));
    ASSERT_TRUE(file->write(bytes_of("text")));
    EXPECT_EQ(file->written(), 8u);
    EXPECT_EQ(content(path), "old");
    ASSERT_TRUE(file->commit());
    EXPECT_FALSE(file->write(bytes_of("x")));
    EXPECT_FALSE(file->commit());
  }
  EXPECT_EQ(content(path), "new text");
  EXPECT_EQ(n_entries(dir.path()), 1u);
}

TEST(AtomicFile, WithoutCommitNothingIsLeft) {
  const test::TempDir dir;
  {
    auto file = AtomicFile::create(dir.file("out"));
    ASSERT_TRUE(file);
    ASSERT_TRUE(file->write(bytes_of("half")));
    AtomicFile moved = std::move(*file);
    EXPECT_EQ(n_entries(dir.path()), 1u);
  }
  EXPECT_EQ(n_entries(dir.path()), 0u);
}

TEST(AtomicFile, KeepsModeAndFollowsLinks) {
  const test::TempDir dir;
  test::write_text(dir.file("target"), "old");
  ASSERT_EQ(::chmod(dir.file("target").c_str(), 0640), 0);
  fs::create_symlink("target", dir.file("link"));
  ASSERT_TRUE(write_file_atomically(dir.file("link"), bytes_of("new")));
  EXPECT_TRUE(fs::is_symlink(dir.file("link")));
  EXPECT_EQ(content(dir.file("target")), "new");
  EXPECT_EQ(static_cast<int>(fs::status(dir.file("target")).permissions()), 0640);
  fs::create_symlink("nothing", dir.file("dangling"));
  EXPECT_FALSE(write_file_atomically(dir.file("dangling"), bytes_of("new")));
}

TEST(AtomicFile, LongestName) {
  const test::TempDir dir;
  const std::string path = dir.file(std::string(255, 'n'));
  ASSERT_TRUE(write_file_atomically(path, bytes_of("x")));
  EXPECT_EQ(content(path), "x");
}

TEST(AtomicFile, RefusesDirectoriesAndDevices) {
  const test::TempDir dir;
  fs::create_directory(dir.file("folder"));
  for (const std::string& path : {dir.file("folder"), dir.file("folder/"), dir.file("none/out"), dir.file("none/"),
                                  std::string("/dev/null"), std::string()}) {
    const auto result = write_file_atomically(path, bytes_of("x"));
    ASSERT_FALSE(result) << path;
    EXPECT_NE(result.error().message.find("; "), std::string::npos) << result.error().message;
  }
  EXPECT_TRUE(fs::is_directory(dir.file("folder")));
  EXPECT_EQ(n_entries(dir.path()), 1u);
}

// A limit on file sizes stands in for a full disk: the write that crosses it is cut short, the next one fails.
TEST(AtomicFile, ShortWriteIsAnErrorAndLeavesNothing) {
  const test::TempDir dir;
  test::write_text(dir.file("out"), "old");
  rlimit before;
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = 4096;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto result = write_file_atomically(dir.file("out"), std::vector<std::byte>(10000));
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::io);
  EXPECT_EQ(content(dir.file("out")), "old");
  EXPECT_EQ(n_entries(dir.path()), 1u);
}

// In a process of its own: the guard takes over a signal.
TEST(FileMapDeathTest, AFileThatShrinksWhileItIsMappedIsReportedNotFatal) {
  const test::TempDir dir;
  const std::string path = dir.file("shrinks");
  test::write_text(path, std::string(1 << 20, 'x'));
  EXPECT_EXIT(
      {
        guard_file_maps();
        auto map = FileMap::open(path);
        std::filesystem::resize_file(path, 8192);
        volatile unsigned char sum = 0;
        for (const std::byte b : map->bytes()) sum = sum + static_cast<unsigned char>(b);
        std::_Exit(map->lost() ? 7 : 8);
      },
      testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace sluice
