// What a CPU kernel gets besides its arguments: its share of the work, and scratch memory.
//
// All threads of the pool call the same kernel with the same arguments and claim chunks of its items until none are
// left. Who computes an item must not change its bits.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "backend/backend.h"
#include "kernels/all_contracts.h"

namespace sluice::backend::cpu {

struct Chunk {
  uint64_t begin = 0, end = 0;
};

class Worker {
 public:
  Worker(const KernelKey& key, uint32_t idx, uint32_t n, std::atomic<uint64_t>& next, std::span<std::byte> scratch)
      : key_(key), idx_(idx), n_(n), next_(next), scratch_(scratch) {}

  const KernelKey& key() const { return key_; }
  uint32_t idx() const { return idx_; }  // of this thread, < n()
  uint32_t n() const { return n_; }

  // Takes the next `chunk` of `n_items` items; false where all are taken. A kernel uses one such count per launch.
  bool claim(uint64_t n_items, uint64_t chunk, Chunk& out) {
    chunk = std::max<uint64_t>(chunk, 1);
    if (n_ == 1) chunk = n_items;
    const uint64_t begin = next_.fetch_add(chunk, std::memory_order_relaxed);
    if (begin >= n_items) return false;
    out = {begin, std::min(n_items, begin + chunk)};
    return true;
  }
  // A chunk that gives every thread about four turns.
  uint64_t quarter(uint64_t n_items) const { return std::max<uint64_t>(1, n_items / (uint64_t{n_} * 4)); }

  // 64-byte aligned, at least kScratchBytes, contents undefined, this thread's own.
  template <class T>
  T* scratch(size_t offset_bytes = 0) const {
    return reinterpret_cast<T*>(scratch_.data() + offset_bytes);
  }

 private:
  KernelKey key_;
  uint32_t idx_, n_;
  std::atomic<uint64_t>& next_;
  std::span<std::byte> scratch_;
};

inline constexpr size_t kScratchBytes = size_t{4} << 20;

// The pointer behind an address of the CPU backend.
template <class T>
T* ptr(kernels::DevPtr<T> p) {
  return reinterpret_cast<T*>(p.address);
}
template <class To, class From>
To* ptr_as(kernels::DevPtr<From> p) {
  return reinterpret_cast<To*>(p.address);
}

inline uint64_t n_rows(const kernels::StepState& step, const kernels::Rows& rows) {
  return uint64_t{rows.of == kernels::kRowsOfOut ? step.n_out : step.n_tokens} * rows.per;
}

using KernelFn = void (*)(const std::byte* args, Worker& worker);

// A kernel of an instruction-set tier. Tiers hold only what is worth it; the reference stands in for the rest.
struct TierKernel {
  KernelKey key;
  KernelFn fn;
};

template <class Args, void (*Fn)(const Args&, Worker&)>
void call(const std::byte* args, Worker& worker) {
  Fn(*reinterpret_cast<const Args*>(args), worker);
}

// One plain reference per kernel (backend/cpu/kernels/K.cpp): f32 arithmetic in row_major, and the exact sums that
// contracts lay down for panel16. A kernel of kernels.list without one is a link error.
namespace reference {
#define SLUICE_KERNEL(name, Args, quant) void name(const kernels::Args& args, Worker& worker);
#include "kernels/kernel_ids.inc"
#undef SLUICE_KERNEL
}  // namespace reference

}  // namespace sluice::backend::cpu
