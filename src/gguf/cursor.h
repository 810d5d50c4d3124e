// Reads the fields of a file one after another; every read is checked against the size of the file.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "sluice/result.h"

namespace sluice::gguf {

class Cursor {
 public:
  using Where = decltype(Error::where);
  // `window` is the beginning of the file, or all of it. `name` is shown in messages.
  Cursor(std::span<const std::byte> window, uint64_t file_bytes, std::string_view name);

  uint64_t position() const { return position_; }
  uint64_t file_bytes() const { return file_bytes_; }
  uint64_t remaining() const { return file_bytes_ - position_; }
  // A read failed only because the window ends before the file does: try again with a larger one.
  bool needs_larger_window() const { return needs_larger_window_; }

  // What is being read, for messages: "the key", "the value of" 'name'. The views must live until the next call.
  void enter(std::string_view what, std::string_view name = {}) { what_ = what, item_ = name; }

  Result<std::span<const std::byte>> take(uint64_t n_bytes);
  Result<std::string_view> string();  // u64 length, bytes
  template <class T>
  Result<T> number() {
    static_assert(std::is_arithmetic_v<T>);
    const auto bytes = take(sizeof(T));
    if (!bytes) return bytes.error();
    T value;
    std::memcpy(&value, bytes->data(), sizeof(T));
    return value;
  }

  // Accounts for memory that the parsed form takes. The limit keeps a file of many tiny elements, which take more room
  // in memory than in the file, within the size of the file (small files: 256 MiB).
  Result<void> charge(uint64_t n_bytes);

  // An Error about this file: "'NAME': WHAT; REMEDY".
  Error corrupt(std::string_view what, std::string_view remedy = "download it again",
                Where at = Where::current()) const;
  Error unsupported(std::string_view what, std::string_view remedy, Where at = Where::current()) const;

 private:
  Error ends_inside() const;
  std::string described() const;
  std::span<const std::byte> window_;
  uint64_t file_bytes_;
  std::string name_;
  uint64_t position_ = 0;
  uint64_t budget_;
  bool needs_larger_window_ = false;
  std::string_view what_ = "the header", item_;
};

}  // namespace sluice::gguf
