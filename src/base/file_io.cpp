#include "base/file_io.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <new>
#include <system_error>
#include <utility>
#include <vector>

#include "base/interrupt.h"
#include "base/text.h"

namespace sluice {
namespace {

// Linux transfers at most about 2 GiB a call; a smaller piece also keeps the call interruptible.
constexpr size_t kMaxTransfer = size_t{1} << 30;

std::string system_text(int error_number) { return std::generic_category().message(error_number); }

Error cannot_open(const std::string& path, int error_number) {
  const bool missing = error_number == ENOENT || error_number == ENOTDIR;
  const char* remedy = error_number == EACCES || error_number == EPERM ? "give yourself the right to read it"
                       : error_number == EMFILE || error_number == ENFILE
                           ? "close other files or raise the limit of open files"
                           : "check the path";
  return Error{missing ? Code::not_found : Code::io,
               fmt::format("cannot open '{}': {}; {}", printable_path(path), system_text(error_number), remedy)};
}

// Where the output goes in the end: through a symbolic link, as plain writing would do it.
Result<std::string> resolve_output(const std::string& path, mode_t* mode) {
  namespace fs = std::filesystem;
  std::string target = path;
  std::error_code error;
  if (fs::is_symlink(fs::symlink_status(path, error))) {
    target = fs::canonical(path, error).string();
    if (error) {
      return Error{Code::io, fmt::format("cannot write '{}': it is a link to nothing; remove it or name another file",
                                         printable_path(path))};
    }
  }
  struct stat info;
  if (::stat(target.c_str(), &info) == 0) {
    if (S_ISDIR(info.st_mode)) {
      return Error{Code::invalid_argument,
                   fmt::format("cannot write '{}': it is a directory; add a file name", printable_path(path))};
    }
    if (!S_ISREG(info.st_mode)) {
      return Error{Code::invalid_argument,
                   fmt::format("cannot write '{}': it is not a regular file; name another file", printable_path(path))};
    }
    *mode = info.st_mode & 07777;
  }
  return target;
}

}  // namespace

Result<InputFile> InputFile::open(const std::string& path) {
  if (path.empty()) return Error{Code::invalid_argument, "the path is empty; name a file"};
  if (path.find('\0') != std::string::npos) {
    return Error{Code::invalid_argument,
                 fmt::format("the path '{}' holds a zero byte; check the path", printable_path(path))};
  }
  // O_NONBLOCK: opening a pipe must not wait for its writer. It changes nothing for regular files.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return cannot_open(path, errno);
  InputFile file(path, fd, 0);
  struct stat info;
  if (::fstat(fd, &info) != 0) return cannot_open(path, errno);
  if (S_ISDIR(info.st_mode)) {
    return Error{Code::invalid_argument,
                 fmt::format("'{}' is a directory; name a file inside it", printable_path(path))};
  }
  if (!S_ISREG(info.st_mode)) {
    return Error{Code::invalid_argument,
                 fmt::format("'{}' is not a regular file; save its content to one", printable_path(path))};
  }
  file.size_ = static_cast<uint64_t>(info.st_size);
  return file;
}

InputFile::InputFile(InputFile&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)), size_(other.size_) {}

InputFile& InputFile::operator=(InputFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  std::swap(size_, other.size_);
  return *this;
}

InputFile::~InputFile() {
  if (fd_ >= 0) ::close(fd_);
}

Result<void> InputFile::read_at(uint64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    if (offset > static_cast<uint64_t>(std::numeric_limits<off_t>::max())) {
      return Error{Code::internal, fmt::format("offset {} of '{}' is past any file", offset, printable_path(path_))};
    }
    const ssize_t n = ::pread(fd_, out.data(), std::min(out.size(), kMaxTransfer), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      return Error{Code::io, fmt::format("cannot read '{}': {}; check the disk or copy the file again",
                                         printable_path(path_), system_text(errno))};
    }
    if (n == 0) {
      return Error{Code::io, fmt::format("'{}' ended at byte {} while it was read; wait until it is complete",
                                         printable_path(path_), offset)};
    }
    offset += static_cast<uint64_t>(n);
    out = out.subspan(static_cast<size_t>(n));
  }
  return {};
}

Result<InputStream> InputStream::open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd >= 0) return InputStream(printable_path(path), fd, true);
  // A pipe whose writer does not come.
  if (errno == EINTR && interrupted()) return Error{Code::cancelled, "interrupted; start again"};
  return cannot_open(path, errno);
}

InputStream::InputStream(InputStream&& other) noexcept
    : name_(std::move(other.name_)), fd_(other.fd_), owned_(std::exchange(other.owned_, false)) {}

InputStream::~InputStream() {
  if (owned_) ::close(fd_);
}

Result<size_t> InputStream::read(std::span<char> out) const {
  for (;;) {
    if (interrupted()) return Error{Code::cancelled, "interrupted; start again"};
    // Waiting with a time limit: a signal may come just before the wait, or to another thread.
    pollfd wait{.fd = fd_, .events = POLLIN, .revents = 0};
    if (::poll(&wait, 1, 100) <= 0) continue;
    const ssize_t n = ::read(fd_, out.data(), out.size());
    if (n >= 0) return static_cast<size_t>(n);
    if (errno != EINTR && errno != EAGAIN)
      return Error{Code::io, fmt::format("cannot read {}: {}; give a text file", name_, system_text(errno))};
  }
}

