// Counts what operator new hands out in this test program.
#pragma once
#include <cstdint>

namespace sluice::test {

// Bytes allocated since the program started; memory that was freed again stays in the count, so a difference is an
// upper bound of the memory in use.
uint64_t allocated_bytes();

}  // namespace sluice::test
