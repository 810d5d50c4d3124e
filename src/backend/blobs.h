// The compiled GPU kernels of this build: one blob per specialisation of a kernel in kernels/*.slang.
//
// The K.h struct lies at offset 0 of the push constants, at most 128 bytes; the pointers in it are buffer device
// addresses.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "backend/kernel_id.h"
#include "sluice/type.h"

namespace sluice::backend {

enum class BlobTarget : uint8_t { spirv, cuda, metal, wgsl };
inline constexpr std::string_view kBlobTargets[] = {"spirv", "cuda", "metal", "wgsl"};

// For devices that can do more: the same results to the bit, but for cooperative matrices, which launches ask for by
// kMatrixVariant.
enum class BlobVariant : uint8_t {
  portable,    // any subgroup size, 16 KiB of shared memory
  subgroup32,  // subgroup shuffles; full subgroups of exactly 32 threads, in the order of the threads
  matrix16,    // matrices of 16 x 16 x 16, subgroups as above
  matrix8,     // matrices of 8 x 8 x 8, subgroups of 8
};

struct Blob {
  KernelId id{};
  Type type = Type::F32;
  Type type2 = Type::F32;         // of V in attention
  uint8_t variant = 0;            // a BlobVariant
  uint32_t group[3] = {1, 1, 1};  // threads
  std::span<const std::byte> code;
  std::string_view entry;  // "main" in SPIR-V
  std::string_view name;   // "gemv-Q4_0-subgroup32"
};

// Empty in a build without GPU kernels. Of a target that no backend runs: one blob of each kernel at most.
std::span<const Blob> blobs(BlobTarget target);

// What other programs embed: an entry with bindings of its own, which never change. No backend runs it.
struct PublishedBlob {
  BlobTarget target{};
  std::string_view name;
  std::span<const std::byte> code;
};
std::span<const PublishedBlob> published_blobs();
std::span<const std::string_view> published_names();  // also in a build without GPU kernels

}  // namespace sluice::backend