Result<std::string> InputStream::read_all(uint64_t max_bytes) const {
  std::string text;
  std::vector<char> buffer(1 << 16);
  for (;;) {
    const size_t n = TRY(read(buffer));
    if (n == 0) return text;
    if (text.size() + n > max_bytes)
      return Error{
          Code::unsupported,
          fmt::format("{} holds more than {} MiB, the most that is read; give a shorter text", name_, max_bytes >> 20)};
    text.append(buffer.data(), n);
  }
}

void ByteBuffer::Free::operator()(std::byte* data) const { ::operator delete[](data, std::align_val_t{64}); }

Result<ByteBuffer> ByteBuffer::allocate(uint64_t n_bytes) {
  ByteBuffer buffer;
  void* data = n_bytes <= std::numeric_limits<size_t>::max() / 2
                   ? ::operator new[](static_cast<size_t>(n_bytes), std::align_val_t{64}, std::nothrow)
                   : nullptr;
  if (data == nullptr) {
    return Error{Code::out_of_memory,
                 fmt::format("no memory for {} bytes; free some, or let the file be mapped instead", n_bytes)};
  }
  buffer.data_.reset(static_cast<std::byte*>(data));
  buffer.size_ = static_cast<size_t>(n_bytes);
  return buffer;
}

Result<AtomicFile> AtomicFile::create(const std::string& path) {
  if (path.empty() || path.find('\0') != std::string::npos) {
    return Error{Code::invalid_argument, "the output path is empty or holds a zero byte; name a file"};
  }
  mode_t mode = 0;
  const std::string target = TRY(resolve_output(path, &mode));
  const size_t slash = target.rfind('/');
  const std::string folder = slash == std::string::npos ? "" : target.substr(0, slash + 1);
  if (slash != std::string::npos && slash + 1 == target.size()) {
    return Error{Code::invalid_argument,
                 fmt::format("cannot write '{}': it names a directory; add a file name", printable_path(path))};
  }
  static std::atomic<uint32_t> counter = 0;
  for (int attempt = 0; attempt < 1000; ++attempt) {
    // A name of its own, so that a target name of the greatest length still works.
    const std::string temporary = fmt::format("{}.sluice-{}-{}.tmp", folder, ::getpid(), counter++);
    const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0 && errno == EEXIST) continue;
    if (fd < 0) {
      return Error{Code::io, fmt::format("cannot write '{}': {}; check that its folder exists and may be written to",
                                         printable_path(path), system_text(errno))};
    }
    // The mode of a replaced file is a courtesy: failing to keep it is no error.
    if (mode != 0 && ::fchmod(fd, mode) != 0) errno = 0;
    return AtomicFile(target, temporary, fd);
  }
  return Error{Code::io, fmt::format("cannot write '{}': no free temporary name; remove old .sluice-*.tmp files there",
                                     printable_path(path))};
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, {})),
      fd_(std::exchange(other.fd_, -1)),
      written_(other.written_) {}

AtomicFile& AtomicFile::operator=(AtomicFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(temporary_, other.temporary_);
  std::swap(fd_, other.fd_);
  std::swap(written_, other.written_);
  return *this;
}

AtomicFile::~AtomicFile() { discard(); }

void AtomicFile::discard() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  if (!temporary_.empty()) ::unlink(std::exchange(temporary_, {}).c_str());
}

Error AtomicFile::failed(int error_number) {
  discard();
  const bool full = error_number == ENOSPC || error_number == EDQUOT;
  return Error{Code::io,
               fmt::format("cannot write '{}': {}; {}", printable_path(path_), system_text(error_number),
                           full ? "free some space or name a file on another disk" : "check the disk and its limits")};
}

Result<void> AtomicFile::write(std::span<const std::byte> bytes) {
  if (fd_ < 0) {
    return Error{Code::io, fmt::format("'{}' is closed after an earlier error; write it again", printable_path(path_))};
  }
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd_, bytes.data(), std::min(bytes.size(), kMaxTransfer));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return failed(n < 0 ? errno : EIO);
    written_ += static_cast<uint64_t>(n);
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return {};
}

Result<void> AtomicFile::commit() {
  if (fd_ < 0) {
    return Error{Code::io, fmt::format("'{}' is closed after an earlier error; write it again", printable_path(path_))};
  }
  // Some file systems report a full disk only here.
  if (::fsync(fd_) != 0 && errno != EINVAL && errno != EROFS) return failed(errno);
  if (::close(std::exchange(fd_, -1)) != 0 && errno != EINTR) return failed(errno);
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) return failed(errno);
  temporary_.clear();
  return {};
}

Result<void> write_file_atomically(const std::string& path, std::span<const std::byte> bytes) {
  AtomicFile file = TRY(AtomicFile::create(path));
  TRY(file.write(bytes));
  return file.commit();
}

}  // namespace sluice
