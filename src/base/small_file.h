// The small text files of /sys and /proc.
#pragma once
#include <charconv>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>

namespace sluice {

// Empty where the file cannot be read.
inline std::string read_small_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return in ? std::string(std::istreambuf_iterator<char>(in), {}) : std::string();
}

inline std::string_view trim(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

// The number that the text starts with.
template <class T = uint64_t>
std::optional<T> leading_number(std::string_view text) {
  text = trim(text);
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  return value;
}

// Calls visit(line) for each line, without its end.
template <class Visit>
void for_each_line(std::string_view text, Visit visit) {
  while (!text.empty()) {
    const auto end = text.find('\n');
    visit(text.substr(0, end));
    if (end == std::string_view::npos) return;
    text.remove_prefix(end + 1);
  }
}

// The number after `key` at the start of a line: "MemTotal:       24689764 kB", "inactive_file 4096".
inline std::optional<uint64_t> field(std::string_view text, std::string_view key) {
  std::optional<uint64_t> found;
  for_each_line(text, [&](std::string_view line) {
    if (!found && line.starts_with(key)) found = leading_number(line.substr(key.size()));
  });
  return found;
}

}  // namespace sluice
