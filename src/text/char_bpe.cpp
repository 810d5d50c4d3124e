#include "text/char_bpe.h"

#include <algorithm>

#include "base/log.h"
#include "text/merger.h"
#include "text/spaced_tokenizer.h"
#include "text/utf8.h"

namespace sluice::text {
namespace {

class CharBpeTokenizer final : public SpacedTokenizer {
 public:
  CharBpeTokenizer(Vocab vocab, Merger merger)
      : SpacedTokenizer(std::move(vocab), true, false), merger_(std::move(merger)) {}

 private:
  void encode_characters(std::string_view text, std::vector<Token>& out) const override;
  void encode_word(std::string_view word, Merger::Scratch& scratch, std::vector<Token>& out) const;
  // One token for each character, or those of its bytes.
  void append_characters(std::string_view text, std::vector<Token>& out) const;

  Merger merger_;
};

void CharBpeTokenizer::encode_characters(std::string_view text, std::vector<Token>& out) const {
  Merger::Scratch scratch;
  while (!text.empty()) {
    const bool is_lines = text[0] == '\n';
    const size_t end = std::min(is_lines ? text.find_first_not_of('\n') : text.find('\n'), text.size());
    const Token whole = is_lines ? find(text.substr(0, end)) : -1;
    if (whole >= 0) {
      out.push_back(whole);
    } else {
      encode_word(text.substr(0, end), scratch, out);
    }
    text.remove_prefix(end);
  }
}

void CharBpeTokenizer::encode_word(std::string_view word, Merger::Scratch& scratch, std::vector<Token>& out) const {
  std::vector<Token> characters;
  append_characters(word, characters);
  scratch.symbols.assign(characters.begin(), characters.end());
  merger_.merge(scratch);
  for (Symbol symbol : scratch.symbols) {
    if (merger_.is_token(symbol)) {
      out.push_back(static_cast<Token>(symbol));
    } else {
      append_characters(merger_.extra_text(symbol), out);
    }
  }
}

void CharBpeTokenizer::append_characters(std::string_view text, std::vector<Token>& out) const {
  while (!text.empty()) {
    const std::string_view character = text.substr(0, utf8_step(text).n_bytes);
    const Token id = find(character);
    if (id >= 0) {
      out.push_back(id);
    } else {
      append_bytes(character, out);
    }
    text.remove_prefix(character.size());
  }
}

}  // namespace

Result<std::shared_ptr<const Tokenizer>> make_char_bpe(Vocab vocab) {
  TRY(vocab.check());
  if (vocab.merges.empty()) log::warn("the file has no merges (tokenizer.ggml.merges): text becomes single characters");
  Merger merger = TRY(Merger::create(vocab));
  vocab.add_bos = true;  // some published files say false, and such a model writes nonsense without it
  std::shared_ptr<const Tokenizer> tokenizer = std::make_shared<CharBpeTokenizer>(std::move(vocab), std::move(merger));
  return tokenizer;
}

}  // namespace sluice::text
