// Text from files and users, made fit for a message.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace sluice {

// One line that is safe on a terminal: control characters, invisible and direction-changing characters and bytes that
// are not UTF-8 become escapes (\n, \x1b, \u202e), quotes and backslashes too; at most about `max_bytes` of output,
// then "...".
std::string printable(std::string_view text, size_t max_bytes = 80);

// The same for a path: longer, since its end is what the user needs to see.
std::string printable_path(std::string_view path);

// "17.9 MB", powers of 1000; "16.64 MiB" with `binary`.
std::string bytes_text(double n_bytes, bool binary = false);

// Length 1..4 of the valid UTF-8 character that starts at text[at], 0 where there is none; its code point in *code.
size_t utf8_length(std::string_view text, size_t at, char32_t* code = nullptr);

}  // namespace sluice
