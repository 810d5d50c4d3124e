#include "gguf/cursor.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"

namespace sluice::gguf {

Cursor::Cursor(std::span<const std::byte> window, uint64_t file_bytes, std::string_view name)
    : window_(window),
      file_bytes_(file_bytes),
      name_(name),
      budget_(std::max<uint64_t>(file_bytes, uint64_t{256} << 20)) {}

Result<std::span<const std::byte>> Cursor::take(uint64_t n_bytes) {
  if (n_bytes > remaining()) return ends_inside();
  if (n_bytes > window_.size() - position_) {
    needs_larger_window_ = true;
    return Error{Code::internal, "the window onto the file is too small; report this"};
  }
  const auto bytes = window_.subspan(static_cast<size_t>(position_), static_cast<size_t>(n_bytes));
  position_ += n_bytes;
  return bytes;
}

Result<std::string_view> Cursor::string() {
  const auto length = number<uint64_t>();
  if (!length) return length.error();
  if (*length > remaining()) {
    return corrupt(
        fmt::format("{} has a length of {} bytes, and {} are left in the file", described(), *length, remaining()));
  }
  const auto bytes = take(*length);
  if (!bytes) return bytes.error();
  return std::string_view(reinterpret_cast<const char*>(bytes->data()), bytes->size());
}

Result<void> Cursor::charge(uint64_t n_bytes) {
  if (n_bytes > budget_) {
    return unsupported(fmt::format("{} would take more memory than the whole file", described()),
                       "use a file with less metadata");
  }
  budget_ -= n_bytes;
  return {};
}

std::string Cursor::described() const {
  if (item_.data() == nullptr) return std::string(what_);
  return fmt::format("{} '{}'", what_, printable(item_));
}

Error Cursor::ends_inside() const {
  return corrupt(fmt::format("the file ends after {} bytes, inside {}", file_bytes_, described()));
}

Error Cursor::corrupt(std::string_view what, std::string_view remedy, Where at) const {
  return Error{Code::corrupt_file, fmt::format("'{}': {}; {}", printable_path(name_), what, remedy), at};
}

Error Cursor::unsupported(std::string_view what, std::string_view remedy, Where at) const {
  return Error{Code::unsupported, fmt::format("'{}': {}; {}", printable_path(name_), what, remedy), at};
}

}  // namespace sluice::gguf
