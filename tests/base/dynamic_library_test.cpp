#include "base/dynamic_library.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(DynamicLibrary, AMissingOneIsAnErrorAndTheNextNameIsTried) {
  const char* const missing[] = {"libsluice-is-not-here.so.9", nullptr};
  const auto none = DynamicLibrary::open(missing);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Code::not_found);
  EXPECT_NE(none.error().message.find("libsluice-is-not-here"), std::string::npos);

  const char* const names[] = {"libsluice-is-not-here.so.9", "libm.so.6", nullptr};
  const auto library = DynamicLibrary::open(names);
  ASSERT_TRUE(library) << library.error().message;
  EXPECT_NE(library->symbol("cos"), nullptr);
  EXPECT_EQ(library->symbol("sluice_has_no_such_symbol"), nullptr);
}

}  // namespace
}  // namespace sluice
