// The tensor directory of one file.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/checked.h"
#include "base/text.h"
#include "gguf/name_index.h"
#include "gguf/parse.h"
#include "quant/foreign.h"

namespace sluice::gguf {
namespace {

constexpr uint64_t kMinTensorBytes = 8 + 4 + 8 + 4 + 8;  // empty name, n_dims, one dimension, type, offset
constexpr uint32_t kMaxDims = 4;
constexpr std::string_view kConvertAgain = "convert the model again or use another file";

Result<TensorInfo> read_tensor(Cursor& cursor) {
  cursor.enter("a tensor name");
  const std::string_view name = TRY(cursor.string());
  if (name.size() > kMaxNameBytes) {
    return cursor.corrupt(fmt::format("a tensor name has {} bytes, more than {}", name.size(), kMaxNameBytes));
  }
  cursor.enter("the directory entry of tensor", name);
  TRY(cursor.charge(sizeof(TensorInfo) + name.size() + kMaxDims * sizeof(uint64_t)));
  TensorInfo tensor;
  tensor.name = name;
  const uint32_t n_dims = TRY(cursor.number<uint32_t>());
  if (n_dims < 1 || n_dims > kMaxDims) {
    return cursor.corrupt(
        fmt::format("tensor '{}' has {} dimensions, and 1 to {} are possible", printable(name), n_dims, kMaxDims),
        kConvertAgain);
  }
  tensor.dims.reserve(n_dims);
  for (uint32_t i = 0; i < n_dims; ++i) tensor.dims.push_back(TRY(cursor.number<uint64_t>()));
  tensor.type_id = TRY(cursor.number<uint32_t>());
  tensor.type = find_type(tensor.type_id);
  tensor.file_offset = TRY(cursor.number<uint64_t>());  // from the start of the data, for now
  if (auto sizes = fill_sizes(tensor); !sizes) return cursor.corrupt(sizes.error().message, kConvertAgain);
  return tensor;
}

// Makes the offset absolute and checks it.
Result<void> place(const Cursor& cursor, TensorInfo& tensor, uint64_t data_start, uint32_t alignment,
                   bool metadata_only) {
  if (tensor.file_offset % alignment != 0) {
    return cursor.corrupt(fmt::format("tensor '{}' starts at offset {}, not a multiple of the alignment {}",
                                      printable(tensor.name), tensor.file_offset, alignment),
                          kConvertAgain);
  }
  const auto start = checked_add(data_start, tensor.file_offset);
  const auto end = start ? checked_add(*start, tensor.n_bytes) : std::nullopt;
  if (!end) {
    return cursor.corrupt(
        fmt::format("tensor '{}' has an offset of {}, past any file", printable(tensor.name), tensor.file_offset));
  }
  if (!metadata_only && *end > cursor.file_bytes()) {
    return cursor.corrupt(
        fmt::format("tensor '{}' ends at byte {} of a file of {}", printable(tensor.name), *end, cursor.file_bytes()));
  }
  tensor.file_offset = *start;
  return {};
}

Result<void> refuse_overlaps(const Cursor& cursor, std::span<const TensorInfo> tensors) {
  std::vector<size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return tensors[a].file_offset < tensors[b].file_offset; });
  for (size_t i = 1; i < order.size(); ++i) {
    const TensorInfo &first = tensors[order[i - 1]], &second = tensors[order[i]];
    if (second.file_offset - first.file_offset < first.n_bytes || second.file_offset == first.file_offset) {
      return cursor.corrupt(
          fmt::format("the data of tensors '{}' and '{}' overlap", printable(first.name), printable(second.name)),
          kConvertAgain);
    }
  }
  return {};
}

}  // namespace

Result<void> fill_sizes(TensorInfo& tensor) {
  uint64_t n_elements = 1;
  for (const uint64_t dim : tensor.dims) {
    const auto product = checked_mul(n_elements, dim);
    if (dim == 0 || !product || *product > uint64_t{INT64_MAX}) {
      return Error{Code::corrupt_file, fmt::format("tensor '{}' has impossible dimensions ({})", printable(tensor.name),
                                                   fmt::join(tensor.dims, " x "))};
    }
    n_elements = *product;
  }
  uint64_t block = 1, block_bytes = 0;
  if (tensor.type != nullptr) {
    block = tensor.type->block, block_bytes = tensor.type->block_bytes;
  } else if (const quant::ForeignType* foreign = quant::find_foreign_type(tensor.type_id)) {
    block = foreign->block, block_bytes = foreign->block_bytes;
  }
  if (tensor.dims[0] % block != 0) {
    return Error{Code::corrupt_file,
                 fmt::format("tensor '{}' has rows of {} weights, not a multiple of the {} of a {} block",
                             printable(tensor.name), tensor.dims[0], block, foreign_type_name(tensor.type_id))};
  }
  const auto n_bytes = checked_mul(n_elements / block, block_bytes);
  if (!n_bytes) {
    return Error{Code::corrupt_file, fmt::format("tensor '{}' has impossible dimensions ({})", printable(tensor.name),
                                                 fmt::join(tensor.dims, " x "))};
  }
  tensor.n_elements = n_elements;
  tensor.n_bytes = *n_bytes;
  return {};
}

Result<Directory> read_directory(Cursor& cursor, uint64_t n_tensors, uint32_t alignment, bool metadata_only) {
  if (n_tensors > cursor.remaining() / kMinTensorBytes) {
    return cursor.corrupt(
        fmt::format("the header tells of {} tensors, and {} bytes follow the metadata", n_tensors, cursor.remaining()));
  }
  Directory out;
  for (uint64_t i = 0; i < n_tensors; ++i) out.tensors.push_back(TRY(read_tensor(cursor)));
  // Cannot wrap: the position is inside the file.
  out.data_start = *checked_align_up(cursor.position(), alignment);
  const NameIndex<TensorInfo, &TensorInfo::name> index(out.tensors);
  if (const TensorInfo* twice = index.first_duplicate(out.tensors)) {
    return cursor.corrupt(fmt::format("tensor '{}' stands twice in the directory", printable(twice->name)),
                          kConvertAgain);
  }
  for (TensorInfo& tensor : out.tensors) {
    TRY(place(cursor, tensor, out.data_start, alignment, metadata_only));
  }
  TRY(refuse_overlaps(cursor, out.tensors));
  return out;
}

}  // namespace sluice::gguf
