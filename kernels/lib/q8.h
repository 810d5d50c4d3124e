// Activations in 8 bits, for integer dot products. A row of k values (k a multiple of 32) is
//   int8  q[k]          q = round-to-nearest-even(x * (127 / max |x|)) over the 32 values; 0 where all are 0
//   float d[k / 32]     d = max |x| / 127; where 127 / max |x| overflows (values below 4e-37) all 32 count as 0
//   int32 m8[k / 16]    -8 * (sum of the 16 values of q): takes the offset of unsigned weights away
// one array after the other, in f32 arithmetic (127 / max first, then one product each). A value that is not finite
// makes its d NaN, and so the dot products that use it; its q are 0.
#pragma once
#include "args.h"

#if defined(__SLANG__) && !defined(Q8_MODULE)
import q8;
#else

KERNELS_BEGIN

#ifdef __SLANG__
public
uint q8_row_bytes(uint k) { return k + k / 8 + k / 4; }
#else
constexpr uint64_t q8_row_bytes(uint64_t k) { return k + k / 8 + k / 4; }
#endif

KERNELS_END
#endif
