#include "ops/graph.h"

#include <algorithm>

namespace sluice::ops {
namespace {

constexpr uint64_t kAlign = 64;

}  // namespace

uint64_t Arena::take(uint64_t n_bytes) {
  n_bytes = (std::max<uint64_t>(n_bytes, 1) + kAlign - 1) / kAlign * kAlign;
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    if (it->second < n_bytes) continue;
    const auto [offset, size] = *it;
    free_.erase(it);
    if (size > n_bytes) free_[offset + n_bytes] = size - n_bytes;
    return offset;
  }
  const uint64_t offset = end_;
  end_ += n_bytes;
  peak_ = std::max(peak_, end_);
  return offset;
}

void Arena::give_back(uint64_t offset, uint64_t n_bytes) {
  n_bytes = (std::max<uint64_t>(n_bytes, 1) + kAlign - 1) / kAlign * kAlign;
  auto [it, inserted] = free_.emplace(offset, n_bytes);
  const auto after = std::next(it);
  if (after != free_.end() && it->first + it->second == after->first) {
    it->second += after->second;
    free_.erase(after);
  }
  if (it != free_.begin()) {
    const auto before = std::prev(it);
    if (before->first + before->second == it->first) {
      before->second += it->second;
      free_.erase(it);
      it = before;
    }
  }
  if (it->first + it->second == end_) {
    end_ = it->first;
    free_.erase(it);
  }
}

std::shared_ptr<Block> Graph::allocate(uint64_t n_bytes) {
  auto block = std::make_shared<Block>();
  block->arena = arena_;
  block->n_bytes = n_bytes;
  block->offset = arena_->take(n_bytes);
  block->address = arena_address_ + block->offset;
  return block;
}

Tensor Graph::tensor(Rows rows, uint32_t n) {
  Tensor tensor;
  tensor.rows = rows;
  tensor.n = n;
  tensor.f32 = allocate(max_rows(rows) * n * sizeof(float));
  return tensor;
}

}  // namespace sluice::ops
