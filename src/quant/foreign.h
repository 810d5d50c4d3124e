// Block sizes of published types that Sluice cannot compute with.
#pragma once
#include <cstdint>
#include <string_view>

namespace sluice::quant {

struct ForeignType {
  uint32_t id;
  std::string_view name;
  uint32_t block;        // weights per block
  uint32_t block_bytes;  // bytes per block
};

// nullptr where the id is not published, or is a type of types.inc and of no row in foreign_types.inc.
const ForeignType* find_foreign_type(uint32_t id);

}  // namespace sluice::quant
