// Activations for cooperative matrices. A row of k values is
//   f16 h[k, rounded up to 64]  x / 2^e, ties to even; zeros past k
//   float unit                  2^e: the largest finite |x| of the row divided by it lies in [2^13, 2^14), but e >=
//   -126
// and as many bytes again as make it a multiple of 32. So nothing overflows that F32 would hold, and small rows keep
// their precision. NaN and infinities stay what they are; a row of zeros has the unit 1.
#pragma once
#include "args.h"

#if defined(__SLANG__) && !defined(F16_ROW_MODULE)
import f16_row;
#else

KERNELS_BEGIN

#ifdef __SLANG__
public
uint f16_row_halves(uint k) { return (k + 63) / 64 * 64; }
public
uint f16_row_bytes(uint k) { return f16_row_halves(k) * 2 + 32; }
#else
constexpr uint64_t f16_row_halves(uint64_t k) { return (k + 63) / 64 * 64; }
constexpr uint64_t f16_row_bytes(uint64_t k) { return f16_row_halves(k) * 2 + 32; }
#endif

KERNELS_END
#endif
