#include "base/file_map.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <limits>
#include <system_error>
#include <utility>

#include "base/text.h"

namespace sluice {
namespace {

// What the signal handler may look at: no locks, no allocation.
struct GuardedRange {
  std::atomic<bool> taken{false}, lost{false};
  std::atomic<uintptr_t> begin{0}, end{0};
};
constexpr int kMostGuarded = 1024;
std::array<GuardedRange, kMostGuarded> guarded;
std::atomic<uintptr_t> page_bytes{4096};

// -1 where all places are taken: such a map is not guarded.
int guard(const void* data, size_t size) {
  for (int i = 0; i < kMostGuarded; ++i) {
    GuardedRange& range = guarded[static_cast<size_t>(i)];
    if (range.taken.exchange(true)) continue;
    range.lost = false;
    range.begin = reinterpret_cast<uintptr_t>(data);
    range.end = reinterpret_cast<uintptr_t>(data) + size;
    return i;
  }
  return -1;
}

void unguard(int place) {
  if (place < 0) return;
  GuardedRange& range = guarded[static_cast<size_t>(place)];
  range.end = range.begin = 0;
  range.taken = false;
}

// Zeros from the lost page to the end of the map: what lies behind a cut is lost as well.
void on_bus_error(int, siginfo_t* info, void*) {
  const int saved = errno;
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  for (GuardedRange& range : guarded) {
    if (address < range.begin || address >= range.end) continue;
    const uintptr_t page = address / page_bytes * page_bytes;
    void* zeros = ::mmap(reinterpret_cast<void*>(page), range.end - page, PROT_READ,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    range.lost = true;
    errno = saved;
    if (zeros != MAP_FAILED) return;
  }
  ::signal(SIGBUS, SIG_DFL);  // not ours: the instruction runs again and ends the process
}

// Calls madvise on whole pages: those that touch `part`, or only those inside it. The address stands as a number, since
// the rounded one may lie before the span.
void advise_pages(std::span<const std::byte> whole, std::span<const std::byte> part, int advice, bool only_inside) {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto first = reinterpret_cast<uintptr_t>(whole.data()), last = first + whole.size();
  uintptr_t from = reinterpret_cast<uintptr_t>(part.data()), to = from + part.size();
  if (part.empty() || from < first || to > last) return;
  from = (only_inside ? from + page - 1 : from) / page * page;
  // The map's last page belongs to it wholly: the system fills it up with zeros.
  to = (only_inside && to != last ? to : to + page - 1) / page * page;
  if (from < to) ::madvise(reinterpret_cast<void*>(from), to - from, advice);
}

}  // namespace

Result<FileMap> FileMap::open(const std::string& path) {
  const InputFile file = TRY(InputFile::open(path));
  return map(file);
}

Result<FileMap> FileMap::map(const InputFile& file) {
  FileMap map;
  if (file.size() == 0) return map;
  if (file.size() > std::numeric_limits<size_t>::max() / 2) {
    return Error{Code::unsupported,
                 fmt::format("'{}' is too large for this system; use a 64-bit one", printable_path(file.path()))};
  }
  const auto size = static_cast<size_t>(file.size());
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.handle(), 0);
  if (data == MAP_FAILED) {
    return Error{Code::io, fmt::format("cannot map '{}': {}; read it into memory instead", printable_path(file.path()),
                                       std::generic_category().message(errno))};
  }
  map.data_ = static_cast<const std::byte*>(data);
  map.size_ = size;
  map.guard_ = guard(data, size);
  return map;
}

FileMap::FileMap(FileMap&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      guard_(std::exchange(other.guard_, -1)) {}

FileMap& FileMap::operator=(FileMap&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(guard_, other.guard_);
  return *this;
}

FileMap::~FileMap() {
  unguard(guard_);
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

void FileMap::advise(std::span<const std::byte> part, Access access) const {
  const int advice = access == Access::sequential  ? MADV_SEQUENTIAL
                     : access == Access::random    ? MADV_RANDOM
                     : access == Access::will_need ? MADV_WILLNEED
                                                   : MADV_NORMAL;
  advise_pages(bytes(), part, advice, false);
}

bool FileMap::lost() const { return guard_ >= 0 && guarded[static_cast<size_t>(guard_)].lost; }

void guard_file_maps() {
  page_bytes = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  struct sigaction action = {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &action, nullptr);
}

void FileMap::release(std::span<const std::byte> part) const { advise_pages(bytes(), part, MADV_DONTNEED, true); }

}  // namespace sluice
