// A stable merge sort whose comparison may fail.
#pragma once
#include <algorithm>
#include <vector>

#include "sluice/result.h"

namespace sluice::text::jinja {

// `before(a, b)`: Result<bool>, whether a stands before b. Whatever it answers, no element is lost.
template <class T, class Before>
Result<void> merge_sort(std::vector<T>& items, Before&& before) {
  std::vector<T> merged;
  for (size_t width = 1; width < items.size(); width *= 2) {
    merged.clear();
    for (size_t first = 0; first < items.size(); first += 2 * width) {
      const size_t middle = std::min(first + width, items.size()), end = std::min(middle + width, items.size());
      size_t a = first, b = middle;
      while (a < middle && b < end) {
        const bool right = TRY(before(items[b], items[a]));
        merged.push_back(items[right ? b++ : a++]);
      }
      merged.insert(merged.end(), items.begin() + static_cast<std::ptrdiff_t>(a),
                    items.begin() + static_cast<std::ptrdiff_t>(middle));
      merged.insert(merged.end(), items.begin() + static_cast<std::ptrdiff_t>(b),
                    items.begin() + static_cast<std::ptrdiff_t>(end));
    }
    items.swap(merged);
  }
  return {};
}

}  // namespace sluice::text::jinja
