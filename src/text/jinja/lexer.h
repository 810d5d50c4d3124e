// A template's text as tokens, white space control applied: as with trim_blocks and lstrip_blocks, which chat templates
// are written for.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/result.h"

namespace sluice::text::jinja {

struct Token {
  enum class Kind : uint8_t {
    data,
    block_begin,
    block_end,
    print_begin,
    print_end,
    name,
    string,
    integer,
    real,
    op,
    end
  };
  Kind kind;
  uint32_t line;
  std::string text;  // of a string: what it stands for; of a number: without underscores

  bool is(Kind k, std::string_view t) const { return kind == k && text == t; }
};

inline Error syntax_error(uint32_t line, const std::string& what) {
  return {Code::corrupt_file, "line " + std::to_string(line) + ": " + what};
}

// The last token is `end`.
Result<std::vector<Token>> tokens_of(std::string_view text);

}  // namespace sluice::text::jinja
