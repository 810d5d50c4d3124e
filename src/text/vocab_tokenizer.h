// What all kinds of tokenizer share: ids, texts and types of the tokens, special tokens in a text, BOS and EOS.
// A kind adds how ordinary text becomes tokens and what bytes a token stands for.
#pragma once
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/token_trie.h"
#include "text/vocab.h"

namespace sluice::text {

class VocabTokenizer : public Tokenizer {
 public:
  std::vector<Token> encode(std::string_view text, const EncodeOptions& options) const final;
  std::string piece(Token id, bool show_special) const final;
  uint32_t n_vocab() const final { return static_cast<uint32_t>(vocab_.tokens.size()); }
  bool adds_bos() const final { return adds_bos_; }
  bool adds_eos() const final { return adds_eos_; }
  Token bos() const final { return vocab_.bos; }
  Token eos() const final { return vocab_.eos; }
  Token pad() const final { return vocab_.pad; }
  bool is_end(Token id) const final { return in_range(id) && ends_[static_cast<size_t>(id)]; }
  bool is_control(Token id) const final { return in_range(id) && type(id) == TokenType::control; }
  Token find(std::string_view token_text) const final;
  std::string_view chat_template() const final { return vocab_.chat_template; }
  std::string_view pre_name() const final { return vocab_.pre ? std::string_view(*vocab_.pre) : std::string_view(); }

 protected:
  // `vocab` must have passed check(). The defaults hold where the file does not say; without an id nothing is added.
  VocabTokenizer(Vocab vocab, bool adds_bos, bool adds_eos);
  VocabTokenizer(const VocabTokenizer&) = delete;
  VocabTokenizer& operator=(const VocabTokenizer&) = delete;

  // Appends the tokens of a stretch of any bytes without special tokens.
  virtual void encode_plain(std::string_view text, std::vector<Token>& out) const = 0;
  // The bytes of a normal token.
  virtual std::string plain_piece(Token id) const = 0;

  bool in_range(Token id) const { return id >= 0 && static_cast<size_t>(id) < vocab_.tokens.size(); }
  TokenType type(Token id) const { return vocab_.types[static_cast<size_t>(id)]; }
  const std::string& token_text(Token id) const { return vocab_.tokens[static_cast<size_t>(id)]; }
  const Vocab& vocab() const { return vocab_; }

 private:
  void settle_types();
  void encode_parts(std::string_view text, bool parse_special, std::vector<Token>& out) const;

  Vocab vocab_;
  bool adds_bos_;
  bool adds_eos_;
  std::unordered_map<std::string_view, Token> by_text_;  // views into vocab_.tokens
  std::vector<bool> ends_;                               // (n_vocab)
  TokenTrie user_defined_;                               // matched in every text
  TokenTrie special_;                                    // these and control tokens, with parse_special
};

}  // namespace sluice::text
