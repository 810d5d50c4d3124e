// The alphabet of byte-level vocabularies: each byte is written as one printable character, so that texts of tokens
// hold neither spaces nor control characters. Printable bytes of Latin-1 stand for themselves, the others for U+0100
// and up.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace sluice::text {

std::string_view byte_to_alphabet(uint8_t byte);
// -1 for a character that is not in the alphabet.
int alphabet_to_byte(uint32_t code_point);

// Bytes to alphabet and back. Characters outside of the alphabet stay as they are, so do bytes that are not UTF-8.
std::string to_alphabet(std::string_view bytes);
std::string from_alphabet(std::string_view text);

}  // namespace sluice::text
