// Vocabularies for the tests: small ones built by hand, and those of files beside the repository where they are
// present.
#pragma once
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "sluice/gguf.h"
#include "sluice/tokenizer.h"
#include "support/source_dir.h"
#include "text/bpe.h"
#include "text/byte_alphabet.h"

namespace sluice::text {

using TokenizerPtr = std::shared_ptr<const Tokenizer>;

inline const std::filesystem::path kOracle = test::source_dir() / ".." / "shared" / "oracle";
inline const std::filesystem::path kFixtures = test::source_dir() / "tests" / "fixtures";

inline std::string read_all(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in.good()) << path;
  return {std::istreambuf_iterator<char>(in), {}};
}

inline TokenizerPtr load(const std::filesystem::path& path, std::string_view pre = {}) {
  auto file = gguf::File::open(path.string());
  EXPECT_TRUE(file.has_value()) << path << ": " << (file ? "" : file.error().message);
  if (!file) return nullptr;
  auto tokenizer = Tokenizer::create(*file, pre);
  EXPECT_TRUE(tokenizer.has_value()) << path << ": " << (tokenizer ? "" : tokenizer.error().message);
  return tokenizer ? *tokenizer : nullptr;
}

// "" for files without a vocabulary.
inline std::string tokenizer_model(const std::filesystem::path& path) {
  const auto file = gguf::File::open(path.string());
  if (!file) return {};
  const auto model = file->get_string("tokenizer.ggml.model");
  return model ? *model : std::string();
}

using Merges = std::vector<std::pair<std::string, std::string>>;

// The 256 bytes as tokens 0-255 (token id = byte), then the results of the merges, then control tokens.
struct SmallVocab {
  Vocab vocab;

  explicit SmallVocab(const Merges& merges = {}, std::string pre = "gpt-2") {
    vocab.pre = std::move(pre);
    for (int byte = 0; byte < 256; ++byte) add(std::string(byte_to_alphabet(static_cast<uint8_t>(byte))));
    for (const auto& [left, right] : merges) {
      vocab.merges.push_back(to_alphabet(left) + " " + to_alphabet(right));
      add(to_alphabet(left + right));
    }
  }
  Token add(std::string text, TokenType type = TokenType::normal) {
    vocab.tokens.push_back(std::move(text));
    vocab.types.push_back(type);
    return static_cast<Token>(vocab.tokens.size() - 1);
  }
  TokenizerPtr make() const {
    auto tokenizer = make_bpe(vocab);
    EXPECT_TRUE(tokenizer.has_value()) << (tokenizer ? "" : tokenizer.error().message);
    return tokenizer ? *tokenizer : nullptr;
  }
};

}  // namespace sluice::text
