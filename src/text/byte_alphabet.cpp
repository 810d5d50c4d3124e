#include "text/byte_alphabet.h"

#include <array>

#include "text/utf8.h"

namespace sluice::text {
namespace {

constexpr uint32_t kFirstShifted = 0x100;

struct Alphabet {
  std::array<std::string, 256> text_of;
  std::array<int, kFirstShifted + 68> byte_of;  // by code point

  Alphabet() {
    byte_of.fill(-1);
    uint32_t shifted = kFirstShifted;
    for (uint32_t byte = 0; byte < 256; ++byte) {
      const bool printable = (byte > 0x20 && byte < 0x7F) || (byte > 0xA0 && byte != 0xAD);
      const uint32_t code_point = printable ? byte : shifted++;
      utf8_append(text_of[byte], code_point);
      byte_of[code_point] = static_cast<int>(byte);
    }
  }
};

const Alphabet& alphabet() {
  static const Alphabet instance;
  return instance;
}

}  // namespace

std::string_view byte_to_alphabet(uint8_t byte) { return alphabet().text_of[byte]; }

int alphabet_to_byte(uint32_t code_point) {
  const auto& byte_of = alphabet().byte_of;
  return code_point < byte_of.size() ? byte_of[code_point] : -1;
}

std::string to_alphabet(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size() + bytes.size() / 4);
  for (char c : bytes) out += byte_to_alphabet(static_cast<uint8_t>(c));
  return out;
}

std::string from_alphabet(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Utf8Step step = utf8_step(text);
    const int byte = step.kind == Utf8Kind::character ? alphabet_to_byte(utf8_decode(text)) : -1;
    if (byte >= 0) {
      out += static_cast<char>(byte);
    } else {
      out += text.substr(0, step.n_bytes);
    }
    text.remove_prefix(step.n_bytes);
  }
  return out;
}

}  // namespace sluice::text
