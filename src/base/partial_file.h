// A file that may grow over several runs of the program, and gets its final name when it is complete.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "sluice/result.h"

namespace sluice {

class PartialFile {
 public:
  // Keeps what the file holds.
  static Result<PartialFile> open(const std::string& path);
  PartialFile(PartialFile&& other) noexcept;
  ~PartialFile();

  uint64_t size() const { return size_; }
  // An Error also where another process wrote to it meanwhile.
  Result<void> append(std::span<const std::byte> bytes);
  Result<void> clear();
  // Makes it safe on the disk and renames it; the object is closed then, whatever comes of it.
  Result<void> commit(const std::string& final_path);
  // Closes and deletes it.
  void remove();

 private:
  PartialFile(std::string path, int fd, uint64_t size) : path_(std::move(path)), fd_(fd), size_(size) {}
  Error failed(int error_number) const;
  std::string path_;
  int fd_ = -1;
  uint64_t size_ = 0;
};

// A lock between processes (flock), held as long as the object lives. File systems that know no locks give none.
class FileLock {
 public:
  // Tries again while `wait` returns true; `cancelled` where it does not. `wait` is called every 0.1 s.
  static Result<FileLock> take(const std::string& path, const std::function<bool()>& wait);
  FileLock(FileLock&& other) noexcept;
  ~FileLock();

 private:
  explicit FileLock(int fd) : fd_(fd) {}
  int fd_ = -1;
};

// Bytes that this user may still write to the disk of a folder; the greatest number where that is not known.
uint64_t free_space(const std::string& folder);

}  // namespace sluice
