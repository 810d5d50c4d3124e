// The scalar codec of every type: the reference that all kernels are checked against.
#pragma once
#include <cstddef>

#include "sluice/type.h"

namespace sluice::quant {

// Rows of n weights; n is a multiple of the type's block. Rows need no alignment. A weight that is not finite, or a
// scale beyond the range of f16, gives a block that decodes to something not finite or clipped: check before
// quantising.
struct Codec {
  void (*dequantize)(const std::byte* in, float* out, size_t n);
  void (*quantize)(const float* x, std::byte* out, size_t n);  // nullptr: the type is only read
};

const Codec& codec(Type type);

// Bytes of a row of n weights.
inline size_t row_bytes(Type type, size_t n) {
  const TypeInfo& info = type_info(type);
  return n / info.block * info.block_bytes;
}

}  // namespace sluice::quant
