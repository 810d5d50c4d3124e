#include "base/text.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(Printable, KeepsTextOfAllScripts) {
  EXPECT_EQ(printable("blk.3.ffn_up_exps.weight"), "blk.3.ffn_up_exps.weight");
  EXPECT_EQ(printable("модель 模型 🙂"), "модель 模型 🙂");
}

TEST(Printable, EscapesWhatATerminalWouldObey) {
  EXPECT_EQ(printable("a\x1b[31mb"), "a\\x1b[31mb");
  EXPECT_EQ(printable("a\nb\r\t"), "a\\nb\\r\\t");
  EXPECT_EQ(printable(std::string_view("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(printable("\x7f"), "\\x7f");
  EXPECT_EQ(printable("\xc2\x9b"), "\\x9b");          // a control character of two bytes
  EXPECT_EQ(printable("\xe2\x80\xae"), "\\u{202e}");  // turns the direction of the text
  EXPECT_EQ(printable("it's\\"), "it\\'s\\\\");
}

TEST(Printable, EscapesInvalidBytes) {
  EXPECT_EQ(printable("a\xff"), "a\\xff");
  EXPECT_EQ(printable("\xe2\x82"), "\\xe2\\x82");                    // cut short
  EXPECT_EQ(printable("\xc0\xaf"), "\\xc0\\xaf");                    // overlong
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");           // a surrogate
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");  // past the last code point
}

TEST(Printable, Shortens) {
  EXPECT_EQ(printable(std::string(80, 'x')), std::string(80, 'x'));
  EXPECT_EQ(printable(std::string(1000, 'x')), std::string(80, 'x') + "...");
  EXPECT_EQ(printable("éé", 3), "é...");
  EXPECT_LE(printable(std::string(1000, '\x01')).size(), 83u);
}

TEST(Printable, PathsKeepTheirEnd) {
  const std::string path = std::string(5000, 'd') + "/model.gguf";
  EXPECT_TRUE(printable_path(path).ends_with("/model.gguf"));
  EXPECT_LT(printable_path(path).size(), 500u);
  EXPECT_EQ(printable_path("/tmp/модель.gguf"), "/tmp/модель.gguf");
}

TEST(Utf8Length, OfEachKind) {
  char32_t code = 0;
  EXPECT_EQ(utf8_length("🙂", 0, &code), 4u);
  EXPECT_EQ(code, U'🙂');
  EXPECT_EQ(utf8_length("é", 1), 0u);
  EXPECT_EQ(utf8_length("", 0), 0u);
  EXPECT_EQ(utf8_length(std::string_view("\0", 1), 0), 1u);
}

}  // namespace
}  // namespace sluice
