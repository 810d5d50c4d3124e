#include "support/source_dir.h"

namespace sluice::test {

std::filesystem::path source_dir() { return SLUICE_SOURCE_DIR; }

}  // namespace sluice::test
