// The parts of reading one file. reader.cpp puts them together.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gguf/cursor.h"
#include "sluice/gguf.h"
#include "sluice/result.h"

namespace sluice::gguf {

inline constexpr uint32_t kVersion = 3;
inline constexpr uint32_t kDefaultAlignment = 32;
inline constexpr uint32_t kMinAlignment = 8, kMaxAlignment = 1u << 20;
inline constexpr std::string_view kAlignmentKey = "general.alignment";
inline constexpr uint64_t kMaxNameBytes = 65535;  // of keys and tensor names

// Bytes of one element in a file; 0 for strings and arrays.
uint32_t kind_bytes(Kind kind);

// "is a saved web page", "is empty": what bytes that do not start with the magic seem to be.
std::string describe_foreign(std::span<const std::byte> start, uint64_t file_bytes);

struct Header {
  uint32_t version = 0;
  uint64_t n_tensors = 0;
  uint64_t n_metadata = 0;
};
Result<Header> read_header(Cursor& cursor, std::span<const std::byte> window);
// No key stands twice.
Result<std::vector<KeyValue>> read_metadata(Cursor& cursor, uint64_t n_metadata);
Result<uint32_t> read_alignment(const Cursor& cursor, std::span<const KeyValue> metadata);

// The directory, every tensor inside the file (unless `metadata_only`), none over another, no name twice.
struct Directory {
  std::vector<TensorInfo> tensors;
  uint64_t data_start = 0;
};
Result<Directory> read_directory(Cursor& cursor, uint64_t n_tensors, uint32_t alignment, bool metadata_only);

// n_elements and n_bytes of a tensor from its dims and its type. The text of the Error has no file name yet.
Result<void> fill_sizes(TensorInfo& tensor);

// Split sets: the keys split.no (from 0), split.count and split.tensors.count (over all files).
struct Split {
  uint32_t no = 0;
  uint32_t count = 1;
  uint64_t n_tensors = 0;
};
// {0, 1} for a whole file.
Result<Split> read_split(const std::string& path, std::span<const KeyValue> metadata);
// "DIR/NAME" of "DIR/NAME-00002-of-00003.gguf"; an Error where the name does not tell the part that the keys tell.
Result<std::string> split_stem(const std::string& path, const Split& split);
std::string split_path(const std::string& stem, uint32_t no, uint32_t count);
// That `shard`, read from `path` and expected as part `no`, belongs to the set of the first file.
Result<void> check_shard(const std::string& path, uint32_t no, const Split& first, const Split& shard,
                         std::span<const KeyValue> first_metadata, std::span<const KeyValue> shard_metadata);

}  // namespace sluice::gguf
