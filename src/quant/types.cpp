#include <array>
#include <cassert>
#include <string>

#include "quant/foreign.h"
#include "sluice/type.h"

namespace sluice {
namespace {

constexpr TypeInfo kTypes[] = {
#define SLUICE_TYPE(name, id, block, bytes, header) {Type::name, #name, block, bytes},
#include "sluice/types.inc"
#undef SLUICE_TYPE
};

constexpr quant::ForeignType kForeignTypes[] = {
#define SLUICE_FOREIGN_TYPE(name, id, block, bytes) {id, #name, block, bytes},
#include "quant/foreign_types.inc"
#undef SLUICE_FOREIGN_TYPE
};

}  // namespace

const TypeInfo* find_type(uint32_t id) {
  for (const TypeInfo& info : kTypes) {
    if (static_cast<uint32_t>(info.type) == id) return &info;
  }
  return nullptr;
}

const TypeInfo* find_type(std::string_view name) {
  for (const TypeInfo& info : kTypes) {
    if (info.name == name) return &info;
  }
  return nullptr;
}

const TypeInfo& type_info(Type type) {
  const TypeInfo* info = find_type(static_cast<uint32_t>(type));
  assert(info != nullptr);
  return *info;
}

std::string_view foreign_type_name(uint32_t id) {
  if (const TypeInfo* info = find_type(id)) return info->name;
  if (const quant::ForeignType* info = quant::find_foreign_type(id)) return info->name;
  // A view needs text that lives on; ids are small, so only a hostile file meets the last line.
  static const auto kNumbered = [] {
    std::array<std::string, 256> names;
    for (size_t i = 0; i < names.size(); ++i) names[i] = "type " + std::to_string(i);
    return names;
  }();
  return id < kNumbered.size() ? std::string_view(kNumbered[id]) : "an unknown type";
}

const quant::ForeignType* quant::find_foreign_type(uint32_t id) {
  for (const ForeignType& info : kForeignTypes) {
    if (info.id == id) return &info;
  }
  return nullptr;
}

}  // namespace sluice
