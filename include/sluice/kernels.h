// The kernels of this build, and their GPU code: for programs that embed it, and for reading.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace sluice {

// One compiled kernel: SPIR-V, or the text of another target.
struct KernelCode {
  std::string target;  // spirv, cuda, metal, wgsl
  std::string name;    // "gemv-Q4_0-subgroup32": kernel, types, variant
  std::span<const std::byte> code;
};

struct KernelInfo {
  std::string name;
  std::vector<std::string> types;  // of weights, or of the cache; empty: f32 alone
  bool published = false;          // its bindings never change (docs/published-entry.md); the engine does not run it
  std::vector<KernelCode> codes;   // empty in a build without GPU kernels, and for kernels that only a CPU runs
};

std::vector<KernelInfo> kernel_list();

}  // namespace sluice
