#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/checked.h"
#include "base/file_map.h"
#include "base/text.h"
#include "gguf/name_index.h"
#include "gguf/parse.h"
#include "sluice/gguf.h"

namespace sluice::gguf {
namespace {

// Without a map, the beginning of the file is read in windows of this size, then four times as large, and so on.
constexpr uint64_t kFirstWindow = uint64_t{4} << 20;
constexpr uint64_t kReadPiece = uint64_t{16} << 20;  // between two calls of `progress`

// What one file says of itself.
struct Parsed {
  uint32_t version = 0;
  uint32_t alignment = kDefaultAlignment;
  std::vector<KeyValue> metadata;
  Directory directory;
};

// One file of a set, with the bytes that stand behind its tensors.
struct Part {
  std::string path;
  uint64_t file_bytes = 0;
  uint64_t data_start = 0, data_end = 0;
  uint64_t first_byte = 0;  // where `bytes` starts in the file
  std::span<const std::byte> bytes;
  FileMap map;
  std::optional<InputFile> file;  // to read from, where nothing is mapped
  ByteBuffer loaded;
};

Result<Parsed> parse_window(Cursor& cursor, std::span<const std::byte> window, bool metadata_only) {
  Parsed out;
  const Header header = TRY(read_header(cursor, window));
  out.version = header.version;
  out.metadata = TRY(read_metadata(cursor, header.n_metadata));
  out.alignment = TRY(read_alignment(cursor, out.metadata));
  out.directory = TRY(read_directory(cursor, header.n_tensors, out.alignment, metadata_only));
  return out;
}

// The same over a file that is read, not mapped. How long the beginning is, only its content tells.
Result<Parsed> parse_by_reading(const InputFile& file, bool metadata_only) {
  for (uint64_t window_bytes = kFirstWindow;; window_bytes *= 4) {
    const ByteBuffer window = TRY(ByteBuffer::allocate(std::min(window_bytes, file.size())));
    TRY(file.read_at(0, window.bytes()));
    Cursor cursor(window.bytes(), file.size(), file.path());
    Result<Parsed> parsed = parse_window(cursor, window.bytes(), metadata_only);
    if (parsed || !cursor.needs_larger_window()) return parsed;
  }
}

Result<Parsed> read_part(const std::string& path, const OpenOptions& options, Part& part) {
  InputFile file = TRY(InputFile::open(path));
  part.path = path;
  part.file_bytes = file.size();
  Result<Parsed> parsed = Parsed{};
  if (options.mmap) {
    part.map = TRY(FileMap::map(file));
    part.bytes = part.map.bytes();
    Cursor cursor(part.bytes, file.size(), path);
    parsed = parse_window(cursor, part.bytes, options.metadata_only);
  } else {
    parsed = parse_by_reading(file, options.metadata_only);
    part.file.emplace(std::move(file));
  }
  if (!parsed) return parsed;
  part.data_start = part.data_end = parsed->directory.data_start;
  for (const TensorInfo& tensor : parsed->directory.tensors) {
    part.data_end = std::max(part.data_end, tensor.file_offset + tensor.n_bytes);
  }
  return parsed;
}

}  // namespace

struct File::Impl {
  std::vector<Part> parts;
  uint32_t version = 0;
  uint32_t alignment = kDefaultAlignment;
  bool mapped = false;
  std::vector<KeyValue> metadata;
  std::vector<TensorInfo> tensors;
  NameIndex<KeyValue, &KeyValue::key> keys;
  NameIndex<TensorInfo, &TensorInfo::name> names;

  void adopt(Parsed parsed, Part part) {
    version = parsed.version;
    alignment = parsed.alignment;
    metadata = std::move(parsed.metadata);
    add(std::move(parsed.directory.tensors), std::move(part));
  }

  void add(std::vector<TensorInfo> more, Part part) {
    for (TensorInfo& tensor : more) {
      tensor.file_idx = static_cast<uint32_t>(parts.size());
      tensors.push_back(std::move(tensor));
    }
    parts.push_back(std::move(part));
  }

  Result<void> add_shards(const Split& split, const OpenOptions& options);

