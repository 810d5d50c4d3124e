// Vocabularies in SentencePiece's spelling: merging by score, and byte-pair encoding over characters.
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "text_fixtures.h"

namespace sluice::text {
namespace {

using Ids = std::vector<Token>;
constexpr EncodeOptions kPlain{.add_bos = false};
const std::string kSpace = "\u2581";

Ids bytes_of(std::string_view text) {
  Ids ids;
  for (char c : text) ids.push_back(byte_token(static_cast<uint8_t>(c)));
  return ids;
}

// Without a space in front.
SpacedVocab bare() {
  SpacedVocab spaced;
  spaced.vocab.add_space_prefix = false;
  return spaced;
}

TEST(Spm, the_best_score_first_then_the_leftmost) {
  SpacedVocab spaced = bare();
  const Token a = spaced.add("a"), b = spaced.add("b"), c = spaced.add("c");
  const Token ab = spaced.add("ab", -2), bc = spaced.add("bc", -1), abc = spaced.add("abc", -9);
  const Token aa = spaced.add("aa", -3), bcbc = spaced.add("bcbc", 0.5f);
  const TokenizerPtr tokenizer = spaced.make();
  EXPECT_EQ(tokenizer->encode("abcc", kPlain), (Ids{abc, c})) << "bc, then abc from a and bc";
  EXPECT_EQ(tokenizer->encode("abab", kPlain), (Ids{ab, ab}));
  EXPECT_EQ(tokenizer->encode("aaa", kPlain), (Ids{aa, a})) << "of equals the leftmost";
  EXPECT_EQ(tokenizer->encode("abcbc", kPlain), (Ids{a, bcbc}));
  EXPECT_EQ(tokenizer->encode("bba", kPlain), (Ids{b, b, a}));
  EXPECT_EQ(tokenizer->encode("ba", kPlain), (Ids{b, a}));
  EXPECT_EQ(tokenizer->encode("bc", kPlain), (Ids{bc}));
}

TEST(Spm, scores_of_any_kind_are_in_order) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const float falling[] = {inf, 3e38f, 1, 1e-40f, 0, -1e-40f, -1, -3e38f, -inf};
  for (size_t i = 0; i + 1 < std::size(falling); ++i) {
    SpacedVocab spaced = bare();
    const Token a = spaced.add("a"), c = spaced.add("c");
    const Token ab = spaced.add("ab", falling[i + 1]), bc = spaced.add("bc", falling[i]);
    EXPECT_EQ(spaced.make()->encode("abc", kPlain), (Ids{a, bc})) << i;
    std::swap(spaced.vocab.scores[static_cast<size_t>(ab)], spaced.vocab.scores[static_cast<size_t>(bc)]);
    EXPECT_EQ(spaced.make()->encode("abc", kPlain), (Ids{ab, c})) << i;
  }
  SpacedVocab spaced = bare();
  const Token ab = spaced.add("ab", -0.0f), bc = spaced.add("bc", 0.0f);
  EXPECT_EQ(spaced.make()->encode("abc", kPlain), (Ids{ab, byte_token('c')})) << "zeros are equal";
  for (float score : {nan, -nan}) {
    spaced.vocab.scores[static_cast<size_t>(bc)] = score;
    EXPECT_EQ(spaced.make()->decode(spaced.make()->encode("abcbc", kPlain), false), "abcbc");
  }
  spaced.vocab.scores.clear();
  EXPECT_EQ(spaced.make()->encode("abc", kPlain), (Ids{ab, byte_token('c')})) << "without scores all are equal";
}

TEST(Spm, characters_without_a_token_are_bytes_unless_a_merge_takes_them) {
  SpacedVocab spaced = bare();
  const Token token = spaced.add("\u00E9t");
  const TokenizerPtr tokenizer = spaced.make();
  EXPECT_EQ(tokenizer->encode("\u00E9t", kPlain), (Ids{token}));
  EXPECT_EQ(tokenizer->encode("\u00E9\U0001F600", kPlain), bytes_of("\u00E9\U0001F600"));
}

TEST(Spm, a_space_in_front_of_text_and_after_special_tokens) {
  SpacedVocab spaced;
  const Token space = spaced.add(kSpace), a = spaced.add("a"), space_a = spaced.add(kSpace + "a");
  const Token tool = spaced.add("<tool>", 0, TokenType::user_defined);
  const EncodeOptions special{.add_bos = false, .parse_special = true};
  const TokenizerPtr with = spaced.make();
  EXPECT_EQ(with->encode("a a", kPlain), (Ids{space_a, space_a}));
  EXPECT_EQ(with->encode(" a", kPlain), (Ids{space, space_a}));
  EXPECT_EQ(with->encode("", kPlain), Ids{});
  EXPECT_EQ(with->encode("a<tool>a</s>a", special), (Ids{space_a, tool, space_a, spaced.vocab.eos, space_a}));
  EXPECT_EQ(with->decode(Ids{space_a, tool, space_a}, false), " a<tool> a");
  EXPECT_EQ(with->encode("a" + kSpace + "a", kPlain), (Ids{space_a, space_a})) << "the mark itself is a space";
  spaced.vocab.add_space_prefix = false;
  const TokenizerPtr without = spaced.make();
  EXPECT_EQ(without->encode("a a", kPlain), (Ids{a, space_a}));
  EXPECT_EQ(without->encode("<tool>a", kPlain), (Ids{tool, a}));
}

TEST(Spm, texts_of_control_and_byte_tokens_are_text) {
  SpacedVocab spaced = bare();
  const Token open = spaced.add("<"), s = spaced.add("s"), close = spaced.add(">"), open_s = spaced.add("<s", -1);
  spaced.add("<0", -1);
  spaced.add("<0x", -1);
  spaced.add("<0x4", -1);
  const Token before = spaced.add("<0x41", -1);
  spaced.add("[pad]", 0, TokenType::unused);
  spaced.add("[pad", -1);
  const TokenizerPtr tokenizer = spaced.make();
  EXPECT_EQ(tokenizer->encode("<s>", kPlain), (Ids{open_s, close}));
  EXPECT_EQ(tokenizer->encode("<0x41>", kPlain), (Ids{before, close}));
  EXPECT_EQ(tokenizer->encode("[pad]", kPlain).back(), byte_token(']'));
  EXPECT_EQ(tokenizer->encode("<s>", {.add_bos = false, .parse_special = true}), (Ids{spaced.vocab.bos}));
  EXPECT_EQ(tokenizer->encode("s<", kPlain), (Ids{s, open}));
}

TEST(Spm, runs_that_are_user_defined_are_taken_longest_first) {
  SpacedVocab spaced = bare();
  const Token two = spaced.add("  ", -1000, TokenType::user_defined);
  const Token four = spaced.add("    ", -1000, TokenType::user_defined);
  const Token line = spaced.add("\n", -1000, TokenType::user_defined);
  const Token space_x = spaced.add(kSpace + "x");
  const TokenizerPtr tokenizer = spaced.make();
  EXPECT_EQ(tokenizer->encode("\n       x", kPlain), (Ids{line, four, two, space_x}));
  EXPECT_EQ(tokenizer->decode(Ids{line, four, two, space_x}, false), "\n       x");
}

TEST(Spm, a_tag_of_html_does_not_end_the_text) {
  SpacedVocab spaced = bare();
  const Token strike = spaced.vocab.eos;
  spaced.vocab.types[static_cast<size_t>(strike)] = TokenType::user_defined;
  spaced.vocab.eos = spaced.add("<eos>", 0, TokenType::control);
  const TokenizerPtr tokenizer = spaced.make();
  EXPECT_FALSE(tokenizer->is_end(strike));
  EXPECT_TRUE(tokenizer->is_end(spaced.vocab.eos));
  EXPECT_EQ(tokenizer->encode("</s>", kPlain), (Ids{strike}));
  EXPECT_EQ(tokenizer->piece(strike, false), "</s>");
}

TEST(Spm, T07_one_bos_by_default) {
  const SpacedVocab spaced = bare();
  const TokenizerPtr tokenizer = spaced.make();
  EXPECT_TRUE(tokenizer->adds_bos());
  EXPECT_FALSE(tokenizer->adds_eos());
  EXPECT_EQ(tokenizer->pre_name(), "");
  const EncodeOptions special{.add_bos = true, .parse_special = true};
  EXPECT_EQ(tokenizer->encode("<s>!", special), (Ids{spaced.vocab.bos, byte_token('!')}));
  EXPECT_EQ(tokenizer->encode("", special), (Ids{spaced.vocab.bos}));
}

TEST(Spm, bytes_without_a_token_are_unknown_or_dropped) {
  Vocab vocab;
  vocab.tokens = {"<unk>", "a", "\n"};
  vocab.types = {TokenType::unknown, TokenType::normal, TokenType::normal};
  vocab.scores = {0, 0, 0};
  vocab.add_space_prefix = false;
  const auto encode = [&](std::string_view text) { return (*make_spm(vocab))->encode(text, kPlain); };
  EXPECT_EQ(encode("ab\na"), (Ids{1, 2, 1}));
  vocab.unknown = 0;
  EXPECT_EQ(encode("ab\na"), (Ids{1, 0, 2, 1}));
}

// Both kinds with words of doubling lengths.
TokenizerPtr doubling(const std::string& model) {
  SpacedVocab spaced(model);
  spaced.vocab.add_space_prefix = false;
  for (const std::string& unit : {std::string("A"), std::string("\u4E2D"), std::string("."), kSpace}) {
    float score = -1;
    for (size_t n = 1; n <= 16; n *= 2) {
      spaced.add(repeat(unit, n), score--);
      if (n < 16) spaced.vocab.merges.push_back(repeat(unit, n) + " " + repeat(unit, n));
    }
  }
  return spaced.make();
}

class Spaced : public testing::TestWithParam<const char*> {};

TEST_P(Spaced, T01_long_runs_of_one_character) {
  const TokenizerPtr tokenizer = doubling(GetParam());
  for (std::string_view unit : {"A", "\u4E2D", ".", " ", "\n", "7", "A A", "\xFF", "\xF0\x9F"}) {
    const std::string text = repeat(unit, 200'000) + "x";
    on_small_stack([&] { EXPECT_TRUE(tokenizer->decode(tokenizer->encode(text, kPlain), false) == text) << unit; });
  }
  EXPECT_EQ(tokenizer->encode(repeat("A", 26'000), kPlain).size(), 26'000u / 16);
}

TEST_P(Spaced, invalid_bytes_have_their_tokens_and_part_words) {
  SpacedVocab spaced(GetParam());
  spaced.vocab.add_space_prefix = false;
  spaced.vocab.merges = {"a a"};
  const Token a = spaced.add("a"), aa = spaced.add("aa");
  const TokenizerPtr tokenizer = spaced.make();
  EXPECT_EQ(tokenizer->encode("aa\xFF"
                              "aa",
                              kPlain),
            (Ids{aa, byte_token(0xFF), aa}));
  EXPECT_EQ(tokenizer->encode("a\xC3"
                              "aa",
                              kPlain),
            (Ids{a, byte_token(0xC3), aa}))
      << "a cut character";
  EXPECT_EQ(tokenizer->encode("\xED\xA0\x80", kPlain), bytes_of("\xED\xA0\x80")) << "a surrogate";
  EXPECT_EQ(tokenizer->encode("a\xF0\x9F\x98", kPlain).size(), 4u) << "a cut character at the end";
}

TEST_P(Spaced, random_bytes_come_back) {
  const TokenizerPtr tokenizer = doubling(GetParam());
  std::mt19937 random(11);
  for (int round = 0; round < 500; ++round) {
    std::string bytes(random() % 300, '\0');
    for (char& byte : bytes)
      byte = static_cast<char>(round % 2 == 0 || random() % 8 == 0 ? random() : " A.\n"[random() % 4]);
    ASSERT_EQ(tokenizer->decode(tokenizer->encode(bytes, kPlain), false), bytes) << round;
  }
}

TEST_P(Spaced, T08_byte_tokens_stream_as_whole_characters) {
  const TokenizerPtr tokenizer = doubling(GetParam());
  const std::string text = "A\U0001F600\u0416";
  Utf8Stream utf8;
  std::vector<std::string> pieces;
  for (Token id : tokenizer->encode(text, kPlain)) pieces.push_back(utf8.push(tokenizer->piece(id, false)));
  EXPECT_EQ(pieces, (std::vector<std::string>{"A", "", "", "", "\U0001F600", "", "\u0416"}));
}

INSTANTIATE_TEST_SUITE_P(Spaced, Spaced, testing::Values("llama", "gemma4"),
                         [](const auto& model) { return std::string(model.param); });

TEST(CharBpe, merges_over_characters_and_spaces) {
  SpacedVocab spaced("gemma4");
  spaced.vocab.merges = {kSpace + " a", kSpace + "a b", "\u00E9 \u00E9", "x x"};
  const Token space = spaced.add(kSpace), a = spaced.add("a"), b = spaced.add("b"), acute = spaced.add("\u00E9");
  const Token x = spaced.add("x");
  const Token space_a = spaced.add(kSpace + "a"), space_ab = spaced.add(kSpace + "ab");
  const Token two = spaced.add("\u00E9\u00E9");
  const TokenizerPtr tokenizer = spaced.make();
  EXPECT_EQ(tokenizer->encode("ab ab  a", kPlain), (Ids{a, b, space_ab, space, space_a})) << "no space in front";
  EXPECT_EQ(tokenizer->encode("\u00E9\u00E9\u00E9", kPlain), (Ids{two, acute}));
  EXPECT_EQ(tokenizer->encode("\u00EA", kPlain), bytes_of("\u00EA"));
  EXPECT_EQ(tokenizer->encode("xxy", kPlain), (Ids{x, x, byte_token('y')})) << "a merge whose text is no token";
  EXPECT_EQ(tokenizer->decode(Ids{a, b, space_ab, two}, false), "ab ab\u00E9\u00E9");
}

TEST(CharBpe, runs_of_line_ends_part_the_text) {
  SpacedVocab spaced("gemma4");
  spaced.vocab.merges = {"a \n", "\n b", "\n \n"};
  const Token a = spaced.add("a"), b = spaced.add("b"), line = spaced.add("\n"), two = spaced.add("\n\n");
  const Token five = spaced.add(repeat("\n", 5));
  spaced.add("a\n");
  spaced.add("\nb");
  const TokenizerPtr tokenizer = spaced.make();
  EXPECT_EQ(tokenizer->encode("a\nb", kPlain), (Ids{a, line, b}));
  EXPECT_EQ(tokenizer->encode("a\n\n\nb", kPlain), (Ids{a, two, line, b}));
  EXPECT_EQ(tokenizer->encode(repeat("\n", 5), kPlain), (Ids{five})) << "taken whole, no merge leads there";
}

TEST(CharBpe, adds_bos_whatever_the_file_says) {
  SpacedVocab spaced("gemma4");
  spaced.vocab.add_bos = false;
  EXPECT_TRUE(spaced.make()->adds_bos());
  EXPECT_EQ(spaced.make()->encode("!", {}), (Ids{spaced.vocab.bos, byte_token('!')}));
  spaced.vocab.bos = -1;
  EXPECT_FALSE(spaced.make()->adds_bos());
}

TEST(CharBpe, by_the_name_of_a_pre_tokenizer) {
  SpacedVocab spaced("gpt2");
  spaced.vocab.pre = "sarvam-moe";
  spaced.vocab.merges = {kSpace + " a"};
  const Token token = spaced.add(kSpace + "a");
  spaced.add(kSpace);
  spaced.add("a");
  const auto made = make_bpe(spaced.vocab);
  ASSERT_TRUE(made.has_value()) << made.error().message;
  EXPECT_EQ((*made)->encode(" a", kPlain), (Ids{token}));
}

}  // namespace
}  // namespace sluice::text
