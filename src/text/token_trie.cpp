#include "text/token_trie.h"

namespace sluice::text {

uint32_t TokenTrie::step(uint32_t node, uint8_t byte) const {
  if (node == 0) return first_[byte];
  for (const auto& [label, child] : nodes_[node].next) {
    if (label == byte) return child;
  }
  return 0;
}

void TokenTrie::add(std::string_view token_text, Token id) {
  uint32_t node = 0;
  for (char c : token_text) {
    const auto byte = static_cast<uint8_t>(c);
    uint32_t child = step(node, byte);
    if (child == 0) {
      child = static_cast<uint32_t>(nodes_.size());
      nodes_.emplace_back();
      if (node == 0) {
        first_[byte] = child;
      } else {
        nodes_[node].next.emplace_back(byte, child);
      }
    }
    node = child;
  }
  if (node != 0 && nodes_[node].id < 0) nodes_[node].id = id;
}

TokenTrie::Match TokenTrie::find(std::string_view text, size_t from) const {
  for (size_t at = from; at < text.size(); ++at) {
    uint32_t node = first_[static_cast<uint8_t>(text[at])];
    Match best{at, 0, -1};
    for (size_t end = at + 1; node != 0; ++end) {
      if (nodes_[node].id >= 0) best = {at, end - at, nodes_[node].id};
      if (end == text.size()) break;
      node = step(node, static_cast<uint8_t>(text[end]));
    }
    if (best.n_bytes > 0) return best;
  }
  return {text.size(), 0, -1};
}

}  // namespace sluice::text
