// Tests that need a GPU: skipped with the reason where there is none, failed where SLUICE_REQUIRE names the backend.
#pragma once
#include <gtest/gtest.h>

#include <string>

namespace sluice::test {

// Why `backend` cannot be opened here; empty where it can.
std::string why_no_backend(const std::string& backend);
// SLUICE_REQUIRE names it: "vulkan", or "vulkan,cuda".
bool backend_required(const std::string& backend);

}  // namespace sluice::test

#define SLUICE_NEED_VULKAN()                                                                      \
  do {                                                                                            \
    if (const std::string why = ::sluice::test::why_no_backend("vulkan"); !why.empty()) {         \
      if (::sluice::test::backend_required("vulkan")) FAIL() << "SLUICE_REQUIRE=vulkan: " << why; \
      GTEST_SKIP() << why;                                                                        \
    }                                                                                             \
  } while (false)
