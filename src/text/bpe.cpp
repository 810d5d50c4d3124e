#include "text/bpe.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <unordered_map>

#include "base/log.h"
#include "base/text.h"
#include "text/byte_alphabet.h"
#include "text/char_bpe.h"
#include "text/merger.h"
#include "text/pre_tokenizer.h"
#include "text/utf8.h"
#include "text/vocab_tokenizer.h"

namespace sluice::text {
namespace {

class BpeTokenizer final : public VocabTokenizer {
 public:
  BpeTokenizer(Vocab vocab, const PreRule& rule, PreTokenizer pre, Merger merger)
      : VocabTokenizer(std::move(vocab), rule.adds_bos, false), pre_(std::move(pre)), merger_(std::move(merger)) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const Symbol symbol = merger_.byte_symbol(static_cast<uint8_t>(byte));
      Token id = merger_.is_token(symbol) ? static_cast<Token>(symbol) : find(fmt::format("<0x{:02X}>", byte));
      if (id < 0) id = this->vocab().unknown;
      byte_tokens_[byte] = id;
    }
    if (rule.ignore_merges) index_words();
    const auto n_missing = std::count(byte_tokens_.begin(), byte_tokens_.end(), -1);
    if (n_missing != 0)
      log::warn("the vocabulary has no tokens for {} of the 256 bytes: such text is dropped", n_missing);
  }

 private:
  struct Work {
    std::vector<std::string_view> words;
    Merger::Scratch merge;
  };

  void encode_plain(std::string_view text, std::vector<Token>& out) const override;
  std::string plain_piece(Token id) const override { return from_alphabet(token_text(id)); }

  void index_words();
  void encode_word(std::string_view word, Work& work, std::vector<Token>& out) const;
  void append_byte(uint8_t byte, std::vector<Token>& out) const {
    if (byte_tokens_[byte] >= 0) out.push_back(byte_tokens_[byte]);
  }

  PreTokenizer pre_;
  Merger merger_;
  std::array<Token, 256> byte_tokens_{};  // -1: neither a byte token nor an unknown token
  // ignore_merges: words (in the alphabet) that are taken whole; empty otherwise. Control tokens are not among them:
  // their texts are text here.
  std::unordered_map<std::string_view, Token> whole_words_;
  size_t longest_word_ = 0;
};

void BpeTokenizer::index_words() {
  whole_words_.reserve(n_vocab());
  for (Token id = 0; in_range(id); ++id) {
    if (type(id) != TokenType::normal && type(id) != TokenType::user_defined) continue;
    whole_words_.emplace(token_text(id), id);
    longest_word_ = std::max(longest_word_, token_text(id).size());
  }
}

void BpeTokenizer::encode_plain(std::string_view text, std::vector<Token>& out) const {
  Work work;
  while (!text.empty()) {
    const size_t n_valid = utf8_valid_prefix(text);
    if (n_valid > 0) {
      pre_.split(text.substr(0, n_valid), work.words);
      for (std::string_view word : work.words) encode_word(word, work, out);
      text.remove_prefix(n_valid);
    }
    while (!text.empty() && utf8_step(text).kind != Utf8Kind::character) {
      append_byte(static_cast<uint8_t>(text[0]), out);
      text.remove_prefix(1);
    }
  }
}

void BpeTokenizer::encode_word(std::string_view word, Work& work, std::vector<Token>& out) const {
  if (word.size() <= longest_word_) {
    const auto whole = whole_words_.find(to_alphabet(word));
    if (whole != whole_words_.end()) {
      out.push_back(whole->second);
      return;
    }
  }
  std::vector<Symbol>& symbols = work.merge.symbols;
  symbols.resize(word.size());
  for (size_t i = 0; i < word.size(); ++i) symbols[i] = merger_.byte_symbol(static_cast<uint8_t>(word[i]));
  merger_.merge(work.merge);
  for (Symbol symbol : symbols) {
    if (merger_.is_token(symbol)) {
      out.push_back(static_cast<Token>(symbol));
    } else {
      for (char byte : from_alphabet(merger_.extra_text(symbol))) append_byte(static_cast<uint8_t>(byte), out);
    }
  }
}

}  // namespace

Result<std::shared_ptr<const Tokenizer>> make_bpe(Vocab vocab) {
  TRY(vocab.check());
  if (!vocab.pre) {
    return Error{Code::unsupported,
                 "the file does not name its pre-tokenizer (no tokenizer.ggml.pre key), and a wrong one "
                 "degrades every text; name it yourself (\"default\" is what such files got in the past)"};
  }
  const PreRule* rule = find_pre_rule(*vocab.pre);
  if (!rule) {
    return Error{
        Code::unsupported,
        fmt::format("pre-tokenizer '{}' is not known; if it splits like one of these, name that one instead: {}",
                    printable(*vocab.pre), pre_rule_names())};
  }
  if (rule->over_characters) return make_char_bpe(std::move(vocab));
  PreTokenizer pre = TRY(PreTokenizer::create(rule->expressions));
  if (vocab.merges.empty()) log::warn("the file has no merges (tokenizer.ggml.merges): text becomes single bytes");
  Merger merger = TRY(Merger::create(vocab));
  std::shared_ptr<const Tokenizer> tokenizer =
      std::make_shared<BpeTokenizer>(std::move(vocab), *rule, std::move(pre), std::move(merger));
  return tokenizer;
}

}  // namespace sluice::text
