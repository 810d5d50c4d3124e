// Counts of what sequences hold: cache pages, shared between forks, and slots of recurrent state.
#pragma once
#include <cassert>
#include <cstdint>
#include <vector>

namespace sluice::engine {

// Pages with reference counts. take() is only called after n_free() said so.
class PagePool {
 public:
  explicit PagePool(uint32_t n_pages = 0) : users_(n_pages, 0) {
    for (uint32_t i = n_pages; i-- > 0;) free_.push_back(i);
  }
  size_t n_free() const { return free_.size(); }
  size_t n_pages() const { return users_.size(); }
  uint32_t take() {
    assert(!free_.empty());
    const uint32_t page = free_.back();
    free_.pop_back();
    users_[page] = 1;
    return page;
  }
  void share(uint32_t page) { ++users_[page]; }
  uint32_t n_users(uint32_t page) const { return users_[page]; }
  bool shared(uint32_t page) const { return users_[page] > 1; }
  void give_back(uint32_t page) {
    assert(users_[page] > 0);
    if (--users_[page] == 0) free_.push_back(page);
  }

 private:
  std::vector<uint32_t> users_;
  std::vector<uint32_t> free_;
};

}  // namespace sluice::engine
