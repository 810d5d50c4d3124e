// Look-up by name over a list that no longer changes. Sorted, not hashed: a hostile file cannot make it slow.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::gguf {

template <class T, std::string T::*kName>
class NameIndex {
 public:
  NameIndex() = default;
  explicit NameIndex(std::span<const T> items) : order_(items.size()) {
    std::iota(order_.begin(), order_.end(), size_t{0});
    std::sort(order_.begin(), order_.end(), [&](size_t a, size_t b) { return items[a].*kName < items[b].*kName; });
  }

  // `items` is the list that the index was built from.
  const T* find(std::span<const T> items, std::string_view name) const {
    const auto at = std::lower_bound(order_.begin(), order_.end(), name,
                                     [&](size_t i, std::string_view wanted) { return items[i].*kName < wanted; });
    return at != order_.end() && items[*at].*kName == name ? &items[*at] : nullptr;
  }

  // An item whose name stands twice, or nullptr.
  const T* first_duplicate(std::span<const T> items) const {
    const auto at = std::adjacent_find(order_.begin(), order_.end(),
                                       [&](size_t a, size_t b) { return items[a].*kName == items[b].*kName; });
    return at != order_.end() ? &items[*at] : nullptr;
  }

 private:
  std::vector<size_t> order_;
};

}  // namespace sluice::gguf
