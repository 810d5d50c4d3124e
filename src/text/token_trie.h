// Finds the texts of special tokens in a text: at each place the longest, places from left to right.
#pragma once
#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "sluice/tokenizer.h"

namespace sluice::text {

class TokenTrie {
 public:
  void add(std::string_view token_text, Token id);  // the first id of equal texts stays; an empty text is left out

  struct Match {
    size_t at;
    size_t n_bytes;
    Token id;
  };
  // The first match at or after `from`; n_bytes 0 where there is none. Steps per byte: at most the longest token's
  // length.
  Match find(std::string_view text, size_t from) const;

 private:
  struct Node {
    std::vector<std::pair<uint8_t, uint32_t>> next;  // byte -> index of a node; few each
    Token id = -1;
  };
  uint32_t step(uint32_t node, uint8_t byte) const;  // 0, the root, where there is no such node

  std::vector<Node> nodes_{1};
  std::array<uint32_t, 256> first_{};  // the root's children by byte: most bytes of a text begin no special token
};

}  // namespace sluice::text
