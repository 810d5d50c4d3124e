#include "base/memory.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cstdint>

namespace sluice {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

}  // namespace

Result<HostMemory> HostMemory::allocate(size_t n_bytes) {
  if (n_bytes > SIZE_MAX / 2)
    return Error(Code::out_of_memory, fmt::format("cannot allocate {} bytes; ask for less", n_bytes));
  const bool huge = n_bytes >= kHugePage;
  HostMemory memory;
  memory.map_bytes_ = n_bytes + (huge ? kHugePage : 0);
  memory.map_ = mmap(nullptr, memory.map_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory.map_ == MAP_FAILED) {
    memory.map_ = nullptr;
    return Error(Code::out_of_memory,
                 fmt::format("the system has no {:.1f} MB left; close other programs, or use a shorter "
                             "context or a smaller model",
                             static_cast<double>(n_bytes) / 1e6));
  }
  auto address = reinterpret_cast<uintptr_t>(memory.map_);
  if (huge) {
    address = (address + kHugePage - 1) / kHugePage * kHugePage;
#ifdef MADV_HUGEPAGE
    madvise(reinterpret_cast<void*>(address), n_bytes, MADV_HUGEPAGE);
#endif
  }
  memory.data_ = reinterpret_cast<std::byte*>(address);
  return memory;
}

HostMemory::~HostMemory() {
  if (map_ != nullptr) munmap(map_, map_bytes_);
}

}  // namespace sluice
