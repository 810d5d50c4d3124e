// Merging of neighbours in a list of symbols, the best pair first: the loop that all merging tokenizers share.
#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

namespace sluice::text {

constexpr uint32_t kNoRank = ~uint32_t{0};
constexpr uint32_t kNoSymbol = ~uint32_t{0};

// Buffers of one caller, kept between words.
struct MergeList {
  std::vector<uint32_t> ranks, prev, next;  // by symbol; the symbols that are left: 0, next[0], ... until kNoSymbol
  std::vector<uint64_t> heap;
};

// Always the pair of the lowest rank, the leftmost of equals. `rank(i, j)` tells that of symbol i and its right
// neighbour j, kNoRank where they do not merge; `join(i, j)` is told that j has gone into i.
// n log n in the worst case: a word may be a megabyte long.
template <class Rank, class Join>
void merge_pairs(uint32_t n, MergeList& list, Rank rank, Join join) {
  std::vector<uint32_t>&ranks = list.ranks, &prev = list.prev, &next = list.next;
  std::vector<uint64_t>& heap = list.heap;  // rank << 32 | symbol, the lowest on top; entries may be out of date
  ranks.assign(n, kNoRank);
  prev.resize(n);
  next.resize(n);
  heap.clear();
  for (uint32_t i = 0; i < n; ++i) {
    prev[i] = i == 0 ? kNoSymbol : i - 1;
    next[i] = i + 1 == n ? kNoSymbol : i + 1;
  }
  for (uint32_t i = 0; i < n; ++i) {
    if (i + 1 < n) ranks[i] = rank(i, i + 1);
    if (ranks[i] != kNoRank) heap.push_back(uint64_t{ranks[i]} << 32 | i);
  }
  std::make_heap(heap.begin(), heap.end(), std::greater<>());
  const auto renew = [&](uint32_t i) {
    ranks[i] = next[i] == kNoSymbol ? kNoRank : rank(i, next[i]);
    if (ranks[i] == kNoRank) return;
    heap.push_back(uint64_t{ranks[i]} << 32 | i);
    std::push_heap(heap.begin(), heap.end(), std::greater<>());
  };
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    const uint64_t top = heap.back();
    heap.pop_back();
    const auto i = static_cast<uint32_t>(top);
    if (ranks[i] != top >> 32) continue;  // merged away or paired otherwise since
    const uint32_t gone = next[i];
    join(i, gone);
    next[i] = next[gone];
    if (next[i] != kNoSymbol) prev[next[i]] = i;
    ranks[gone] = kNoRank;
    renew(i);
    if (prev[i] != kNoSymbol) renew(prev[i]);
  }
}

}  // namespace sluice::text
