// Well-formed UTF-8 (Unicode's table 3-7: no surrogates, no overlong forms, at most U+10FFFF), one character at a time.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace sluice::text {

enum class Utf8Kind : uint8_t {
  character,   // n_bytes form a character
  invalid,     // the first byte belongs to no character; n_bytes is 1
  incomplete,  // all n_bytes up to the end are the beginning of a character
};

struct Utf8Step {
  Utf8Kind kind;
  uint8_t n_bytes;
};

// What `bytes`, not empty, begins with.
Utf8Step utf8_step(std::string_view bytes);

// Length of the longest beginning of `bytes` that is well-formed.
size_t utf8_valid_prefix(std::string_view bytes);

// The code point of the character at the beginning of `bytes`, which must be well-formed.
uint32_t utf8_decode(std::string_view bytes);

void utf8_append(std::string& out, uint32_t code_point);

}  // namespace sluice::text
