#pragma once
#include <filesystem>

namespace sluice::test {

// The checkout that this build is of.
std::filesystem::path source_dir();

}  // namespace sluice::test
