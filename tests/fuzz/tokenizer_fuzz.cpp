// Any bytes through encode and decode of a small vocabulary: the bytes come back, streamed as well.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "sluice/tokenizer.h"
#include "text/bpe.h"
#include "text/byte_alphabet.h"

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

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t n_bytes) {
  static const std::shared_ptr<const sluice::Tokenizer> kTokenizers[] = {
      make("llama-bpe"),   make("gpt-2"),  make("qwen35"), make("deepseek-llm"),
      make("deepseek-v3"), make("gpt-4o"), make("falcon"),
  };
  if (n_bytes == 0) return 0;
  constexpr size_t kCount = sizeof(kTokenizers) / sizeof(kTokenizers[0]);
  const sluice::Tokenizer& tokenizer = *kTokenizers[(data[0] >> 1) % kCount];
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, n_bytes - 1);
  const auto ids = tokenizer.encode(text, {.add_bos = false, .parse_special = (data[0] & 1) != 0});
  if (tokenizer.decode(ids, true) != text) std::abort();
  sluice::Utf8Stream stream;
  std::string streamed;
  for (sluice::Token id : ids) streamed += stream.push(tokenizer.piece(id, true));
  if (streamed + stream.flush() != text) std::abort();
  return 0;
}
