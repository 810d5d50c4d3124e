#include "backend/blobs.h"

#include <vector>

// Each blob lies between two symbols of the assembler file beside the tables.
#define SLUICE_BLOB(target, id, type, type2, variant, x, y, z, symbol, entry, name) \
  extern "C" const std::byte symbol[], symbol##_end[];
#include "kernels/blob_table.inc"
#undef SLUICE_BLOB
#define SLUICE_PUBLISHED_NAME(name)
#define SLUICE_PUBLISHED(target, name, symbol) extern "C" const std::byte symbol[], symbol##_end[];
#include "kernels/published_table.inc"
#undef SLUICE_PUBLISHED

namespace sluice::backend {
namespace {

struct Row {
  BlobTarget target;
  Blob blob;
};

std::vector<Blob> of_target(BlobTarget target) {
  const std::vector<Row> rows = {
#define SLUICE_BLOB(target, id, type, type2, variant, x, y, z, symbol, entry, name) \
  {BlobTarget::target,                                                              \
   {KernelId::id, Type::type, Type::type2, variant, {x, y, z}, std::span(symbol, symbol##_end), entry, name}},
#include "kernels/blob_table.inc"
#undef SLUICE_BLOB
  };
  std::vector<Blob> result;
  for (const Row& row : rows) {
    if (row.target == target) result.push_back(row.blob);
  }
  return result;
}

}  // namespace

std::span<const Blob> blobs(BlobTarget target) {
  static const std::vector<Blob> kBlobs[] = {of_target(BlobTarget::spirv), of_target(BlobTarget::cuda),
                                             of_target(BlobTarget::metal), of_target(BlobTarget::wgsl)};
  return kBlobs[static_cast<size_t>(target)];
}

std::span<const PublishedBlob> published_blobs() {
  static const std::vector<PublishedBlob> kBlobs = {
#define SLUICE_PUBLISHED(target, name, symbol) {BlobTarget::target, #name, std::span(symbol, symbol##_end)},
#include "kernels/published_table.inc"
#undef SLUICE_PUBLISHED
#undef SLUICE_PUBLISHED_NAME
  };
  return kBlobs;
}

std::span<const std::string_view> published_names() {
  static constexpr std::string_view kNames[] = {
#define SLUICE_PUBLISHED_NAME(name) #name,
#define SLUICE_PUBLISHED(target, name, symbol)
#include "kernels/published_table.inc"
#undef SLUICE_PUBLISHED
#undef SLUICE_PUBLISHED_NAME
  };
  return kNames;
}

}  // namespace sluice::backend
