// Byte-pair merging of one word over integer symbols.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/result.h"
#include "text/merge_pairs.h"
#include "text/vocab.h"

namespace sluice::text {

// Symbols below n_vocab are token ids. Others stand for texts that only the merges name: they may be merged further,
// and where one is left at the end, its bytes are emitted.
using Symbol = uint32_t;

class Merger {
 public:
  // Buffers of one caller, kept between words.
  struct Scratch {
    std::vector<Symbol> symbols;
    MergeList list;
  };

  // `corrupt_file` for a merge that is not two texts with a space between.
  static Result<Merger> create(const Vocab& vocab);

  Symbol byte_symbol(uint8_t byte) const { return byte_symbols_[byte]; }
  bool is_token(Symbol symbol) const { return symbol < n_vocab_; }
  const std::string& extra_text(Symbol symbol) const { return extra_[symbol - n_vocab_]; }

  // Merges `scratch.symbols` in place: always the pair of the lowest rank, the leftmost of equals.
  // n log n in the worst case: a word may be a megabyte long.
  void merge(Scratch& scratch) const;

 private:
  struct Rule {
    uint64_t pair = kNoPair;  // left << 32 | right
    uint32_t rank = 0;
    Symbol result = 0;
  };
  static constexpr uint64_t kNoPair = ~uint64_t{0};

  const Rule* find(Symbol left, Symbol right) const;
  uint32_t rank(Symbol left, Symbol right) const {
    const Rule* rule = find(left, right);
    return rule ? rule->rank : kNoRank;
  }
  void add(const Rule& rule);
  void merge_short(Scratch& scratch) const;
  void merge_long(Scratch& scratch) const;

  uint32_t n_vocab_ = 0;
  std::array<Symbol, 256> byte_symbols_{};
  std::vector<std::string> extra_;  // texts of the symbols from n_vocab on
  std::vector<Rule> rules_;         // open addressing, a power of two of places, at most half of them taken
};

}  // namespace sluice::text
