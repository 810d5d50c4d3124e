// Vocabularies in files, whole and damaged.
#include <gtest/gtest.h>
#include <functional>

#include "support/temp_dir.h"
#include "text_fixtures.h"

namespace sluice::text {
namespace {

using Edit = std::function<void(gguf::Writer&)>;

// A file of SmallVocab with BOS and EOS, then `edit` over its keys; `with_model` false: without them. Then what comes
// of it.
void write(const std::string& path, const Edit& edit, bool with_model) {
  SmallVocab small(Merges{{"a", "b"}});
  small.add("<s>", TokenType::control);
  small.add("<|im_end|>", TokenType::control);
  auto writer = gguf::Writer::create(path);
  EXPECT_TRUE(writer.has_value());
  writer->set("general.architecture", gguf::Value::of(std::string("none")));
  if (with_model) {
    writer->set("tokenizer.ggml.model", gguf::Value::of(std::string("gpt2")));
    writer->set("tokenizer.ggml.pre", gguf::Value::of(std::string("llama-bpe")));
    writer->set("tokenizer.ggml.tokens", gguf::Value::of(small.vocab.tokens));
    std::vector<int32_t> types;
    for (TokenType type : small.vocab.types) types.push_back(static_cast<int32_t>(type));
    writer->set("tokenizer.ggml.token_type", gguf::Value::of(types));
    writer->set("tokenizer.ggml.merges", gguf::Value::of(small.vocab.merges));
    writer->set("tokenizer.ggml.bos_token_id", gguf::Value::of(uint32_t{257}));
    writer->set("tokenizer.ggml.eos_token_id", gguf::Value::of(uint32_t{258}));
    writer->set("tokenizer.chat_template", gguf::Value::of(std::string("{{ messages }}")));
  }
  edit(*writer);
  EXPECT_TRUE(writer->write_header().has_value());
  EXPECT_TRUE(writer->finish().has_value());
}

struct Outcome {
  TokenizerPtr tokenizer;
  Code code = Code::internal;
  std::string message;
};

constexpr bool kBare = false;

Outcome create(const Edit& edit, std::string_view pre = {}, bool with_model = true) {
  const test::TempDir folder;
  const std::string path = folder.file("vocab.gguf");
  write(path, edit, with_model);
  const auto file = gguf::File::open(path);
  EXPECT_TRUE(file.has_value()) << (file ? "" : file.error().message);
  if (!file) return {};
  const auto made = Tokenizer::create(*file, pre);
  if (made) return {.tokenizer = *made};
  return {.code = made.error().code, .message = made.error().message};
}

TEST(VocabFile, what_the_file_says) {
  const Outcome outcome = create([](gguf::Writer&) {});
  ASSERT_TRUE(outcome.tokenizer) << outcome.message;
  const Tokenizer& tokenizer = *outcome.tokenizer;
  EXPECT_EQ(tokenizer.n_vocab(), 259u);
  EXPECT_EQ(tokenizer.bos(), 257);
  EXPECT_EQ(tokenizer.eos(), 258);
  EXPECT_EQ(tokenizer.pad(), -1);
  EXPECT_TRUE(tokenizer.adds_bos());
  EXPECT_FALSE(tokenizer.adds_eos());
  EXPECT_TRUE(tokenizer.is_end(258));
  EXPECT_EQ(tokenizer.find("<|im_end|>"), 258);
  EXPECT_EQ(tokenizer.pre_name(), "llama-bpe");
  EXPECT_EQ(tokenizer.chat_template(), "{{ messages }}");
  EXPECT_EQ(tokenizer.encode("abc", {}), (std::vector<Token>{257, 256, 'c'}));
}

TEST(VocabFile, T05_an_absent_pre_tokenizer_is_refused_and_can_be_named) {
  const Edit bare = [](gguf::Writer& writer) {
    writer.set("tokenizer.ggml.model", gguf::Value::of(std::string("gpt2")));
    writer.set("tokenizer.ggml.tokens", gguf::Value::of(SmallVocab().vocab.tokens));
  };
  const Outcome refused = create(bare, {}, kBare);
  EXPECT_FALSE(refused.tokenizer);
  EXPECT_EQ(refused.code, Code::unsupported);
  EXPECT_NE(refused.message.find("tokenizer.ggml.pre"), std::string::npos);
  for (const char* pre : {"default", "qwen2"}) {
    const Outcome named = create(bare, pre, kBare);
    ASSERT_TRUE(named.tokenizer) << named.message;
    EXPECT_EQ(named.tokenizer->pre_name(), pre);
  }
}

TEST(VocabFile, T05_an_unknown_pre_tokenizer_is_refused_by_name_and_can_be_replaced) {
  const Edit rename = [](gguf::Writer& writer) {
    writer.set("tokenizer.ggml.pre", gguf::Value::of(std::string("brand-new\n")));
  };
  const Outcome refused = create(rename);
  EXPECT_FALSE(refused.tokenizer);
  EXPECT_EQ(refused.code, Code::unsupported);
  EXPECT_NE(refused.message.find("brand-new"), std::string::npos);
  EXPECT_EQ(refused.message.find('\n'), std::string::npos);
  EXPECT_TRUE(create(rename, "llama-bpe").tokenizer);
  EXPECT_EQ(create(rename, "also-new").code, Code::unsupported);
}

TEST(VocabFile, files_without_a_vocabulary_and_other_kinds) {
  EXPECT_EQ(create([](gguf::Writer&) {}, {}, kBare).code, Code::not_found);
  for (const char* model : {"no_vocab", "none"}) {
    const auto set = [&](gguf::Writer& w) { w.set("tokenizer.ggml.model", gguf::Value::of(std::string(model))); };
    EXPECT_EQ(create(set).code, Code::not_found);
  }
  const auto set = [](gguf::Writer& w) { w.set("tokenizer.ggml.model", gguf::Value::of(std::string("rwkv"))); };
  const Outcome other = create(set);
  EXPECT_EQ(other.code, Code::unsupported);
  EXPECT_NE(other.message.find("rwkv"), std::string::npos);
}

// Writes a SentencePiece vocabulary without the ids of its special tokens, as the oldest files are.
Outcome create_spm(const Edit& edit, std::string_view pre = {}) {
  const auto write_spm = [&](gguf::Writer& writer) {
    const SpacedVocab spaced;
    writer.set("tokenizer.ggml.model", gguf::Value::of(std::string("llama")));
    writer.set("tokenizer.ggml.pre", gguf::Value::of(std::string("default")));
    writer.set("tokenizer.ggml.tokens", gguf::Value::of(spaced.vocab.tokens));
    writer.set("tokenizer.ggml.scores", gguf::Value::of(spaced.vocab.scores));
    std::vector<int32_t> types;
    for (TokenType type : spaced.vocab.types) types.push_back(static_cast<int32_t>(type));
    writer.set("tokenizer.ggml.token_type", gguf::Value::of(types));
    edit(writer);
  };
  return create(write_spm, pre, kBare);
}

TEST(VocabFile, a_sentencepiece_vocabulary_and_its_defaults) {
  const Outcome plain = create_spm([](gguf::Writer&) {});
  ASSERT_TRUE(plain.tokenizer) << plain.message;
  EXPECT_EQ(plain.tokenizer->bos(), 1);
  EXPECT_EQ(plain.tokenizer->eos(), 2);
  EXPECT_EQ(plain.tokenizer->pad(), -1);
  EXPECT_EQ(plain.tokenizer->pre_name(), "") << "what the file calls default is none";
  EXPECT_EQ(plain.tokenizer->encode("!", {}).size(), 5u) << "BOS, a space (three bytes), the text";
  const Outcome bare = create_spm([](gguf::Writer& writer) {
    writer.set("tokenizer.ggml.add_space_prefix", gguf::Value::of(false));
    writer.set("tokenizer.ggml.add_bos_token", gguf::Value::of(false));
  });
  ASSERT_TRUE(bare.tokenizer) << bare.message;
  EXPECT_EQ(bare.tokenizer->encode("!", {}), (std::vector<Token>{byte_token('!')}));
}

TEST(VocabFile, a_pre_tokenizer_for_a_vocabulary_without_any_is_refused) {
  const Outcome refused = create_spm([](gguf::Writer&) {}, "qwen2");
  EXPECT_FALSE(refused.tokenizer);
  EXPECT_EQ(refused.code, Code::invalid_argument);
  EXPECT_NE(refused.message.find("llama"), std::string::npos);
}

TEST(VocabFile, damage_is_an_error_and_never_a_crash) {
  using gguf::Value;
  const std::vector<std::pair<std::string, Value>> damages = {
      {"tokenizer.ggml.bos_token_id", Value::of(uint32_t{259})},
      {"tokenizer.ggml.eos_token_id", Value::of(int32_t{-7})},
      {"tokenizer.ggml.eot_token_id", Value::of(uint64_t{1} << 40)},
      {"tokenizer.ggml.padding_token_id", Value::of(std::string("x"))},
      {"tokenizer.ggml.token_type", Value::of(std::vector<int32_t>{1, 2, 3})},
      {"tokenizer.ggml.token_type", Value::of(std::string("x"))},
      {"tokenizer.ggml.scores", Value::of(std::vector<float>{1.0f})},
      {"tokenizer.ggml.tokens", Value::of(std::vector<std::string>{})},
      {"tokenizer.ggml.tokens", Value::of(std::vector<int32_t>{1})},
      {"tokenizer.ggml.merges", Value::of(std::vector<std::string>{"ab"})},
      {"tokenizer.ggml.add_bos_token", Value::of(std::string("yes"))},
      {"tokenizer.chat_template", Value::of(uint32_t{1})},
      {"tokenizer.ggml.pre", Value::of(uint32_t{1})},
      {"tokenizer.ggml.model", Value::of(uint32_t{1})},
  };
  for (const auto& damage : damages) {
    const std::string& key = damage.first;
    const Outcome outcome = create([&](gguf::Writer& writer) { writer.set(key, damage.second); });
    EXPECT_FALSE(outcome.tokenizer) << key;
    EXPECT_EQ(outcome.code, Code::corrupt_file) << key << ": " << outcome.message;
    EXPECT_NE(outcome.message, "") << key;
  }
}

TEST(VocabFile, ids_that_say_none_and_types_of_later_formats_are_accepted) {
  const auto edit = [](gguf::Writer& writer) {
    writer.set("tokenizer.ggml.padding_token_id", gguf::Value::of(uint32_t{0xFFFFFFFFu}));
    writer.set("tokenizer.ggml.eot_token_id", gguf::Value::of(int32_t{-1}));
    std::vector<int32_t> types(259, 1);
    types[5] = 99;
    writer.set("tokenizer.ggml.token_type", gguf::Value::of(types));
  };
  const Outcome outcome = create(edit);
  ASSERT_TRUE(outcome.tokenizer) << outcome.message;
  EXPECT_EQ(outcome.tokenizer->pad(), -1);
}

}  // namespace
}  // namespace sluice::text
