// Files as the operating system gives them. Paths are UTF-8.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "sluice/result.h"

namespace sluice {

// A regular file, open for reading. Directories, devices and pipes are refused.
class InputFile {
 public:
  static Result<InputFile> open(const std::string& path);
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&& other) noexcept;
  ~InputFile();

  const std::string& path() const { return path_; }
  uint64_t size() const { return size_; }  // when it was opened
  int handle() const { return fd_; }
  // Fills `out` from `offset` on; an Error where the file ends before. May be called by several threads.
  Result<void> read_at(uint64_t offset, std::span<std::byte> out) const;

 private:
  InputFile(std::string path, int fd, uint64_t size) : path_(std::move(path)), fd_(fd), size_(size) {}
  std::string path_;
  int fd_ = -1;
  uint64_t size_ = 0;
};

// A file, pipe or terminal that is read as its bytes come.
class InputStream {
 public:
  static Result<InputStream> open(const std::string& path);
  static InputStream standard_input() { return {"stdin", 0, false}; }
  InputStream(InputStream&& other) noexcept;
  ~InputStream();

  // The next bytes; 0 at the end. `cancelled` after Ctrl-C, however long nothing comes.
  Result<size_t> read(std::span<char> out) const;
  // All that is left, `unsupported` where that is more than `max_bytes`: some inputs have no end.
  Result<std::string> read_all(uint64_t max_bytes) const;

 private:
  InputStream(std::string name, int fd, bool owned) : name_(std::move(name)), fd_(fd), owned_(owned) {}
  std::string name_;
  int fd_;
  bool owned_;
};

// Bytes aligned to 64, not initialised; out of memory is an Error.
class ByteBuffer {
 public:
  static Result<ByteBuffer> allocate(uint64_t n_bytes);
  std::span<std::byte> bytes() const { return {data_.get(), size_}; }

 private:
  struct Free {
    void operator()(std::byte* data) const;
  };
  std::unique_ptr<std::byte[], Free> data_;
  size_t size_ = 0;
};

// An output file that appears under its name only when commit() succeeds; until then, and after any error, what stood
// there before is untouched and the temporary file beside it is removed by the destructor.
class AtomicFile {
 public:
  static Result<AtomicFile> create(const std::string& path);
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&& other) noexcept;
  ~AtomicFile();

  Result<void> write(std::span<const std::byte> bytes);
  Result<void> commit();
  uint64_t written() const { return written_; }

 private:
  AtomicFile(std::string path, std::string temporary, int fd)
      : path_(std::move(path)), temporary_(std::move(temporary)), fd_(fd) {}
  void discard();
  Error failed(int error_number);
  std::string path_, temporary_;
  int fd_ = -1;
  uint64_t written_ = 0;
};

Result<void> write_file_atomically(const std::string& path, std::span<const std::byte> bytes);

}  // namespace sluice
