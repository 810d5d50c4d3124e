#include "base/text.h"

#include <fmt/format.h>

#include <cstdint>
#include <iterator>

namespace sluice {
namespace {

bool changes_the_terminal(char32_t c) {
  return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0xad || (c >= 0x200b && c <= 0x200f) ||
         (c >= 0x2028 && c <= 0x202e) || (c >= 0x2060 && c <= 0x206f) || c == 0xfeff || (c >= 0xfff9 && c <= 0xfffb) ||
         (c >= 0xe0000 && c <= 0xe007f);
}

std::string escaped(char32_t c) {
  switch (c) {
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    default:
      return c < 0x100 ? fmt::format("\\x{:02x}", static_cast<uint32_t>(c))
                       : fmt::format("\\u{{{:x}}}", static_cast<uint32_t>(c));
  }
}

}  // namespace

size_t utf8_length(std::string_view text, size_t at, char32_t* code) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<uint8_t>(text[i]) : uint8_t{0}; };
  const uint8_t lead = byte(at);
  size_t length = 0;
  char32_t c = 0;
  if (at < text.size() && lead < 0x80) {
    length = 1, c = lead;
  } else if (lead >= 0xc2 && lead < 0xe0) {
    length = 2, c = lead & 0x1fu;
  } else if (lead >= 0xe0 && lead < 0xf0) {
    length = 3, c = lead & 0x0fu;
  } else if (lead >= 0xf0 && lead < 0xf5) {
    length = 4, c = lead & 0x07u;
  }
  for (size_t i = 1; i < length; ++i) {
    if ((byte(at + i) & 0xc0) != 0x80) return 0;
    c = (c << 6) | (byte(at + i) & 0x3fu);
  }
  const bool overlong = (length == 3 && c < 0x800) || (length == 4 && (c < 0x10000 || c > 0x10ffff));
  if (overlong || (c >= 0xd800 && c < 0xe000)) return 0;
  if (code != nullptr) *code = c;
  return length;
}

std::string printable(std::string_view text, size_t max_bytes) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    char32_t code = 0;
    const size_t length = utf8_length(text, at, &code);
    std::string piece;
    if (length == 0) {
      piece = fmt::format("\\x{:02x}", static_cast<uint8_t>(text[at]));
    } else if (code == '\'' || code == '\\') {
      piece = {'\\', static_cast<char>(code)};
    } else if (changes_the_terminal(code)) {
      piece = escaped(code);
    } else {
      piece = text.substr(at, length);
    }
    if (out.size() + piece.size() > max_bytes) return out + "...";
    out += piece;
    at += length == 0 ? 1 : length;
  }
  return out;
}

std::string printable_path(std::string_view path) {
  constexpr size_t kMaxPath = 400;
  if (path.size() <= kMaxPath) return printable(path, 4 * kMaxPath);
  size_t from = path.size() - kMaxPath;
  while (from < path.size() && (static_cast<uint8_t>(path[from]) & 0xc0) == 0x80) ++from;
  return "..." + printable(path.substr(from), 4 * kMaxPath);
}

std::string bytes_text(double n_bytes, bool binary) {
  const double step = binary ? 1024 : 1000;
  const char* const units[] = {"B", binary ? "KiB" : "kB", binary ? "MiB" : "MB", binary ? "GiB" : "GB",
                               binary ? "TiB" : "TB"};
  size_t i = 0;
  for (; n_bytes >= step && i + 1 < std::size(units); ++i) n_bytes /= step;
  if (i == 0) return fmt::format("{:.0f} {}", n_bytes, units[i]);
  return binary ? fmt::format("{:.2f} {}", n_bytes, units[i]) : fmt::format("{:.1f} {}", n_bytes, units[i]);
}

}  // namespace sluice
