#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "sluice/hub.h"
#include "support/temp_dir.h"

namespace sluice::hub {
namespace {

namespace fs = std::filesystem;

// As another program leaves it.
struct Cache {
  test::TempDir dir;
  Settings settings{
      .endpoint = "http://127.0.0.1:1", .token = "", .cache = dir.file("hub"), .ca_file = "", .offline = true};

  static void write(const fs::path& path, const std::string& text) {
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  fs::path repo(const std::string& name) const { return fs::path(settings.cache) / ("models--" + name); }
  fs::path blob(const std::string& name, const std::string& oid) const { return repo(name) / "blobs" / oid; }
  void add(const std::string& name, const std::string& commit, const std::string& file, const std::string& oid,
           const std::string& text) const {
    write(blob(name, oid), text);
    const fs::path link = repo(name) / "snapshots" / commit / file;
    fs::create_directories(link.parent_path());
    fs::create_symlink(blob(name, oid).lexically_relative(link.parent_path()), link);
  }
  std::string names() const {
    std::string text;
    const auto models = list(settings);
    for (const Model& model : *models) text += model.name + " ";
    return text;
  }
  Result<Model> find(const std::string& name) const { return find_or_pull(settings, *parse_name(name), {}); }
  Result<Removed> rm(const std::string& name) const { return remove(settings, *parse_name(name)); }
};

TEST(HubCache, WhatOthersDownloadedIsFound) {
  const Cache c;
  EXPECT_TRUE(list(c.settings)->empty());
  c.add("own--repo", "old", "m-Q4_K_M.gguf", "1", "older");
  c.add("own--repo", "new", "m-Q4_K_M.gguf", "2", "newer");
  c.add("own--repo", "old", "sub/m-Q8_0.gguf", "3", "eight");
  c.write(c.repo("own--repo") / "refs/main", "new\n");
  c.add("own--split", "x", "a-Q4_0-00001-of-00002.gguf", "4", "12");
  c.add("own--split", "x", "a-Q4_0-00002-of-00002.gguf", "5", "345");
  c.add("own--half", "x", "b-Q4_0-00001-of-00002.gguf", "6", "12");
  c.add("own--lost", "x", "c-Q4_0.gguf", "7", "12");
  fs::remove(c.blob("own--lost", "7"));
  c.write(c.repo("own--copied") / "snapshots/x/d-Q4_K_M.gguf", "no links here");
  c.write(fs::path(c.settings.cache) / "datasets--own--repo/snapshots/x/e.gguf", "");
  c.write(fs::path(c.settings.cache) / "version.txt", "1");
  EXPECT_EQ(c.names(), "own/copied:Q4_K_M own/repo:Q4_K_M own/repo:Q8_0 own/split:Q4_0 ");

  EXPECT_EQ(c.find("own/repo")->path(), c.repo("own--repo") / "snapshots/new/m-Q4_K_M.gguf");
  EXPECT_EQ(c.find("own/repo:q8_0")->path(), c.repo("own--repo") / "snapshots/old/sub/m-Q8_0.gguf");
  const auto split = c.find("own/split");  // the one there is, as the hub cannot be asked
  ASSERT_TRUE(split) << split.error().message;
  EXPECT_EQ(split->n_bytes, 5u);
  EXPECT_EQ(split->files.size(), 2u);
  for (const char* name : {"own/half", "own/lost", "own/none", "own/repo:Q2_K"}) {
    const auto missing = c.find(name);
    ASSERT_FALSE(missing) << name;
    const char* reason = can_download() ? "HF_HUB_OFFLINE" : "libcurl";
    EXPECT_NE(missing.error().message.find(reason), std::string::npos) << missing.error().message;
  }
}

TEST(HubCache, WhatIsRemoved) {
  const Cache c;
  c.add("own--repo", "old", "m-Q4_K_M.gguf", "1", "shared");
  c.add("own--repo", "new", "m-Q4_K_M.gguf", "1", "shared");
  c.add("own--repo", "new", "m-Q8_0.gguf", "2", "eight");
  c.add("own--repo", "new", "README.md", "3", "text");
  // Another name for the same content: it stays until that goes as well.
  c.add("own--repo", "new", "copy.bin", "1", "shared");
  c.write(c.repo("own--repo") / "refs/main", "new");

  const auto several = c.rm("own/repo");
  ASSERT_FALSE(several);
  EXPECT_NE(several.error().message.find("Q4_K_M, Q8_0"), std::string::npos) << several.error().message;
  EXPECT_FALSE(c.rm("own/repo:Q2_K"));
  EXPECT_FALSE(c.rm("own/none"));

  const auto four = c.rm("own/repo:q4_k_m");
  ASSERT_TRUE(four) << four.error().message;
  EXPECT_EQ(four->name, "own/repo:Q4_K_M");
  EXPECT_EQ(four->n_bytes, 0u);
  EXPECT_TRUE(fs::exists(c.blob("own--repo", "1")));
  EXPECT_FALSE(fs::exists(c.repo("own--repo") / "snapshots/old"));
  EXPECT_EQ(c.names(), "own/repo:Q8_0 ");

  const auto eight = c.rm("own/repo");
  ASSERT_TRUE(eight) << eight.error().message;
  EXPECT_EQ(eight->n_bytes, 5u);
  EXPECT_FALSE(fs::exists(c.blob("own--repo", "2")));
  EXPECT_TRUE(fs::exists(c.repo("own--repo") / "snapshots/new/README.md"));
}

TEST(HubCache, TheLastModelTakesTheRestWithIt) {
  const Cache c;
  c.add("own--repo", "new", "m-00001-of-00002.gguf", "1", "one");
  c.add("own--repo", "new", "m-00002-of-00002.gguf", "2", "two");
  c.write(c.repo("own--repo") / "refs/main", "new");
  c.write(c.blob("own--repo", "9.incomplete"), "part");
  c.write(fs::path(c.settings.cache) / ".locks/models--own--repo/9.lock", "");
  const auto removed = c.rm("own/repo");
  ASSERT_TRUE(removed) << removed.error().message;
  EXPECT_EQ(removed->n_bytes, 10u);
  EXPECT_FALSE(fs::exists(c.repo("own--repo")));

  // Of an interrupted download nothing else is there.
  c.write(c.blob("own--part", "9.incomplete"), "part");
  c.write(fs::path(c.settings.cache) / ".locks/models--own--part/9.lock", "");
  EXPECT_EQ(c.rm("own/part")->n_bytes, 4u);
  EXPECT_FALSE(fs::exists(c.repo("own--part")));
}

TEST(HubCache, LinksOutOfTheCacheAreOnlyUnlinked) {
  const Cache c;
  const fs::path precious = c.dir.file("precious.gguf");
  c.write(precious, "kept");
  fs::create_directories(c.repo("own--repo") / "snapshots/x");
  fs::create_symlink(precious, c.repo("own--repo") / "snapshots/x/m-Q8_0.gguf");
  const auto removed = c.rm("own/repo");
  ASSERT_TRUE(removed) << removed.error().message;
  EXPECT_EQ(removed->n_bytes, 0u);
  EXPECT_TRUE(fs::exists(precious));
}

TEST(HubCache, BuildsWithoutLibcurlSayWhatIsMissing) {
  if (can_download()) GTEST_SKIP() << "this build can download";
  Cache c;
  c.settings.offline = false;
  const auto model = c.find("own/repo");
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code, Code::unsupported);
  EXPECT_NE(model.error().message.find("libcurl"), std::string::npos);
}

}  // namespace
}  // namespace sluice::hub
