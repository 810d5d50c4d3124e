#include "quant/quant.h"

#include <bit>
#include <cassert>

#include "quant/all_types.h"

namespace sluice::quant {

static_assert(std::endian::native == std::endian::little, "rows are read as they lie in the file");

#define SLUICE_TYPE(name, id, block, bytes, header) \
  static_assert(name::kBlock == (block) && sizeof(name::Block) == (bytes), "types.inc and " header " differ");
#include "sluice/types.inc"
#undef SLUICE_TYPE

const Codec& codec(Type type) {
  switch (type) {
#define SLUICE_TYPE(name, id, block, bytes, header)                             \
  case Type::name: {                                                            \
    static constexpr Codec kCodec = {name::dequantize_row, name::quantize_row}; \
    return kCodec;                                                              \
  }
#include "sluice/types.inc"
#undef SLUICE_TYPE
  }
  assert(!"not a type");
  static constexpr Codec kNone = {};
  return kNone;
}

}  // namespace sluice::quant
