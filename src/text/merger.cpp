#include "text/merger.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <unordered_map>

#include "base/text.h"
#include "text/byte_alphabet.h"

namespace sluice::text {
namespace {

// Below this many symbols a scan for the lowest rank beats a heap.
constexpr size_t kShortWord = 48;

uint64_t mix(uint64_t x) {
  x = (x ^ x >> 32) * 0x9E3779B97F4A7C15u;
  return x ^ x >> 29;
}

}  // namespace

Result<Merger> Merger::create(const Vocab& vocab) {
  const std::vector<std::string>& merges = vocab.merges;
  const auto n_vocab = static_cast<uint32_t>(vocab.tokens.size());
  std::unordered_map<std::string_view, Token> by_text;
  by_text.reserve(n_vocab);
  for (size_t i = 0; i < n_vocab; ++i) by_text.emplace(vocab.tokens[i], static_cast<Token>(i));
  Merger merger;
  merger.n_vocab_ = n_vocab;
  merger.rules_.resize(std::bit_ceil(std::max<size_t>(merges.size() * 2, 16)));
  std::unordered_map<std::string, Symbol> extra;
  const auto symbol_of = [&](std::string_view text) -> Symbol {
    if (const auto token = by_text.find(text); token != by_text.end()) return static_cast<Symbol>(token->second);
    const auto [place, is_new] =
        extra.try_emplace(std::string(text), static_cast<Symbol>(n_vocab + merger.extra_.size()));
    if (is_new) merger.extra_.emplace_back(text);
    return place->second;
  };
  for (size_t byte = 0; byte < 256; ++byte) {
    merger.byte_symbols_[byte] = symbol_of(byte_to_alphabet(static_cast<uint8_t>(byte)));
  }
  std::string joined;
  for (size_t i = 0; i < merges.size(); ++i) {
    const std::string_view text = merges[i];
    const size_t space = text.find(' ', 1);
    if (space == std::string_view::npos || space + 1 == text.size()) {
      return Error{
          Code::corrupt_file,
          fmt::format("merge {} of the vocabulary is '{}', not two texts with a space between; download the file "
                      "again, or convert the model anew",
                      i, printable(text))};
    }
    joined.assign(text.substr(0, space)).append(text.substr(space + 1));
    const Symbol left = symbol_of(text.substr(0, space)), right = symbol_of(text.substr(space + 1));
    merger.add({uint64_t{left} << 32 | right, static_cast<uint32_t>(i), symbol_of(joined)});
  }
  return merger;
}

void Merger::add(const Rule& rule) {
  const size_t mask = rules_.size() - 1;
  size_t at = mix(rule.pair) & mask;
  for (; rules_[at].pair != kNoPair; at = (at + 1) & mask) {
    if (rules_[at].pair == rule.pair) return;  // a repeated merge keeps its first rank
  }
  rules_[at] = rule;
}

const Merger::Rule* Merger::find(Symbol left, Symbol right) const {
  const uint64_t pair = uint64_t{left} << 32 | right;
  const size_t mask = rules_.size() - 1;
  for (size_t at = mix(pair) & mask; rules_[at].pair != kNoPair; at = (at + 1) & mask) {
    if (rules_[at].pair == pair) return &rules_[at];
  }
  return nullptr;
}

void Merger::merge(Scratch& scratch) const {
  if (scratch.symbols.size() < 2) return;
  if (scratch.symbols.size() <= kShortWord) {
    merge_short(scratch);
  } else {
    merge_long(scratch);
  }
}

void Merger::merge_short(Scratch& scratch) const {
  std::vector<Symbol>& symbols = scratch.symbols;
  std::vector<uint32_t>& ranks = scratch.list.ranks;  // of the pair (i, i + 1)
  ranks.resize(symbols.size() - 1);
  for (size_t i = 0; i < ranks.size(); ++i) ranks[i] = rank(symbols[i], symbols[i + 1]);
  while (!ranks.empty()) {
    const auto lowest = std::min_element(ranks.begin(), ranks.end());
    if (*lowest == kNoRank) break;
    const size_t i = static_cast<size_t>(lowest - ranks.begin());
    symbols[i] = find(symbols[i], symbols[i + 1])->result;
    symbols.erase(symbols.begin() + static_cast<ptrdiff_t>(i) + 1);
    ranks.erase(lowest);
    if (i > 0) ranks[i - 1] = rank(symbols[i - 1], symbols[i]);
    if (i < ranks.size()) ranks[i] = rank(symbols[i], symbols[i + 1]);
  }
}

void Merger::merge_long(Scratch& scratch) const {
  std::vector<Symbol>& symbols = scratch.symbols;
  merge_pairs(
      static_cast<uint32_t>(symbols.size()), scratch.list,
      [&](uint32_t i, uint32_t j) { return rank(symbols[i], symbols[j]); },
      [&](uint32_t i, uint32_t j) { symbols[i] = find(symbols[i], symbols[j])->result; });
  size_t n_left = 0;
  for (uint32_t i = 0; i != kNoSymbol; i = scratch.list.next[i]) symbols[n_left++] = symbols[i];
  symbols.resize(n_left);
}

}  // namespace sluice::text
