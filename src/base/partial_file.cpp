#include "base/partial_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <system_error>
#include <thread>
#include <utility>

#include "base/text.h"

namespace sluice {
namespace {

Error write_error(const std::string& path, int error_number) {
  const bool full = error_number == ENOSPC || error_number == EDQUOT;
  return Error{Code::io, fmt::format("cannot write '{}': {}; {}", printable_path(path),
                                     std::generic_category().message(error_number),
                                     full ? "free some space and start again: it goes on where it stopped"
                                          : "check the rights, the disk and its limits")};
}

}  // namespace

Result<PartialFile> PartialFile::open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (fd < 0) return write_error(path, errno);
  struct stat info;
  const int error = ::fstat(fd, &info) != 0 ? errno : S_ISREG(info.st_mode) ? 0 : EINVAL;
  if (error != 0) {
    ::close(fd);
    return write_error(path, error);
  }
  return PartialFile(path, fd, static_cast<uint64_t>(info.st_size));
}

PartialFile::PartialFile(PartialFile&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)), size_(other.size_) {}

PartialFile::~PartialFile() {
  if (fd_ >= 0) ::close(fd_);
}

Error PartialFile::failed(int error_number) const { return write_error(path_, error_number); }

Result<void> PartialFile::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd_, bytes.data(), std::min<size_t>(bytes.size(), 1 << 30));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return failed(n < 0 ? errno : EIO);
    size_ += static_cast<uint64_t>(n);
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  // Some network file systems give every process the lock.
  if (::lseek(fd_, 0, SEEK_CUR) != static_cast<off_t>(size_))
    return Error{Code::io, fmt::format("another process writes to '{}'; wait until it has ended and start again",
                                       printable_path(path_))};
  return {};
}

Result<void> PartialFile::clear() {
  if (::ftruncate(fd_, 0) != 0 || ::lseek(fd_, 0, SEEK_SET) != 0) return failed(errno);
  size_ = 0;
  return {};
}

Result<void> PartialFile::commit(const std::string& final_path) {
  // Some file systems report a full disk only here.
  if (::fsync(fd_) != 0 && errno != EINVAL && errno != EROFS) return failed(errno);
  if (::close(std::exchange(fd_, -1)) != 0 && errno != EINTR) return failed(errno);
  if (std::rename(path_.c_str(), final_path.c_str()) != 0) return write_error(final_path, errno);
  return {};
}

void PartialFile::remove() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  ::unlink(path_.c_str());
}

Result<FileLock> FileLock::take(const std::string& path, const std::function<bool()>& wait) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0) return write_error(path, errno);
  FileLock lock(fd);
  while (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) break;
    if (!wait()) return Error{Code::cancelled, "cancelled while waiting for another process; start again to go on"};
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return lock;
}

FileLock::FileLock(FileLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

FileLock::~FileLock() {
  if (fd_ >= 0) ::close(fd_);
}

uint64_t free_space(const std::string& folder) {
  std::error_code error;
  const auto space = std::filesystem::space(folder, error);
  return error ? std::numeric_limits<uint64_t>::max() : space.available;
}

}  // namespace sluice
