#pragma once
#include "support/kernel_case.h"

namespace sluice::test {

// An expert more than 4 GiB behind the first one, other weights lying where a 32-bit offset would wrap to: moe_gemv or
// moe_gemm gives its rows.
void expect_far_expert(KernelId id);

// Zeroed address space; only touched pages take memory.
class SparseMemory {
 public:
  explicit SparseMemory(size_t n_bytes);
  ~SparseMemory();
  SparseMemory(const SparseMemory&) = delete;
  SparseMemory& operator=(const SparseMemory&) = delete;
  std::byte* data() const { return data_; }  // nullptr where the system refuses

 private:
  std::byte* data_ = nullptr;
  size_t n_bytes_;
};

}  // namespace sluice::test
