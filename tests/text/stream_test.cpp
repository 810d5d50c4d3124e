#include <gtest/gtest.h>

#include <random>

#include "text_fixtures.h"

namespace sluice::text {
namespace {

std::string stream(const Tokenizer& tokenizer, const std::vector<Token>& ids,
                   std::vector<std::string>* pieces = nullptr) {
  Utf8Stream utf8;
  std::string joined;
  for (Token id : ids) {
    const std::string piece = utf8.push(tokenizer.piece(id, false));
    if (pieces) pieces->push_back(piece);
    joined += piece;
  }
  return joined + utf8.flush();
}

TEST(Stream, T08_tokens_that_cut_characters) {
  // F0 9F | 98 80 is an emoji in two tokens; D0 | 96 a Cyrillic letter in two.
  const TokenizerPtr tokenizer = SmallVocab(Merges{{"\xF0", "\x9F"}, {"\x98", "\x80"}}).make();
  const std::string text = "a\U0001F600\u0416z";
  const std::vector<Token> ids = tokenizer->encode(text, {});
  EXPECT_EQ(ids, (std::vector<Token>{'a', 256, 257, 0xD0, 0x96, 'z'}));
  std::vector<std::string> pieces;
  EXPECT_EQ(stream(*tokenizer, ids, &pieces), text);
  EXPECT_EQ(pieces, (std::vector<std::string>{"a", "", "\U0001F600", "", "\u0416", "z"}))
      << "only whole characters come out";
}

TEST(Stream, T08_every_cut_of_a_text) {
  const std::string text = "\u0416\U0001F680e\u0301 \u65E5\u672C x";
  for (size_t first = 0; first <= text.size(); ++first) {
    for (size_t second = first; second <= text.size(); ++second) {
      Utf8Stream utf8;
      std::string joined;
      for (std::string part : {text.substr(0, first), text.substr(first, second - first), text.substr(second)}) {
        const std::string out = utf8.push(part);
        EXPECT_EQ(out.find("\uFFFD"), std::string::npos);
        joined += out;
      }
      EXPECT_EQ(joined, text);
      EXPECT_EQ(utf8.flush(), "");
    }
  }
}

TEST(Stream, invalid_bytes_come_out_as_soon_as_no_character_can_hold_them) {
  Utf8Stream utf8;
  EXPECT_EQ(utf8.push("\xFF"), "\xFF");
  EXPECT_EQ(utf8.push("\xE2\x82"), "");
  EXPECT_EQ(utf8.push("x"), "\xE2\x82x");
  EXPECT_EQ(utf8.push("\xF0\x9F"), "");
  EXPECT_EQ(utf8.flush(), "\xF0\x9F");
  EXPECT_EQ(utf8.flush(), "");
}

TEST(Stream, random_bytes_are_all_there_in_order) {
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    Utf8Stream utf8;
    std::string all, joined;
    for (int i = 0; i < 20; ++i) {
      std::string part(random() % 5, '\0');
      for (char& byte : part) byte = static_cast<char>(0x80 * (random() % 4 != 0) + random() % 128);
      all += part;
      joined += utf8.push(part);
      EXPECT_LE(all.size() - joined.size(), 3u);
    }
    EXPECT_EQ(joined + utf8.flush(), all);
  }
}

}  // namespace
}  // namespace sluice::text
