// The element types of GGUF tensors. Values are the file format's own type ids.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace sluice {

enum class Type : uint32_t {
#define SLUICE_TYPE(name, id, block, bytes, header) name = id,
#include "sluice/types.inc"
#undef SLUICE_TYPE
};

struct TypeInfo {
  Type type;
  std::string_view name;  // as files and users spell it: "Q4_0"
  uint32_t block;         // weights per block
  uint32_t block_bytes;   // bytes per block
};

// nullptr where the id names no type that Sluice knows.
const TypeInfo* find_type(uint32_t id);
const TypeInfo* find_type(std::string_view name);
const TypeInfo& type_info(Type type);
// The published name of a type id, also of one that Sluice cannot compute with ("IQ2_XXS"); else "type N" for N < 256,
// and "an unknown type" above.
std::string_view foreign_type_name(uint32_t id);

}  // namespace sluice
