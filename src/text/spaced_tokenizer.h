// What vocabularies in SentencePiece's spelling share: a space is written as U+2581, and a character that is no token
// becomes the tokens of its bytes (<0x00> to <0xFF>).
#pragma once
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "text/vocab_tokenizer.h"

namespace sluice::text {

class SpacedTokenizer : public VocabTokenizer {
 protected:
  // `leading_space`: every stretch of ordinary text gets a space in front.
  SpacedTokenizer(Vocab vocab, bool adds_bos, bool leading_space);

  // Appends the tokens of well-formed UTF-8, spaces being U+2581 already.
  virtual void encode_characters(std::string_view text, std::vector<Token>& out) const = 0;
  // Appends one token for each byte; the unknown token, or nothing, for a byte that has none.
  void append_bytes(std::string_view bytes, std::vector<Token>& out) const;

 private:
  void encode_plain(std::string_view text, std::vector<Token>& out) const final;
  std::string plain_piece(Token id) const final;

  bool leading_space_;
  std::array<Token, 256> byte_tokens_{};  // -1: neither a byte token nor an unknown token
};

}  // namespace sluice::text
