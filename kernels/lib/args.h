// What a kernel contract needs in both languages: C++ (host, CPU kernels) and Slang.
// In Slang every field of a public struct must itself be public; in C++ PUB is empty.
#pragma once
#ifdef __SLANG__
#define PUB public
#define DEV_PTR(T) T*
#define KERNELS_BEGIN
#define KERNELS_END
#define ARGS_FIT(T)
#else
#include <cstdint>
#define PUB
#define DEV_PTR(T) ::sluice::kernels::DevPtr<T>
#define KERNELS_BEGIN namespace sluice::kernels {
#define KERNELS_END }
// Push constants are 128 bytes on every Vulkan device.
#define ARGS_FIT(T) static_assert(sizeof(T) <= 128, "arguments travel as push constants");

namespace sluice::kernels {

using uint = uint32_t;

// An address in a backend's memory. Only the CPU backend may turn it into a pointer (backend/cpu/worker.h).
template <class T>
struct DevPtr {
  uint64_t address = 0;
  explicit operator bool() const { return address != 0; }
};

}  // namespace sluice::kernels
#endif
