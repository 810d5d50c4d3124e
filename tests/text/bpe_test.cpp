#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <set>

#include "text/pre_tokenizer.h"
#include "text_fixtures.h"

namespace sluice::text {
namespace {

using Ids = std::vector<Token>;

// One name of each rule with expressions.
std::vector<std::string> pre_names() {
  std::vector<std::string> names;
  std::set<const PreRule*> seen;
  std::istringstream in(pre_rule_names());
  for (std::string name; std::getline(in >> std::ws, name, ',');) {
    const PreRule* rule = find_pre_rule(name);
    if (!rule->over_characters && seen.insert(rule).second) names.push_back(name);
  }
  return names;
}

std::vector<std::string> words(std::string_view pre, std::string_view text, bool use_jit = true) {
  const PreRule* rule = find_pre_rule(pre);
  EXPECT_NE(rule, nullptr) << pre;
  auto splitter = PreTokenizer::create(rule->expressions, use_jit);
  EXPECT_TRUE(splitter.has_value()) << pre;
  std::vector<std::string_view> views;
  splitter->split(text, views);
  return {views.begin(), views.end()};
}

using Words = std::vector<std::string>;

TEST(PreTokenizer, known_splits) {
  EXPECT_EQ(words("gpt-2", "It's  1234\n\nok"), (Words{"It", "'s", " ", " 1234", "\n", "\n", "ok"}));
  EXPECT_EQ(words("llama-bpe", "It'S 1234 a.b\n\n c"), (Words{"It", "'S", " ", "123", "4", " a", ".b", "\n\n", " c"}));
  EXPECT_EQ(words("lfm2", "12345"), (Words{"123", "45"}));
  EXPECT_EQ(words("qwen2", "v12"), (Words{"v", "1", "2"}));
  EXPECT_EQ(words("qwen35", "e\u0301a!"), (Words{"e\u0301a", "!"})) << "marks stay with their letters";
  EXPECT_EQ(words("gpt-4o", "HTTPServer's"), (Words{"HTTPServer's"}));
  EXPECT_EQ(words("gpt-4o", "helloWorld"), (Words{"hello", "World"}));
  EXPECT_EQ(words("deepseek-llm", "ab  \n  "), (Words{"ab", "  ", "\n", "  "}));
  EXPECT_EQ(words("deepseek-v3", "x12345\u4E00y"), (Words{"x", "123", "45", "\u4E00", "y"}));
  EXPECT_EQ(words("falcon", "a1234+b"), (Words{"a", "123", "4", "+", "b"}));
  EXPECT_EQ(words("command-r", "v12 ok"), (Words{"v", "1", "2", " ok"}));
  EXPECT_EQ(words("tekken", "It's 12"), (Words{"It", "'s", " ", "1", "2"}));
  EXPECT_EQ(words("kimi-k2", "Ab\u4E2D\u6587\u3001cD 1234"),
            (Words{"Ab", "\u4E2D\u6587", "\u3001c", "D", " ", "123", "4"}));
  EXPECT_EQ(words("k2-horizon", "\u0915\u094D\u200D\u0937 1234"), (Words{"\u0915\u094D\u200D\u0937", " ", "123", "4"}));
  EXPECT_EQ(words("youtu", "\uAC00\u3105\u4E2D\uFF0Cab12"),
            (Words{"\uAC00", "\u3105", "\u4E2D", "\uFF0C", "ab", "1", "2"}));
  EXPECT_EQ(words("exaone-moe", "a b cd e.\n\n"), (Words{"a b cd e", ".\n", "\n"}));
  EXPECT_EQ(words("minicpm5", "a1234 b"), (Words{"a", "123", "4", " b"}));
  EXPECT_EQ(words("ufakzeka", "it's"), (Words{"it", "'s"}));
  EXPECT_EQ(words("ufakzeka", "Ankara'da"), (Words{"Ankara", "'da"}));
  EXPECT_EQ(words("laguna", "a\n\n b"), (Words{"a", "\n\n", " b"}));
  EXPECT_EQ(words("spark2_5", "a!\n\nb12"), (Words{"a", "!", "\n", "\n", "b", "1", "2"}));
  EXPECT_EQ(words("bloom", "ab, c(d)"), (Words{"ab", ",", " c", "(", "d", ")"}));
  EXPECT_EQ(words("viking", "ab12"), (Words{"ab", "1", "2"}));
  EXPECT_EQ(words("chameleon", "IMGIMGAIZa  b1,c"), (Words{"IMGIMGAIZ", "a", "  ", "b", "1", ",", "c"}));
}

TEST(PreTokenizer, digits_in_threes_from_the_right) {
  EXPECT_EQ(words("afmoe", "1234567 12 123a"), (Words{"1", "234", "567", " ", "12", " ", "123", "a"}));
  EXPECT_EQ(words("tiny_aya", "1234567, 123456"), (Words{"1", "234", "567", ",", " ", "123", "456"}));
  EXPECT_EQ(words("tiny_aya", "1234a"), (Words{"123", "4", "a"})) << "only where the word ends with the digits";
  EXPECT_EQ(words("superbpe", "ab 1234567 c"), (Words{"ab ", "1", "234", "567", " c"}));
  EXPECT_EQ(words("superbpe", "12\u00BD1234\u00BD5678\u00BD"), (Words{"12\u00BD1", "234\u00BD5", "678\u00BD"}));
  EXPECT_EQ(words("superbpe", "\u00BD123"), (Words{"\u00BD", "123"}));
}

TEST(PreTokenizer, spaces_in_powers_of_two) {
  const auto sizes = [](std::string_view text) {
    std::vector<size_t> out;
    for (const std::string& word : words("jais-2", text)) out.push_back(word.size());
    return out;
  };
  EXPECT_EQ(sizes(repeat(" ", 700)), (std::vector<size_t>{512, 128, 32, 16, 8, 4}));
  EXPECT_EQ(sizes(repeat(" ", 8) + "x"), (std::vector<size_t>{4, 2, 1, 2})) << "7, for one belongs to the word";
  EXPECT_EQ(sizes("!\n" + repeat(" ", 5) + "\n" + repeat(" ", 3) + "1"), (std::vector<size_t>{2, 6, 2, 1, 1}));
}

TEST(PreTokenizer, white_space_is_that_of_unicode) {
  EXPECT_EQ(words("llama-bpe", "!\u180E!"), (Words{"!\u180E!"})) << "U+180E is no white space";
  EXPECT_EQ(words("llama-bpe", "!\u0085\u3000!"), (Words{"!", "\u0085", "\u3000", "!"}));
  EXPECT_EQ(words("llama-bpe", "x'\u017Fy"), (Words{"x", "'\u017Fy"})) << "a long s ends no English word";
}

TEST(PreTokenizer, joined_words_are_the_text) {
  std::mt19937 random(1);
  const Words units = {"a", "Z",      "9",      " ",      "\n",     "\r",         "'", "s",
                       ".", "\u00E9", "\u0301", "\u4E2D", "\u3000", "\U0001F680", "\t"};
  for (const std::string& pre : pre_names()) {
    for (int round = 0; round < 50; ++round) {
      std::string text;
      for (int i = 0; i < 40; ++i) text += units[random() % units.size()];
      std::string joined;
      for (const std::string& word : words(pre, text)) {
        EXPECT_FALSE(word.empty());
        joined += word;
      }
      EXPECT_EQ(joined, text) << pre;
    }
  }
}

TEST(PreTokenizer, T01_long_runs_without_jit) {
  for (const std::string& pre : pre_names()) {
    for (const std::string& unit : Words{"A", "\u4E2D", ".", " ", " \n"}) {
      const std::string text = repeat(unit, 50'000) + "x";
      EXPECT_EQ(words(pre, text, false), words(pre, text, true)) << pre << " " << unit;
    }
  }
}

TEST(Bpe, the_lowest_rank_goes_first_and_the_leftmost_of_equals) {
  const SmallVocab small(Merges{{"b", "c"}, {"a", "b"}, {"a", "a"}, {"aa", "a"}});
  const TokenizerPtr tokenizer = small.make();
  EXPECT_EQ(tokenizer->encode("abc", {}), (Ids{'a', 256}));
  EXPECT_EQ(tokenizer->encode("aaa", {}), (Ids{259}));
  EXPECT_EQ(tokenizer->encode("aaaaa", {}), (Ids{258, 259}));
}

TEST(Bpe, short_and_long_words_merge_alike) {
  // The same letters as one word of 40 (scan) and inside a word of 4000 (heap) built from independent parts: 'x' merges
  // with nothing, so the parts cannot touch.
  const SmallVocab small(Merges{{"a", "b"}, {"b", "a"}, {"ab", "ab"}, {"ba", "b"}, {"a", "ab"}, {"abab", "a"}});
  const TokenizerPtr tokenizer = small.make();
  std::mt19937 random(7);
  std::string longer;
  Ids expected;
  for (int part = 0; part < 100; ++part) {
    std::string shorter = "x";
    for (int i = 0; i < 39; ++i) shorter += random() % 2 ? 'a' : 'b';
    const Ids ids = tokenizer->encode(shorter, {});
    expected.insert(expected.end(), ids.begin(), ids.end());
    longer += shorter;
  }
  EXPECT_EQ(tokenizer->encode(longer, {}), expected);
}

TEST(Bpe, a_merge_result_that_is_no_token_falls_to_bytes) {
  SmallVocab small(Merges{{"a", "b"}});
  small.vocab.merges.push_back("c d");  // "cd" is not in the vocabulary
  small.vocab.merges.push_back("ab cd");
  EXPECT_EQ(small.make()->encode("cdab", {}), (Ids{'c', 'd', 256}));
  EXPECT_EQ(small.make()->encode("abcd", {}), (Ids{'a', 'b', 'c', 'd'}));
}

TEST(Bpe, bytes_outside_of_a_small_alphabet) {
  SmallVocab small;
  small.vocab.tokens = {"a", "<0x62>", "<unk>"};
  small.vocab.types = {TokenType::normal, TokenType::byte, TokenType::unknown};
  EXPECT_EQ(small.make()->encode("abc", {}), (Ids{0, 1})) << "no unknown token: left out";
  small.vocab.unknown = 2;
  const TokenizerPtr tokenizer = small.make();
  EXPECT_EQ(tokenizer->encode("abc", {}), (Ids{0, 1, 2}));
  EXPECT_EQ(tokenizer->decode(Ids{0, 1, 2}, false), "ab");
  EXPECT_EQ(tokenizer->decode(Ids{0, 1, 2}, true), "ab<unk>");
}

TEST(Bpe, whole_words_are_taken_where_the_pre_tokenizer_says_so) {
  SmallVocab small(Merges{{"h", "e"}}, "llama-bpe");
  const Token hello = small.add("hello");
  const Token bos = small.add("bos", TokenType::control);
  EXPECT_EQ(small.make()->encode("hello", {}), (Ids{hello}));
  EXPECT_EQ(small.make()->encode("bos", {}), (Ids{'b', 'o', 's'})) << "text never becomes a control token by itself";
  EXPECT_EQ(small.make()->encode("bos", {.parse_special = true}), (Ids{bos}));
  small.vocab.pre = "gpt-2";
  EXPECT_EQ(small.make()->encode("hello", {}), (Ids{256, 'l', 'l', 'o'}));
}

TEST(Bpe, invalid_utf8_becomes_byte_tokens) {
  const TokenizerPtr tokenizer = SmallVocab(Merges{{"\xC3", "\xA9"}}, "llama-bpe").make();
  EXPECT_EQ(tokenizer->encode("\xC3\xA9", {}), (Ids{256}));
  EXPECT_EQ(tokenizer->encode("a\xFF\xC3\xA9\xC3", {}), (Ids{'a', 0xFF, 256, 0xC3}));
  EXPECT_EQ(tokenizer->encode("\xED\xA0\x80", {}), (Ids{0xED, 0xA0, 0x80})) << "a surrogate is no character";
}

TEST(Special, user_defined_always_control_only_when_asked_longest_first) {
  SmallVocab small;
  const Token tool = small.add("<tool>", TokenType::user_defined);
  const Token tool_end = small.add("<tool>end", TokenType::user_defined);
  const Token start = small.add("<|start_x|>", TokenType::control);
  const Token unknown = small.add("<unk>", TokenType::unknown);
  const TokenizerPtr tokenizer = small.make();
  EXPECT_EQ(tokenizer->encode("a<tool><tool>end", {}), (Ids{'a', tool, tool_end}));
  EXPECT_EQ(tokenizer->encode("<tool>en", {}), (Ids{tool, 'e', 'n'}));
  EXPECT_EQ(tokenizer->encode("<|start_x|><unk>", {}).size(), 16u);
  EXPECT_EQ(tokenizer->encode("<|start_x|><unk>b", {.parse_special = true}), (Ids{start, unknown, 'b'}));
  EXPECT_EQ(tokenizer->decode(Ids{start, tool, unknown, 'b'}, false), "<tool>b");
  EXPECT_EQ(tokenizer->decode(Ids{start, tool, unknown, 'b'}, true), "<|start_x|><tool><unk>b");
  EXPECT_TRUE(tokenizer->is_control(start));
  EXPECT_FALSE(tokenizer->is_control(tool));
}

TEST(Special, ids_out_of_range_are_harmless) {
  const TokenizerPtr tokenizer = SmallVocab().make();
  for (Token id : {-1, 256, 1 << 30}) {
    EXPECT_EQ(tokenizer->piece(id, true), "");
    EXPECT_FALSE(tokenizer->is_control(id));
    EXPECT_FALSE(tokenizer->is_end(id));
  }
  EXPECT_EQ(tokenizer->find("no such token"), -1);
}

TEST(Special, end_tokens_by_id_and_by_text) {
  SmallVocab small(Merges{{"<", "/"}, {"</", "s"}, {"</s", ">"}});
  small.vocab.eos = small.add("<stop>", TokenType::control);
  const Token im_end = small.add("<|im_end|>", TokenType::control);
  const Token eot = small.add("<|eot_id|>");  // files mark such tokens wrongly
  const Token plain = small.add("<plain>", TokenType::control);
  const TokenizerPtr tokenizer = small.make();
  EXPECT_TRUE(tokenizer->is_end(small.vocab.eos));
  EXPECT_TRUE(tokenizer->is_end(im_end));
  EXPECT_TRUE(tokenizer->is_end(eot));
  EXPECT_TRUE(tokenizer->is_control(eot));
  EXPECT_FALSE(tokenizer->is_end(plain));
  EXPECT_FALSE(tokenizer->is_end(258)) << "</s> built by merges is HTML";
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("</s>", {}), false), "</s>");
}

TEST(Special, harmony_ends_at_return_not_at_end) {
  SmallVocab small;
  const Token end = small.add("<|end|>", TokenType::control);
  const Token back = small.add("<|return|>", TokenType::control);
  const Token call = small.add("<|call|>", TokenType::control);
  const Token channel = small.add("<|channel|>", TokenType::control);
  const TokenizerPtr tokenizer = small.make();
  EXPECT_FALSE(tokenizer->is_end(end));
  EXPECT_TRUE(tokenizer->is_end(back));
  EXPECT_TRUE(tokenizer->is_end(call));
  EXPECT_EQ(tokenizer->piece(channel, false), "<|channel|>") << "the caller needs the channel markers";
}

TEST(Special, T07_one_bos_however_the_template_writes_it) {
  SmallVocab small;
  const Token bos = small.vocab.bos = small.add("<s>", TokenType::control);
  const Token eos = small.vocab.eos = small.add("<stop>", TokenType::control);
  small.vocab.add_bos = small.vocab.add_eos = true;
  const TokenizerPtr tokenizer = small.make();
  EXPECT_TRUE(tokenizer->adds_bos());
  const EncodeOptions special{.add_bos = true, .parse_special = true};
  EXPECT_EQ(tokenizer->encode("hi", special), (Ids{bos, 'h', 'i', eos}));
  EXPECT_EQ(tokenizer->encode("<s>hi<stop>", special), (Ids{bos, 'h', 'i', eos}));
  EXPECT_EQ(tokenizer->encode("<s><s>hi", special), (Ids{bos, bos, 'h', 'i', eos})) << "the text's own are left alone";
  EXPECT_EQ(tokenizer->encode("", special), (Ids{bos, eos}));
  EXPECT_EQ(tokenizer->encode("<s>hi", {.add_bos = false, .parse_special = true}), (Ids{bos, 'h', 'i'}));
  EXPECT_EQ(tokenizer->encode("<s>", {.add_bos = true, .parse_special = true, .repeat_bos = true}),
            (Ids{bos, bos, eos}));
  EXPECT_EQ(tokenizer->encode("<s>", {}).size(), 5u) << "without parse_special it is text";
}

TEST(Special, bos_by_default_where_the_pre_tokenizer_wants_it) {
  SmallVocab small(Merges{}, "llama-bpe");
  EXPECT_FALSE(small.make()->adds_bos()) << "no BOS id";
  small.vocab.bos = small.add("<s>", TokenType::control);
  EXPECT_TRUE(small.make()->adds_bos());
  small.vocab.add_bos = false;
  EXPECT_FALSE(small.make()->adds_bos());
  small.vocab.add_bos.reset();
  small.vocab.pre = "qwen2";
  EXPECT_FALSE(small.make()->adds_bos());
}

TEST(Bpe, T01_long_runs_of_one_character) {
  const Merges doubling = {{"A", "A"}, {"AA", "AA"}, {" ", " "}, {".", "."}};
  const Words units = {"A", "\u4E2D", ".", " ", "\n", "7", "'", "\u0301", "aA", " \n", "\xFF"};
  for (const std::string& pre : pre_names()) {
    const TokenizerPtr tokenizer = SmallVocab(doubling, pre).make();
    for (size_t i = 0; i < units.size(); ++i) {
      const std::string& unit = units[i];
      const std::string text = repeat(unit, i < 4 ? 200'000 : 50'000) + (unit == " \n" ? "" : "x");
      on_small_stack([&] { EXPECT_EQ(tokenizer->decode(tokenizer->encode(text, {}), false), text) << pre; });
    }
  }
}

TEST(Bpe, T01_time_grows_with_the_text_not_with_its_square) {
  // A quadratic step would take minutes; the bound leaves room for sanitizers and busy machines.
  const std::filesystem::path file = kFixtures / "vocab" / "ggml-vocab-gpt-2.gguf";
  for (const char* pre : {"gpt-2", "llama-bpe", "deepseek-llm", "gpt-4o"}) {
    const TokenizerPtr tokenizer = load(file, pre);
    ASSERT_TRUE(tokenizer);
    for (std::string_view unit : {"A", "\u4E2D", ".", " ", "The quick brown fox, 1234 times.\n", "<", "\xF0\x9F"}) {
      const std::string text = repeat(unit, 1'000'000 / unit.size());
      const auto start = std::chrono::steady_clock::now();
      const Ids ids = tokenizer->encode(text, {});
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
      EXPECT_LT(seconds.count(), 30) << pre << " " << unit;
      RecordProperty(std::string(pre) + "_" + std::to_string(static_cast<uint8_t>(unit[0])) + "_ms",
                     static_cast<int>(seconds.count() * 1000));
      EXPECT_EQ(tokenizer->decode(ids, false), text);
    }
  }
}

TEST(Bpe, random_bytes_come_back) {
  std::mt19937 random(3);
  for (const std::string& pre : pre_names()) {
    const TokenizerPtr tokenizer = load(kFixtures / "vocab" / "ggml-vocab-gpt-2.gguf", pre);
    ASSERT_TRUE(tokenizer);
    for (int round = 0; round < 200; ++round) {
      std::string bytes(random() % 300, '\0');
      // Half of the rounds are mostly text, or nearly all bytes would be invalid.
      for (char& byte : bytes)
        byte = static_cast<char>(round % 2 == 0 || random() % 8 == 0 ? random() : ' ' + random() % 95);
      ASSERT_EQ(tokenizer->decode(tokenizer->encode(bytes, {}), false), bytes) << pre << " round " << round;
    }
  }
}

TEST(Merges, a_merge_without_two_parts_is_an_error) {
  for (const char* merge : {"", "a", " ", " a", "a "}) {
    SmallVocab small;
    small.vocab.merges.push_back(merge);
    const auto made = make_bpe(small.vocab);
    ASSERT_FALSE(made) << merge;
    EXPECT_EQ(made.error().code, Code::corrupt_file);
  }
}

}  // namespace
}  // namespace sluice::text
