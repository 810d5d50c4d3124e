// GGUF files: metadata and tensor directory, read and written. Knows no model.
//
// Reading checks every length, count, offset, type and product against the size of the file before use, so a damaged
// file yields an Error and never a large allocation. A File is immutable after open() and may be shared by threads.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "sluice/result.h"
#include "sluice/type.h"

namespace sluice::gguf {

// Value types of metadata, with the format's own numbers.
enum class Kind : uint32_t { u8 = 0, i8, u16, i16, u32, i32, f32, boolean, string, array, u64, i64, f64 };
std::string_view kind_name(Kind kind);

class Value;

// Arrays keep their elements in the narrowest natural C++ form; an array of arrays holds Values.
using Array = std::variant<std::vector<int64_t>,      // any signed integer kind
                           std::vector<uint64_t>,     // any unsigned integer kind, and booleans (0, 1)
                           std::vector<double>,       // f32, f64
                           std::vector<std::string>,  // raw bytes, not necessarily UTF-8
                           std::vector<Value>>;

class Value {
 public:
  Value() = default;
  Kind kind = Kind::u32;
  Kind element = Kind::u32;  // arrays only
  // Booleans and unsigned kinds: uint64_t. Signed: int64_t. f32 and f64: double.
  std::variant<uint64_t, int64_t, double, std::string, Array> data = uint64_t{0};

  static Value of(bool v);
  static Value of(uint32_t v);
  static Value of(int32_t v);
  static Value of(uint64_t v);
  static Value of(int64_t v);
  static Value of(float v);
  static Value of(double v);
  static Value of(std::string v);
  static Value of(const char* v);  // else a literal would become a boolean
  static Value of(std::vector<std::string> v);
  static Value of(std::vector<uint32_t> v);
  static Value of(std::vector<int32_t> v);
  static Value of(std::vector<float> v);

  // Lossless views: none where the stored kind cannot hold the asked value (a negative number, a fraction, a string).
  // Booleans are no numbers, and numbers no booleans.
  std::optional<uint64_t> as_uint() const;
  std::optional<int64_t> as_int() const;
  std::optional<double> as_float() const;  // any number
  std::optional<bool> as_bool() const;
  const std::string* as_string() const;
  const Array* as_array() const;
  size_t array_size() const;  // 0 for scalars
};

struct KeyValue {
  std::string key;
  Value value;
};

// One tensor of the directory. `dims` is in the file's order: dims[0] is the contiguous row length; at most 4.
struct TensorInfo {
  std::string name;
  std::vector<uint64_t> dims;
  uint32_t type_id = 0;            // as stored; may name a type that Sluice cannot compute with
  const TypeInfo* type = nullptr;  // nullptr for such a type
  uint64_t n_elements = 0;
  uint64_t n_bytes = 0;      // 0 where type is nullptr and its block size is not known
  uint32_t file_idx = 0;     // which file of a split set
  uint64_t file_offset = 0;  // absolute, in that file
};

struct OpenOptions {
  bool mmap = true;  // false: tensor data is read into memory by load_data()
  // For headers: data past the end of the file is no error, and of a split set only the named file is opened.
  bool metadata_only = false;
};

class File {
 public:
  // Opens a file, or a whole split set when given its first file (NAME-00001-of-0000N.gguf with split.* keys).
  static Result<File> open(const std::string& path, const OpenOptions& options = {});
  // The same checks over bytes in memory. The bytes must outlive the File. A file of a split set is refused.
  static Result<File> parse(std::span<const std::byte> bytes, const std::string& name = "(memory)");

  File(File&&) noexcept;
  File& operator=(File&&) noexcept;
  ~File();

  const std::string& path() const;
  uint32_t version() const;
  uint32_t alignment() const;
  uint32_t n_files() const;
  uint64_t file_bytes() const;  // all files of the set together

  std::span<const KeyValue> metadata() const;  // in file order; the first file's of a split set
  const Value* find(std::string_view key) const;

  // Typed look-ups. `not_found` where the key is absent, `corrupt_file` (naming key and kind) where its kind is wrong.
  Result<uint64_t> get_uint(std::string_view key) const;
  Result<double> get_float(std::string_view key) const;
  Result<bool> get_bool(std::string_view key) const;
  Result<std::string> get_string(std::string_view key) const;
  Result<std::vector<std::string>> get_strings(std::string_view key) const;
  Result<std::vector<int64_t>> get_ints(std::string_view key) const;
  Result<std::vector<double>> get_floats(std::string_view key) const;

  std::span<const TensorInfo> tensors() const;
  const TensorInfo* find_tensor(std::string_view name) const;

  // The tensor's bytes. Mapped: a view into the map. With mmap = false: valid after load_data(), empty before.
  // Empty for a type of unknown size, and where metadata_only met a file that ends before.
  std::span<const std::byte> data(const TensorInfo& tensor) const;
  // Reads all tensor data into memory (mmap = false; else nothing is to do). `progress(done_bytes, total_bytes)` may
  // return false to cancel. Not to be called while other threads use the File.
  Result<void> load_data(const std::function<bool(uint64_t, uint64_t)>& progress = {});
  // Tells the system that these bytes are not needed again soon (their pages of the map may be dropped). A hint.
  void release(std::span<const std::byte> bytes) const;
  bool mapped() const;
  // `io` where the file was cut shorter, or could not be read, while it was mapped: its data is not to be trusted any
  // more.
  Result<void> check_whole() const;

 private:
  struct Impl;
  explicit File(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Writes a GGUF version 3 file. The file appears under its name only when finish() succeeds: nothing half written is
// left.
class Writer {
 public:
  static Result<Writer> create(const std::string& path);
  Writer(Writer&&) noexcept;
  Writer& operator=(Writer&&) noexcept;
  ~Writer();  // without finish(): removes the temporary file

  // Replaces an earlier value of the same key. general.alignment (u32) sets the alignment of the data, else 32.
  // Only before write_header(), which reports a value that does not fit its kind.
  void set(std::string key, Value value);
  // Declares the tensors, in the order in which their data will be written.
  Result<void> declare(std::string name, std::vector<uint64_t> dims, Type type);
  // Writes header and directory; then data() once per declared tensor, in order, in one or several pieces.
  Result<void> write_header();
  Result<void> data(std::span<const std::byte> piece);
  Result<void> finish();

 private:
  struct Impl;
  explicit Writer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice::gguf
