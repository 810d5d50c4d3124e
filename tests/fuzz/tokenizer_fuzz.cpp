// Any bytes through encode and decode of a small vocabulary: the bytes come back, streamed as well.
#include <fmt/format.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

#include "sluice/tokenizer.h"
#include "text/bpe.h"
#include "text/byte_alphabet.h"
#include "text/char_bpe.h"
#include "text/spm.h"

namespace {

using sluice::text::TokenType;

std::shared_ptr<const sluice::Tokenizer> make(const char* pre) {
  sluice::text::Vocab vocab;
  vocab.pre = pre;
  const auto add = [&](std::string text, TokenType type) {
    vocab.tokens.push_back(std::move(text));
    vocab.types.push_back(type);
    return static_cast<sluice::Token>(vocab.tokens.size() - 1);
  };
  for (int byte = 0; byte < 256; ++byte) {
    add(std::string(sluice::text::byte_to_alphabet(static_cast<uint8_t>(byte))), TokenType::normal);
  }
  constexpr std::string_view kMerges[][2] = {{" ", " "},   {"  ", "  "},     {"t", "h"}, {"th", "e"}, {"a", "a"},
                                             {"aa", "aa"}, {"\xF0", "\x9F"}, {"0", "0"}, {".", "."}};
  for (const auto& [left, right] : kMerges) {
    vocab.merges.push_back(sluice::text::to_alphabet(left) + " " + sluice::text::to_alphabet(right));
    add(sluice::text::to_alphabet(std::string(left).append(right)), TokenType::normal);
  }
  vocab.bos = add("<s>", TokenType::control);
  vocab.eos = add("<|im_end|>", TokenType::control);
  add("<tool>", TokenType::user_defined);
  add("<t", TokenType::user_defined);
  auto tokenizer = sluice::text::make_bpe(std::move(vocab));
  if (!tokenizer) std::abort();
  return *tokenizer;
}

constexpr std::string_view kSpace = "\u2581";

// In SentencePiece's spelling; `make_kind` is make_spm or make_char_bpe.
template <class Make>
std::shared_ptr<const sluice::Tokenizer> make_spaced(Make make_kind) {
  sluice::text::Vocab vocab;
  vocab.add_space_prefix = false;
  const auto add = [&](std::string text, TokenType type, float score) {
    vocab.tokens.push_back(std::move(text));
    vocab.types.push_back(type);
    vocab.scores.push_back(score);
    return static_cast<sluice::Token>(vocab.tokens.size() - 1);
  };
  for (int byte = 0; byte < 256; ++byte) add(fmt::format("<0x{:02X}>", byte), TokenType::byte, 0);
  for (std::string_view text : {"a", "t", "h", "e", "\n", "\u00E9"}) add(std::string(text), TokenType::normal, -99);
  add(std::string(kSpace), TokenType::normal, -99);
  float score = 0;
  const std::string space(kSpace);
  const std::pair<std::string, std::string> merges[] = {
      {space, space}, {"t", "h"},      {"th", "e"}, {"a", "a"},   {"aa", "aa"},        {"\n", "\n"},
      {space, "the"}, {"0", "\u00E9"}, {"<", "s"},  {"e", space}, {space, space + "a"}};
  for (const auto& [left, right] : merges) {
    vocab.merges.push_back(left + " " + right);
    add(left + right, TokenType::normal, score--);
  }
  vocab.bos = add("<s>", TokenType::control, 0);
  vocab.eos = add("<eos>", TokenType::control, 0);
  add("  ", TokenType::user_defined, 0);
  add("<t", TokenType::user_defined, 0);
  auto tokenizer = make_kind(std::move(vocab));
  if (!tokenizer) std::abort();
  return *tokenizer;
}

// The mark of a space in a text becomes a space.
std::string as_decoded(std::string text, bool is_spaced) {
  for (size_t at = 0; is_spaced && (at = text.find(kSpace, at)) != std::string::npos; ++at)
    text.replace(at, kSpace.size(), " ");
  return text;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t n_bytes) {
  static const std::shared_ptr<const sluice::Tokenizer> kTokenizers[] = {
      make("llama-bpe"),
      make("gpt-2"),
      make("qwen35"),
      make("deepseek-llm"),
      make("deepseek-v3"),
      make("gpt-4o"),
      make("falcon"),
      make("kimi-k2"),
      make("tiny_aya"),
      make("superbpe"),
      make("jais-2"),
      make("exaone-moe"),
      make_spaced(sluice::text::make_spm),
      make_spaced(sluice::text::make_char_bpe),
  };
  if (n_bytes == 0) return 0;
  constexpr size_t kCount = sizeof(kTokenizers) / sizeof(kTokenizers[0]);
  const size_t kind = (data[0] >> 1) % kCount;
  const sluice::Tokenizer& tokenizer = *kTokenizers[kind];
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, n_bytes - 1);
  const std::string expected = as_decoded(std::string(text), kind + 2 >= kCount);
  const auto ids = tokenizer.encode(text, {.add_bos = false, .parse_special = (data[0] & 1) != 0});
  if (tokenizer.decode(ids, true) != expected) std::abort();
  sluice::Utf8Stream stream;
  std::string streamed;
  for (sluice::Token id : ids) streamed += stream.push(tokenizer.piece(id, true));
  if (streamed + stream.flush() != expected) std::abort();
  return 0;
}
