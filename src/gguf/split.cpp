// Split sets. File names count from 1, split.no from 0, and split.tensors.count is over all files.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "gguf/parse.h"

namespace sluice::gguf {
namespace {

const Value* find_key(std::span<const KeyValue> metadata, std::string_view key) {
  const auto at = std::find_if(metadata.begin(), metadata.end(), [&](const KeyValue& kv) { return kv.key == key; });
  return at != metadata.end() ? &at->value : nullptr;
}

Result<uint64_t> split_key(const std::string& path, std::span<const KeyValue> metadata, std::string_view key) {
  const Value* value = find_key(metadata, key);
  const auto number = value != nullptr ? value->as_uint() : std::nullopt;
  if (!number) {
    return Error{
        Code::corrupt_file,
        fmt::format("'{}': the file is part of a split set, but its key '{}' is missing or no count; split the "
                    "model again",
                    printable_path(path), key)};
  }
  return *number;
}

std::string split_suffix(uint32_t no, uint32_t count) { return fmt::format("-{:05}-of-{:05}.gguf", no + 1, count); }

std::string file_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

}  // namespace

Result<Split> read_split(const std::string& path, std::span<const KeyValue> metadata) {
  if (find_key(metadata, "split.count") == nullptr) return Split{};
  const uint64_t count = TRY(split_key(path, metadata, "split.count"));
  if (count <= 1) return Split{};  // some splitters write the keys of a set of one file, or of none
  const uint64_t no = TRY(split_key(path, metadata, "split.no"));
  const uint64_t n_tensors = TRY(split_key(path, metadata, "split.tensors.count"));
  if (count > 99999 || no >= count) {
    return Error{Code::corrupt_file,
                 fmt::format("'{}': the file says that it is part {} (counted from 0) of {}; split the model again",
                             printable_path(path), no, count)};
  }
  return Split{static_cast<uint32_t>(no), static_cast<uint32_t>(count), n_tensors};
}

Result<std::string> split_stem(const std::string& path, const Split& split) {
  const std::string suffix = split_suffix(split.no, split.count);
  if (path.ends_with(suffix)) return path.substr(0, path.size() - suffix.size());
  return Error{Code::invalid_argument,
               fmt::format("'{}' is part {} of {} of a split model, but its name does not end in '{}'; give all parts "
                           "their old names",
                           printable_path(path), split.no + 1, split.count, suffix)};
}

std::string split_path(const std::string& stem, uint32_t no, uint32_t count) { return stem + split_suffix(no, count); }

Result<void> check_shard(const std::string& path, uint32_t no, const Split& first, const Split& shard,
                         std::span<const KeyValue> first_metadata, std::span<const KeyValue> shard_metadata) {
  const auto foreign = [&](std::string_view why) {
    return Error{Code::corrupt_file, fmt::format("'{}' is not part {} of this model: {}; download '{}' again",
                                                 printable_path(path), no + 1, why, printable_path(file_name(path)))};
  };
  if (shard.count != first.count) {
    if (shard.count == 1) return foreign("it is a whole file");
    return foreign(fmt::format("its set has {} parts, not {}", shard.count, first.count));
  }
  if (shard.no != no) return foreign(fmt::format("it says that it is part {}", shard.no + 1));
  if (shard.n_tensors != first.n_tensors) {
    return foreign(fmt::format("its set has {} tensors, not {}", shard.n_tensors, first.n_tensors));
  }
  // Most splitters give the keys of the model to the first file only.
  const Value* ours = find_key(first_metadata, "general.architecture");
  const Value* theirs = find_key(shard_metadata, "general.architecture");
  const std::string* our_name = ours != nullptr ? ours->as_string() : nullptr;
  const std::string* their_name = theirs != nullptr ? theirs->as_string() : nullptr;
  if (our_name != nullptr && their_name != nullptr && *our_name != *their_name) {
    return foreign(fmt::format("its architecture is '{}', not '{}'", printable(*their_name), printable(*our_name)));
  }
  return {};
}

}  // namespace sluice::gguf
