#include "text/spaced_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "text/utf8.h"

namespace sluice::text {
namespace {

constexpr std::string_view kSpace = "\u2581";

}  // namespace

SpacedTokenizer::SpacedTokenizer(Vocab vocab, bool adds_bos, bool leading_space)
    : VocabTokenizer(std::move(vocab), adds_bos, false), leading_space_(leading_space) {
  for (size_t byte = 0; byte < 256; ++byte) {
    Token id = find(fmt::format("<0x{:02X}>", byte));
    if (id < 0 && byte < 0x80) id = find(std::string(1, static_cast<char>(byte)));
    byte_tokens_[byte] = id < 0 ? this->vocab().unknown : id;
  }
  const auto n_missing = std::count(byte_tokens_.begin(), byte_tokens_.end(), -1);
  if (n_missing != 0)
    log::warn("the vocabulary has no tokens for {} of the 256 bytes: such text is dropped", n_missing);
}

void SpacedTokenizer::append_bytes(std::string_view bytes, std::vector<Token>& out) const {
  for (char byte : bytes) {
    const Token id = byte_tokens_[static_cast<uint8_t>(byte)];
    if (id >= 0) out.push_back(id);
  }
}

void SpacedTokenizer::encode_plain(std::string_view text, std::vector<Token>& out) const {
  std::string spaced(leading_space_ ? kSpace : std::string_view());
  spaced.reserve(text.size() + text.size() / 2);
  for (char c : text) {
    if (c == ' ') {
      spaced += kSpace;
    } else {
      spaced += c;
    }
  }
  for (std::string_view rest = spaced; !rest.empty();) {
    const size_t n_valid = utf8_valid_prefix(rest);
    if (n_valid > 0) encode_characters(rest.substr(0, n_valid), out);
    rest.remove_prefix(n_valid);
    if (rest.empty()) break;
    append_bytes(rest.substr(0, 1), out);
    rest.remove_prefix(1);
  }
}

std::string SpacedTokenizer::plain_piece(Token id) const {
  std::string text = token_text(id);
  for (size_t at = 0; (at = text.find(kSpace, at)) != std::string::npos; ++at) text.replace(at, kSpace.size(), " ");
  return text;
}

}  // namespace sluice::text
