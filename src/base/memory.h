// Large host memory straight from the system, in huge pages where it allows them.
#pragma once
#include <cstddef>
#include <utility>

#include "sluice/result.h"

namespace sluice {

// Zeroed, at least 64-byte aligned, given back at once when the object ends. Pages take up memory when they are first
// touched.
class HostMemory {
 public:
  static Result<HostMemory> allocate(size_t n_bytes);

  HostMemory() = default;
  HostMemory(HostMemory&& other) noexcept
      : map_(std::exchange(other.map_, nullptr)),
        map_bytes_(std::exchange(other.map_bytes_, 0)),
        data_(std::exchange(other.data_, nullptr)) {}
  HostMemory& operator=(HostMemory&& other) noexcept {
    std::swap(map_, other.map_);
    std::swap(map_bytes_, other.map_bytes_);
    std::swap(data_, other.data_);
    return *this;
  }
  ~HostMemory();

  std::byte* data() const { return data_; }

 private:
  void* map_ = nullptr;
  size_t map_bytes_ = 0;
  std::byte* data_ = nullptr;
};

}  // namespace sluice
