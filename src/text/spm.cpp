#include "text/spm.h"

#include <algorithm>
#include <bit>

#include "base/log.h"
#include "text/merge_pairs.h"
#include "text/spaced_tokenizer.h"
#include "text/utf8.h"

namespace sluice::text {
namespace {

// Lower is better, as merge_pairs wants it: the bits of a float in reverse order of its value. Any float has a place,
// NaN included.
uint32_t rank_of_score(float score) {
  const auto bits = std::bit_cast<uint32_t>(score + 0.0f);  // -0 and 0 are equal
  const uint32_t falling = bits >> 31 != 0 ? bits : ~bits & 0x7FFFFFFFu;
  return std::min(falling, kNoRank - 1);
}

class SpmTokenizer final : public SpacedTokenizer {
 public:
  SpmTokenizer(Vocab vocab, bool leading_space)
      : SpacedTokenizer(std::move(vocab), true, leading_space), ranks_(n_vocab(), kNoRank) {
    const std::vector<float>& scores = this->vocab().scores;
    for (Token id = 0; in_range(id); ++id) {
      // The texts of control and byte tokens are text like any other here.
      if (type(id) != TokenType::normal && type(id) != TokenType::user_defined) continue;
      ranks_[static_cast<size_t>(id)] = scores.empty() ? 0 : rank_of_score(scores[static_cast<size_t>(id)]);
      longest_ = std::max(longest_, token_text(id).size());
    }
  }

 private:
  void encode_characters(std::string_view text, std::vector<Token>& out) const override;

  // -1 for a text that is no token, or one that text never becomes.
  Token token_of(std::string_view text) const {
    const Token id = text.size() <= longest_ ? find(text) : -1;
    return id >= 0 && ranks_[static_cast<size_t>(id)] != kNoRank ? id : -1;
  }

  std::vector<uint32_t> ranks_;  // (n_vocab)
  size_t longest_ = 0;           // bytes of the longest token
};

void SpmTokenizer::encode_characters(std::string_view text, std::vector<Token>& out) const {
  std::vector<size_t> begins;  // of the characters
  for (size_t at = 0; at < text.size(); at += utf8_step(text.substr(at)).n_bytes) begins.push_back(at);
  const auto n = static_cast<uint32_t>(begins.size());
  begins.push_back(text.size());
  MergeList list;
  const auto text_from = [&](uint32_t first, uint32_t last) {
    const uint32_t end = list.next[last] == kNoSymbol ? n : list.next[last];
    return text.substr(begins[first], begins[end] - begins[first]);
  };
  const auto rank = [&](uint32_t i, uint32_t j) {
    const Token id = token_of(text_from(i, j));
    return id < 0 ? kNoRank : ranks_[static_cast<size_t>(id)];
  };
  merge_pairs(n, list, rank, [](uint32_t, uint32_t) {});
  for (uint32_t i = 0; i != kNoSymbol; i = list.next[i]) {
    const std::string_view piece = text_from(i, i);
    const Token id = token_of(piece);
    if (id >= 0) {
      out.push_back(id);
    } else {
      append_bytes(piece, out);
    }
  }
}

}  // namespace

Result<std::shared_ptr<const Tokenizer>> make_spm(Vocab vocab) {
  TRY(vocab.check());
  if (vocab.scores.empty())
    log::warn("the file has no scores (tokenizer.ggml.scores): text becomes other tokens than the model knows");
  const bool leading_space = vocab.add_space_prefix.value_or(true);
  std::shared_ptr<const Tokenizer> tokenizer = std::make_shared<SpmTokenizer>(std::move(vocab), leading_space);
  return tokenizer;
}

}  // namespace sluice::text
