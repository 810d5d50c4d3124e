#include "hub/names.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "hub/remote.h"

namespace sluice::hub {
namespace {

std::vector<FileSet> sets_of(const std::vector<std::string>& paths) {
  std::vector<RepoFile> files;
  for (const std::string& path : paths) files.push_back({path, 10, ""});
  return model_sets(files);
}

TEST(HubNames, Forms) {
  for (const char* text : {"own/re.po-1:Q8_0", "hf:own/re.po-1:Q8_0", "hf.co/own/re.po-1:Q8_0",
                           "https://huggingface.co/own/re.po-1:Q8_0", "https://hf.co/own/re.po-1:Q8_0"}) {
    const auto name = parse_name(text);
    ASSERT_TRUE(name) << text;
    EXPECT_EQ(name->repo_id(), "own/re.po-1");
    EXPECT_EQ(name->quant, "Q8_0");
  }
  EXPECT_EQ(parse_name("a/b")->quant, "");
  EXPECT_EQ(parse_name("a/b:dir/model.gguf")->quant, "dir/model.gguf");
}

TEST(HubNames, WhatIsNoNameIsRefused) {
  for (const char* text :
       {"",      "hf:",    "a",      "a/",   "/b",   "a/b/c", "a/..",       "../b",    "a/b:",  "a/b:../c", "a/b:/c",
        "a/b c", "a--b/c", "a/b--c", "-a/b", "a/b.", "a/b\n", "a/b:Q4\x1b", "a/b?x=1", "a/b#c", "a%2f/b",   "\xff/b"}) {
    const auto name = parse_name(text);
    ASSERT_FALSE(name) << text;
    EXPECT_EQ(name.error().code, Code::invalid_argument);
  }
}

TEST(HubNames, QuantIsReadFromFileNames) {
  const std::pair<const char*, const char*> cases[] = {
      {"Some-Model-Q4_K_M.gguf", "Q4_K_M"},
      {"some-model.q4_k_m.gguf", "Q4_K_M"},
      {"some_model_q5_k_s.gguf", "Q5_K_S"},
      {"Model-UD-Q4_K_XL.gguf", "UD-Q4_K_XL"},
      {"UD-IQ2_XXS/Model-UD-IQ2_XXS-00001-of-00003.gguf", "UD-IQ2_XXS"},
      {"Q8_0/model-00002-of-00002.gguf", "Q8_0"},
      {"gpt-oss-20b-mxfp4.gguf", "MXFP4"},
      {"Model-MXFP4_MOE.gguf", "MXFP4_MOE"},
      {"Llama-3.2-1B-Instruct-f16.gguf", "F16"},
      {"BF16/Qwen3-30B-A3B-BF16.gguf", "BF16"},
      {"Model-TQ1_0.gguf", "TQ1_0"},
      {"Model-Q4_K_M-v2.gguf", "Q4_K_M"},
      {"Qwen3-0.6B.gguf", ""},
      {"QAT.gguf", ""},
      {"model.gguf", ""},
  };
  for (const auto& [path, quant] : cases) EXPECT_EQ(quant_of(path), quant) << path;
}

TEST(HubNames, SplitModelsAreOneSetAndOthersAreLeftOut) {
  const auto sets =
      sets_of({"b-Q8_0-00002-of-00002.gguf", "b-Q8_0-00001-of-00002.gguf", "mmproj-b-f16.gguf", "README.md",
               "imatrix_unsloth.gguf", "lost-Q2_K-00001-of-00002.gguf", "a-Q4_0.gguf", "x.gguf.part"});
  ASSERT_EQ(sets.size(), 2u);
  EXPECT_EQ(sets[0].quant, "Q4_0");
  ASSERT_EQ(sets[1].files.size(), 2u);
  EXPECT_EQ(sets[1].files[0].path, "b-Q8_0-00001-of-00002.gguf");
  EXPECT_EQ(sets[1].n_bytes(), 20u);
}

TEST(HubNames, Choice) {
  const auto chosen = [](const std::vector<std::string>& paths, const char* quant,
                         Otherwise otherwise = Otherwise::nearest) {
    auto set = choose(sets_of(paths), {"a", "b", quant}, otherwise);
    return set ? set->files[0].path : "error: " + set.error().message;
  };
  EXPECT_EQ(chosen({"m-Q8_0.gguf", "m-Q4_K_M.gguf", "m-Q4_0.gguf"}, ""), "m-Q4_K_M.gguf");
  EXPECT_EQ(chosen({"m-Q8_0.gguf", "m-Q4_K_M.gguf"}, "q8_0"), "m-Q8_0.gguf");
  EXPECT_EQ(chosen({"m-Q8_0.gguf", "m-UD-Q8_0.gguf"}, "Q8_0"), "m-Q8_0.gguf");
  EXPECT_EQ(chosen({"m-UD-Q8_0.gguf"}, "Q8_0"), "m-UD-Q8_0.gguf");
  EXPECT_EQ(chosen({"m-UD-Q4_K_XL.gguf", "m-F16.gguf", "m-Q8_0.gguf"}, ""), "m-UD-Q4_K_XL.gguf");
  EXPECT_EQ(chosen({"m-F16.gguf", "m-Q8_0.gguf"}, ""), "m-Q8_0.gguf");
  EXPECT_EQ(chosen({"only.gguf"}, ""), "only.gguf");
  EXPECT_EQ(chosen({"only.gguf"}, "", Otherwise::refuse).substr(0, 6), "error:");
  EXPECT_EQ(chosen({"x/one.gguf", "two.gguf"}, "one.gguf"), "x/one.gguf");
  EXPECT_EQ(chosen({"m-Q8_0.gguf", "m-F16.gguf"}, "Q4_K"), "error: a/b has no Q4_K; it has: F16, Q8_0");
  // Two files of one type are told apart by their names alone.
  EXPECT_EQ(chosen({"m-Q8_0.gguf", "n-Q8_0.gguf"}, "Q8_0"), "error: a/b has no Q8_0; it has: m-Q8_0.gguf, n-Q8_0.gguf");
  EXPECT_EQ(chosen({"m-Q8_0.gguf", "n-Q8_0.gguf"}, "n-Q8_0.gguf"), "n-Q8_0.gguf");
  EXPECT_NE(chosen({"README.md"}, "").find("no whole GGUF model"), std::string::npos);
}

// --- the hub's answer
// -------------------------------------------------------------------------------------------------

std::string answer(const std::string& sibling) {
  return fmt::format(R"({{"sha": "{}", "siblings": [{}]}})", std::string(40, 'a'), sibling);
}
std::string sibling(const std::string& path, const std::string& sha = std::string(64, 'b'),
                    const std::string& size = "7") {
  return fmt::format(R"({{"rfilename": "{}", "lfs": {{"sha256": "{}", "size": {}}}}})", path, sha, size);
}

TEST(HubAnswer, IsRead) {
  const auto small = R"({"rfilename": "README.md", "blobId": ")" + std::string(40, 'd') + R"(", "size": 3})";
  const auto repository = parse_repository(answer(sibling("x/m.gguf") + "," + small), "a/b");
  ASSERT_TRUE(repository) << repository.error().message;
  EXPECT_EQ(repository->commit, std::string(40, 'a'));
  ASSERT_EQ(repository->files.size(), 2u);
  EXPECT_EQ(repository->files[0].path, "x/m.gguf");
  EXPECT_EQ(repository->files[0].n_bytes, 7u);
  EXPECT_EQ(repository->files[1].oid, std::string(40, 'd'));
}

TEST(HubAnswer, HostileOnesAreRefused) {
  for (const char* path : {"../m.gguf", "/m.gguf", "a/../m.gguf", "a//m.gguf", "./m.gguf", "a\\\\b.gguf", "m\\n.gguf",
                           "m\\u001b.gguf", "m\\u0000.gguf", "m\\u0085.gguf", "", ".."})
    EXPECT_FALSE(parse_repository(answer(sibling(path)), "a/b")) << path;
  EXPECT_FALSE(parse_repository(answer(sibling(std::string(2000, 'm'))), "a/b"));
  for (const char* sha : {"", "../../etc", "B"})
    EXPECT_FALSE(parse_repository(answer(sibling("m", sha)), "a/b")) << sha;
  for (const char* size : {"-1", "1e3", "\"7\"", "99999999999999999999", "70368744177664", "null"})
    EXPECT_FALSE(parse_repository(answer(sibling("m", std::string(64, 'b'), size)), "a/b")) << size;
  EXPECT_FALSE(parse_repository(answer(sibling("m") + "," + sibling("m")), "a/b"));
  EXPECT_FALSE(parse_repository(answer("7"), "a/b"));
  const std::string deep(100000, '[');
  for (const std::string& text :
       {std::string(), std::string("<html>"), std::string("[]"), std::string("{}"), deep, answer(deep),
        std::string(R"({"sha": "../x", "siblings": []})"), answer(sibling("m")).substr(0, 150)})
    EXPECT_FALSE(parse_repository(text, "a/b")) << text.substr(0, 80);
  const auto refused = parse_repository(answer(sibling("../\\u001b[31m")), "a/b");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message.find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace sluice::hub
