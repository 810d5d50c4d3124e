// A file mapped into memory, read-only.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/file_io.h"
#include "sluice/result.h"

namespace sluice {

enum class Access { normal, sequential, random, will_need };

// Hazard: a file that is cut shorter while it is mapped (downloaded again, copied over) raises SIGBUS where the lost
// pages are read. A program that calls guard_file_maps() reads zeros there instead, and lost() says so.
class FileMap {
 public:
  static Result<FileMap> open(const std::string& path);
  // The map lives on when `file` is closed. An empty file gives an empty map.
  static Result<FileMap> map(const InputFile& file);
  FileMap() = default;
  FileMap(FileMap&& other) noexcept;
  FileMap& operator=(FileMap&& other) noexcept;
  ~FileMap();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  uint64_t size() const { return size_; }
  // Hints on a part of bytes(); parts outside are ignored.
  void advise(std::span<const std::byte> part, Access access) const;
  // Lets the system drop the pages that lie wholly inside `part`; reading them again reads the file.
  void release(std::span<const std::byte> part) const;
  // Part of the file could not be read: what has been computed from it is worth nothing.
  bool lost() const;

 private:
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  int guard_ = -1;  // its place among the guarded ranges
};

// Takes over the process's SIGBUS for the ranges of FileMaps; other faults end the process as before. For programs, not
// for libraries.
void guard_file_maps();

}  // namespace sluice
