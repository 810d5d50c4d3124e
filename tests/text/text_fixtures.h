// Vocabularies for the tests: small ones built by hand, and those of files beside the repository where they are
// present.
#pragma once
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <filesystem>
#include <fstream>
#include <functional>
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
#include "text/char_bpe.h"
#include "text/spm.h"

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

inline std::string repeat(std::string_view unit, size_t n_units) {
  std::string out;
  out.reserve(unit.size() * n_units);
  for (size_t i = 0; i < n_units; ++i) out += unit;
  return out;
}

// A small stack: what recursion there is shows itself.
inline void on_small_stack(const std::function<void()>& body) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, size_t{1} << 20);
  pthread_t thread;
  const auto call = [](void* f) -> void* {
    (*static_cast<const std::function<void()>*>(f))();
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, &attributes, call, const_cast<std::function<void()>*>(&body)), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
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

// A vocabulary in SentencePiece's spelling: <unk>, <s>, </s>, the 256 bytes as tokens 3-258, then what is added.
struct SpacedVocab {
  Vocab vocab;

  explicit SpacedVocab(std::string model = "llama") {
    vocab.model = std::move(model);
    vocab.unknown = add("<unk>", 0, TokenType::unknown);
    vocab.bos = add("<s>", 0, TokenType::control);
    vocab.eos = add("</s>", 0, TokenType::control);
    for (int byte = 0; byte < 256; ++byte) add(fmt::format("<0x{:02X}>", byte), 0, TokenType::byte);
  }
  Token add(std::string text, float score = -100, TokenType type = TokenType::normal) {
    vocab.tokens.push_back(std::move(text));
    vocab.types.push_back(type);
    vocab.scores.push_back(score);
    return static_cast<Token>(vocab.tokens.size() - 1);
  }
  TokenizerPtr make() const {
    auto tokenizer = vocab.model == "llama" ? make_spm(vocab) : make_char_bpe(vocab);
    EXPECT_TRUE(tokenizer.has_value()) << (tokenizer ? "" : tokenizer.error().message);
    return tokenizer ? *tokenizer : nullptr;
  }
};

inline Token byte_token(uint8_t byte) { return 3 + byte; }

}  // namespace sluice::text
