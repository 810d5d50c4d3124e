// KernelId: one per row of kernels/kernels.list.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace sluice::backend {

enum class KernelId : uint8_t {
#define SLUICE_KERNEL(name, Args, quant) name,
#include "kernels/kernel_ids.inc"
#undef SLUICE_KERNEL
};

inline constexpr std::string_view kKernelNames[] = {
#define SLUICE_KERNEL(name, Args, quant) #name,
#include "kernels/kernel_ids.inc"
#undef SLUICE_KERNEL
};
inline constexpr size_t kKernels = sizeof(kKernelNames) / sizeof(kKernelNames[0]);

constexpr std::string_view kernel_name(KernelId id) { return kKernelNames[static_cast<size_t>(id)]; }

}  // namespace sluice::backend
