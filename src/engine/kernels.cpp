#include "sluice/kernels.h"

#include <iterator>

#include "backend/blobs.h"

namespace sluice {
namespace {

using backend::BlobTarget;
using backend::kBlobTargets;

std::vector<std::string> types_of(std::string_view quant_set) {
  if (quant_set == "kv") return {"F32", "F16", "Q8_0"};
  std::vector<std::string> types;
  if (quant_set == "weights") {
#define SLUICE_TYPE(type, ...) types.emplace_back(#type);
#include "sluice/types.inc"
#undef SLUICE_TYPE
  }
  return types;
}

}  // namespace

std::vector<KernelInfo> kernel_list() {
  std::vector<KernelInfo> all;
#define SLUICE_KERNEL(id, Args, quant) all.push_back(KernelInfo{.name = #id, .types = types_of(#quant)});
#include "kernels/kernel_ids.inc"
#undef SLUICE_KERNEL
  for (size_t target = 0; target < std::size(kBlobTargets); ++target) {
    for (const backend::Blob& blob : backend::blobs(static_cast<BlobTarget>(target))) {
      all[static_cast<size_t>(blob.id)].codes.push_back(
          {std::string(kBlobTargets[target]), std::string(blob.name), blob.code});
    }
  }
  for (const std::string_view name : backend::published_names()) {
    KernelInfo& entry = all.emplace_back(KernelInfo{.name = std::string(name), .types = {"Q4_0"}, .published = true});
    for (const backend::PublishedBlob& blob : backend::published_blobs()) {
      if (blob.name == name)
        entry.codes.push_back({std::string(kBlobTargets[static_cast<size_t>(blob.target)]), entry.name, blob.code});
    }
  }
  return all;
}

}  // namespace sluice
