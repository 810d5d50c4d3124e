#include "text/utf8.h"

#include <gtest/gtest.h>

#include "text/byte_alphabet.h"

namespace sluice::text {
namespace {

TEST(Utf8, well_formed_characters_and_their_edges) {
  for (std::string_view character :
       {std::string_view("\0", 1), std::string_view("\x7F"), std::string_view("\xC2\x80"), std::string_view("\xDF\xBF"),
        std::string_view("\xE0\xA0\x80"), std::string_view("\xED\x9F\xBF"), std::string_view("\xEE\x80\x80"),
        std::string_view("\xF0\x90\x80\x80"), std::string_view("\xF4\x8F\xBF\xBF")}) {
    const Utf8Step step = utf8_step(character);
    EXPECT_EQ(step.kind, Utf8Kind::character);
    EXPECT_EQ(step.n_bytes, character.size());
    std::string again;
    utf8_append(again, utf8_decode(character));
    EXPECT_EQ(again, character);
  }
}

TEST(Utf8, overlong_forms_surrogates_and_stray_bytes_are_invalid) {
  for (std::string_view bytes : {"\x80", "\xC0\x80", "\xC1\xBF", "\xE0\x9F\x80", "\xED\xA0\x80", "\xF0\x8F\x80\x80",
                                 "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF", "\xE2\x82x", "\xC3("}) {
    EXPECT_EQ(utf8_step(bytes).kind, Utf8Kind::invalid);
    EXPECT_EQ(utf8_step(bytes).n_bytes, 1);
  }
  for (std::string_view bytes : {"\xC3", "\xE2\x82", "\xF0\x9F\x98"}) {
    EXPECT_EQ(utf8_step(bytes).kind, Utf8Kind::incomplete);
    EXPECT_EQ(utf8_step(bytes).n_bytes, bytes.size());
  }
  EXPECT_EQ(utf8_valid_prefix("a\xC3\xA9\xFFz"), 3u);
}

TEST(ByteAlphabet, is_a_bijection_of_printable_characters) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  EXPECT_EQ(from_alphabet(to_alphabet(all)), all);
  EXPECT_EQ(to_alphabet(" \n\xAD"), "\xC4\xA0\xC4\x8A\xC5\x83");
  EXPECT_EQ(utf8_valid_prefix(to_alphabet(all)), to_alphabet(all).size());
  EXPECT_EQ(from_alphabet("\xE4\xB8\x80"), "\xE4\xB8\x80") << "no letter of the alphabet: stays";
}

}  // namespace
}  // namespace sluice::text
