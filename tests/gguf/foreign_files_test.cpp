// Paths that hold something else than a model.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gguf/expect.h"
#include "support/temp_dir.h"

namespace sluice::gguf {
namespace {

using test::expect_refused;

TEST(GgufFaults, F14_NotAModel) {
  const test::TempDir dir;
  const std::pair<std::string_view, std::string_view> kCases[] = {
      {"", "is empty"},
      {"GGU", "has only 3 bytes"},
      {"abc", "looks like a text: 'abc'"},
      {"<!DOCTYPE html><html><body>404</body></html>", "a saved web page"},
      {"\xef\xbb\xbf  \n<HTML lang=en>", "a saved web page"},
      {"<?xml version='1.0'?><Error>", "XML"},
      {"{\"error\": \"Repository not found\"}", "JSON"},
      {"Entry not found", "a text: 'Entry not found'"},
      {"version https://git-lfs.github.com/spec/v1\noid sha256:", "Git LFS pointer"},
      {"PK\x03\x04....", "ZIP archive"},
      {std::string_view("\x10\x02\0\0\0\0\0\0{\"__metadata__\"", 23), "safetensors"},
      {"tjgg\x03", "older GGJT"},
      {std::string_view("\0\0\0\0\0\0\0\0", 8), "starts with zeros"},
      {"\x1b[31m\x01\x02", "its first bytes are '\\x1b[31'"},
  };
  const std::string path = dir.file("thing.gguf");
  for (const auto& [text, expected] : kCases) {
    test::write_text(path, text);
    for (const bool mmap : {true, false}) {
      expect_refused([&] { return File::open(path, {.mmap = mmap}); }, {expected, "thing.gguf"});
    }
  }
  expect_refused([&] { return File::open(dir.path().string()); }, {"is a directory"});
  expect_refused([&] { return File::open(dir.file("none.gguf")); }, {"No such file"});
  expect_refused([&] { return File::open(""); }, {"path is empty"});
}

TEST(GgufFaults, F14_NoRightToRead) {
  const test::TempDir dir;
  const std::string path = dir.file("secret.gguf");
  test::small_file().write(path);
  ASSERT_EQ(::chmod(dir.path().c_str(), 0755), 0);
  ASSERT_EQ(::chmod(path.c_str(), 0), 0);
  // The superuser may read everything, so become somebody else for the call.
  const uid_t user = ::geteuid();
  if (user == 0) {
    ASSERT_EQ(::seteuid(65534), 0);
  }
  const auto file = File::open(path);
  if (user == 0) {
    ASSERT_EQ(::seteuid(user), 0);
  }
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code, Code::io);
  EXPECT_NE(file.error().message.find("Permission denied; give yourself the right"), std::string::npos)
      << file.error().message;
}

TEST(GgufFaults, F16_PathsOfAllScripts) {
  const test::TempDir dir;
  for (const std::string name : {"модель.gguf", "with some spaces.gguf", "emoji 🙂.gguf", "模型-混合专家.gguf"}) {
    const std::string path = dir.file(name);
    test::small_file().write(path);
    const auto file = File::open(path);
    ASSERT_TRUE(file) << file.error().message;
    EXPECT_EQ(file->path(), path);
    test::write_text(path, "");
    expect_refused([&] { return File::open(path); }, {name});  // printed as it is
  }
}

}  // namespace
}  // namespace sluice::gguf