  Result<void> build_indexes() {
    keys = NameIndex<KeyValue, &KeyValue::key>(metadata);
    names = NameIndex<TensorInfo, &TensorInfo::name>(tensors);
    if (const TensorInfo* twice = names.first_duplicate(tensors)) {
      return Error{Code::corrupt_file,
                   fmt::format("tensor '{}' stands in two files of the split set, one of them '{}'; "
                               "download the set again",
                               printable(twice->name), printable_path(parts[twice->file_idx].path))};
    }
    return {};
  }
};

Result<void> File::Impl::add_shards(const Split& split, const OpenOptions& options) {
  const std::string first_path = parts.front().path;
  const std::string stem = TRY(split_stem(first_path, split));
  if (split.no != 0) {
    return Error{Code::invalid_argument,
                 fmt::format("'{}' is part {} of {} of a split model; open the first, '{}'", printable_path(first_path),
                             split.no + 1, split.count, printable_path(split_path(stem, 0, split.count)))};
  }
  for (uint32_t no = 1; no < split.count; ++no) {
    const std::string path = split_path(stem, no, split.count);
    Part part;
    Result<Parsed> parsed = read_part(path, options, part);
    if (!parsed && parsed.error().code == Code::not_found) {
      return Error{Code::not_found,
                   fmt::format("part {} of {} of the split model is missing: '{}'; put it beside the first", no + 1,
                               split.count, printable_path(path))};
    }
    if (!parsed) return parsed.error();
    const Split shard = TRY(read_split(path, parsed->metadata));
    TRY(check_shard(path, no, split, shard, metadata, parsed->metadata));
    add(std::move(parsed->directory.tensors), std::move(part));
  }
  if (tensors.size() != split.n_tensors) {
    return Error{Code::corrupt_file,
                 fmt::format("'{}': the {} parts of the set have {} tensors together, not {}; one of "
                             "them is of another model, download the set again",
                             printable_path(first_path), split.count, tensors.size(), split.n_tensors)};
  }
  return {};
}

Result<File> File::open(const std::string& path, const OpenOptions& options) {
  auto impl = std::make_unique<Impl>();
  Part part;
  Parsed parsed = TRY(read_part(path, options, part));
  const Split split = TRY(read_split(path, parsed.metadata));
  impl->mapped = options.mmap;
  impl->adopt(std::move(parsed), std::move(part));
  if (split.count > 1 && !options.metadata_only) TRY(impl->add_shards(split, options));
  TRY(impl->build_indexes());
  return File(std::move(impl));
}

Result<File> File::parse(std::span<const std::byte> bytes, const std::string& name) {
  auto impl = std::make_unique<Impl>();
  Cursor cursor(bytes, bytes.size(), name);
  Parsed parsed = TRY(parse_window(cursor, bytes, false));
  const Split split = TRY(read_split(name, parsed.metadata));
  if (split.count > 1) {
    return cursor.unsupported(
        fmt::format("these are the bytes of part {} of {} of a split model", split.no + 1, split.count),
        "open the first file by its path");
  }
  Part part;
  part.path = name;
  part.file_bytes = bytes.size();
  part.bytes = bytes;
  impl->adopt(std::move(parsed), std::move(part));
  TRY(impl->build_indexes());
  return File(std::move(impl));
}

File::File(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
File::File(File&&) noexcept = default;
File& File::operator=(File&&) noexcept = default;
File::~File() = default;

const std::string& File::path() const { return impl_->parts.front().path; }
uint32_t File::version() const { return impl_->version; }
uint32_t File::alignment() const { return impl_->alignment; }
uint32_t File::n_files() const { return static_cast<uint32_t>(impl_->parts.size()); }
bool File::mapped() const { return impl_->mapped; }

Result<void> File::check_whole() const {
  for (const Part& part : impl_->parts) {
    if (!part.map.lost()) continue;
    return Error{Code::io,
                 fmt::format("'{}' changed or could not be read while it was in use; start again when it is whole",
                             printable_path(part.path))};
  }
  return {};
}

uint64_t File::file_bytes() const {
  uint64_t total = 0;
  for (const Part& part : impl_->parts) total += part.file_bytes;
  return total;
}

std::span<const KeyValue> File::metadata() const { return impl_->metadata; }

const Value* File::find(std::string_view key) const {
  const KeyValue* found = impl_->keys.find(impl_->metadata, key);
  return found != nullptr ? &found->value : nullptr;
}

std::span<const TensorInfo> File::tensors() const { return impl_->tensors; }

const TensorInfo* File::find_tensor(std::string_view name) const { return impl_->names.find(impl_->tensors, name); }

std::span<const std::byte> File::data(const TensorInfo& tensor) const {
  const Part& part = impl_->parts[tensor.file_idx];
  if (tensor.file_offset < part.first_byte) return {};
  const uint64_t start = tensor.file_offset - part.first_byte;
  if (start > part.bytes.size() || tensor.n_bytes > part.bytes.size() - start) return {};
  return part.bytes.subspan(static_cast<size_t>(start), static_cast<size_t>(tensor.n_bytes));
}

Result<void> File::load_data(const std::function<bool(uint64_t, uint64_t)>& progress) {
  uint64_t done = 0, total = 0;
  for (const Part& part : impl_->parts) {
    if (part.file) total += part.data_end - part.data_start;
  }
  for (Part& part : impl_->parts) {
    if (!part.file || part.loaded.bytes().data() != nullptr) continue;
    // metadata_only lets a tensor end past the file.
    if (part.data_end > part.file_bytes) {
      return Error{Code::corrupt_file, fmt::format("'{}' holds a header without all of its data; get the whole file",
                                                   printable_path(part.path))};
    }
    ByteBuffer buffer = TRY(ByteBuffer::allocate(part.data_end - part.data_start));
    for (uint64_t at = 0; at < buffer.bytes().size();) {
      const uint64_t piece = std::min(kReadPiece, buffer.bytes().size() - at);
      TRY(part.file->read_at(part.data_start + at, buffer.bytes().subspan(at, piece)));
      at += piece, done += piece;
      if (progress && !progress(done, total)) return Error{Code::cancelled, "loading was cancelled; load again"};
    }
    part.loaded = std::move(buffer);
    part.bytes = part.loaded.bytes();
    part.first_byte = part.data_start;
  }
  return {};
}

void File::release(std::span<const std::byte> bytes) const {
  for (const Part& part : impl_->parts) part.map.release(bytes);
}

}  // namespace sluice::gguf
