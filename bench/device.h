// A backend and the memory that a benchmark takes of it: the base of the set-ups.
#pragma once
#include <memory>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "must.h"

namespace sluice::bench {

class Device {
 protected:
  explicit Device(std::unique_ptr<backend::Backend> backend) : backend_(std::move(backend)) {}

  uint64_t allocate(uint64_t n_bytes) {
    buffers_.push_back(must(backend_->allocate(n_bytes, backend::Use::activations)));
    return buffers_.back().address();
  }
  template <class T>
  uint64_t upload(const std::vector<T>& values) {
    const uint64_t address = allocate(values.size() * sizeof(T));
    must(backend_->upload(address, std::as_bytes(std::span(values))));
    return address;
  }
  std::vector<float> normals(uint64_t n) {
    std::normal_distribution<float> normal;
    std::vector<float> values(n);
    for (float& v : values) v = normal(random_);
    return values;
  }

  std::unique_ptr<backend::Backend> backend_;
  std::mt19937 random_{1};

 private:
  std::vector<backend::Buffer> buffers_;
};

}  // namespace sluice::bench
