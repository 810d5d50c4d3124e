#include "base/paths.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

namespace sluice {
namespace {

TEST(Paths, ExecutableIsThisTest) {
  const auto path = executable_path();
  ASSERT_TRUE(path);
  EXPECT_TRUE(std::filesystem::exists(*path));
  EXPECT_NE(path->find("base_tests"), std::string::npos) << *path;
}

TEST(Paths, CacheFollowsTheSettings) {
  EXPECT_EQ(*cache_dir({.sluice_cache = "/c", .xdg_cache_home = "/x", .home = "/h"}), "/c");
  EXPECT_EQ(*cache_dir({.sluice_cache = "", .xdg_cache_home = "/x", .home = "/h"}), "/x/sluice");
  EXPECT_EQ(*cache_dir({.sluice_cache = "", .xdg_cache_home = "relative", .home = "/h"}), "/h/.cache/sluice");
  const auto from_user_database = cache_dir({});  // an Error for a user without an entry there
  EXPECT_TRUE(!from_user_database || from_user_database->ends_with("/.cache/sluice"));
}

TEST(Paths, HubCacheIsThatOfTheHubsTools) {
  EXPECT_EQ(*hub_cache_dir({.hub_cache = "/c", .hf_home = "/f", .xdg_cache_home = "/x", .home = "/h"}), "/c");
  EXPECT_EQ(*hub_cache_dir({.hub_cache = "", .hf_home = "/f", .xdg_cache_home = "/x", .home = "/h"}), "/f/hub");
  EXPECT_EQ(*hub_cache_dir({.hub_cache = "", .hf_home = "", .xdg_cache_home = "/x", .home = "/h"}),
            "/x/huggingface/hub");
  EXPECT_EQ(*hub_cache_dir({.hub_cache = "", .hf_home = "", .xdg_cache_home = "", .home = "/h"}),
            "/h/.cache/huggingface/hub");
}

TEST(Paths, StoryOfInstalledAndCheckout) {
  const auto installed = story_candidates("/opt/s/bin/sluice");
  EXPECT_EQ(installed.front(), "/opt/s/share/sluice/story-q4_0.gguf");
  const auto checkout = story_candidates("/src/my sluice/build/release/sluice");
  EXPECT_NE(std::find(checkout.begin(), checkout.end(), "/src/my sluice/assets/story-q4_0.gguf"), checkout.end());
  EXPECT_EQ(story_candidates("/unpacked/sluice").back(), "/unpacked/story-q4_0.gguf");
}

TEST(Paths, ChosenStoryMustExist) {
  const auto executable = executable_path();
  ASSERT_TRUE(executable);
  EXPECT_EQ(*find_story(*executable), *executable);
  const auto missing = find_story("/nonexistent/x.gguf");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Code::not_found);
  EXPECT_NE(missing.error().message.find("/nonexistent/x.gguf"), std::string::npos);
  EXPECT_FALSE(find_story("/"));  // a folder is no model
}

}  // namespace
}  // namespace sluice
