// Ids equal to those of an independent engine: vectors in the repository, and more beside it where they are present.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "text_fixtures.h"

namespace sluice::text {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> split_inputs(const std::string& all) {
  const std::string separator = "\n__ggml_vocab_test__\n";
  std::vector<std::string> texts;
  size_t from = 0;
  for (size_t at; (at = all.find(separator, from)) != std::string::npos; from = at + separator.size()) {
    texts.push_back(all.substr(from, at - from));
  }
  texts.push_back(all.substr(from));
  return texts;
}

void check_vectors(const fs::path& vocab_file) {
  SCOPED_TRACE(vocab_file.filename().string());
  const TokenizerPtr tokenizer = load(vocab_file);
  ASSERT_TRUE(tokenizer);
  const std::vector<std::string> texts = split_inputs(read_all(vocab_file.string() + ".inp"));
  std::istringstream lines(read_all(vocab_file.string() + ".out"));
  ASSERT_GE(texts.size(), 46u);
  const bool is_spm = tokenizer_model(vocab_file) == "llama";
  for (const std::string& text : texts) {
    std::string line;
    ASSERT_TRUE(std::getline(lines, line) || text.empty()) << "fewer lines than texts";
    std::istringstream numbers(line);
    const std::vector<Token> expected{std::istream_iterator<Token>(numbers), {}};
    EXPECT_EQ(tokenizer->encode(text, {.add_bos = false}), expected) << text;
    const bool has_added_space = is_spm && !expected.empty();
    EXPECT_EQ(tokenizer->decode(expected, true), (has_added_space ? " " : "") + text);
  }
}

std::string hex(const std::string& bytes) {
  std::string out;
  for (char c : bytes) {
    constexpr const char* kDigits = "0123456789abcdef";
    out += kDigits[static_cast<uint8_t>(c) >> 4];
    out += kDigits[static_cast<uint8_t>(c) & 15];
  }
  return out;
}

void check_texts(const fs::path& model_file, const fs::path& texts_file) {
  SCOPED_TRACE(model_file.filename().string());
  const TokenizerPtr tokenizer = load(model_file);
  ASSERT_TRUE(tokenizer);
  const auto rows = nlohmann::json::parse(read_all(texts_file));
  ASSERT_GE(rows.size(), 16u);
  for (const auto& row : rows) {
    const auto text = row["text"].get<std::string>();
    const auto ids = row["ids"].get<std::vector<Token>>();
    EXPECT_EQ(tokenizer->encode(text, {.add_bos = false}), ids) << text;
    const auto special = tokenizer->encode(text, {.add_bos = true, .parse_special = true, .repeat_bos = true});
    EXPECT_EQ(special, row["ids_special"].get<std::vector<Token>>()) << text;
    EXPECT_EQ(hex(tokenizer->decode(ids, true)), row["text_of_ids_hex"].get<std::string>()) << text;
  }
}

// NAME.texts.json and NAME.gguf of a folder; returns how many there were.
int check_folder(const fs::path& folder) {
  int n_checked = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    const size_t suffix = name.find(".texts.json");
    if (suffix == std::string::npos) continue;
    const fs::path model = folder / (name.substr(0, suffix) + ".gguf");
    if (!fs::exists(model)) continue;
    check_texts(model, entry.path());
    ++n_checked;
  }
  return n_checked;
}

TEST(Oracle, T04_gpt2_vectors) { check_vectors(kFixtures / "vocab" / "ggml-vocab-gpt-2.gguf"); }

TEST(Oracle, T04_sentencepiece_texts) {
  check_texts(kFixtures / "vocab" / "spm-small.gguf", kFixtures / "vocab" / "spm-small.texts.json");
}

TEST(Oracle, T04_a_published_model_file) {
  const fs::path file = test::source_dir() / ".cache" / "gemma-3-270m-q4_k_m.gguf";
  if (!fs::exists(file)) GTEST_SKIP() << file << " is not there; tools/get_gemma3.py downloads it";
  check_texts(file, kFixtures / "vocab" / "gemma3.texts.json");
  const TokenizerPtr tokenizer = load(file);
  ASSERT_TRUE(tokenizer);
  const std::vector<Token> ids = tokenizer->encode(read_all(kFixtures / "story" / "heldout.txt"), {.add_bos = false});
  uint64_t hash = 0xCBF29CE484222325u;  // FNV-1a over ids; of those of the sentencepiece library
  for (Token id : ids) hash = (hash ^ static_cast<uint64_t>(id)) * 0x100000001B3u;
  EXPECT_EQ(ids.size(), 14362u);
  EXPECT_EQ(hash, 0xB4362968E82A5F4Au);
}

TEST(Oracle, T04_model_texts_in_the_repository) {
  const fs::path folder = kFixtures / "oracle";
  if (!fs::exists(folder)) GTEST_SKIP() << folder << " is not there";
  if (check_folder(folder) == 0) GTEST_SKIP() << "no NAME.texts.json with its model in " << folder;
}

class OracleVocab : public testing::TestWithParam<const char*> {};

TEST_P(OracleVocab, T04_vectors) {
  const fs::path file = kOracle / "vocab" / (std::string("ggml-vocab-") + GetParam() + ".gguf");
  if (!fs::exists(file)) GTEST_SKIP() << file << " is not there";
  check_vectors(file);
}

INSTANTIATE_TEST_SUITE_P(Oracle, OracleVocab,
                         testing::Values("deepseek-coder", "deepseek-llm", "falcon", "gpt-2", "llama-bpe", "llama-spm",
                                         "qwen2", "qwen35", "refact"),
                         [](const auto& vocab) {
                           std::string name = vocab.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(Oracle, T04_model_texts) {
  const fs::path folder = kOracle / "models";
  if (!fs::exists(folder)) GTEST_SKIP() << folder << " is not there";
  EXPECT_GE(check_folder(folder), 21);
}

}  // namespace
}  // namespace sluice::text
