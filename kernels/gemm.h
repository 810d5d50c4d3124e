// gemv for many rows: the same sums in the same order, in tiles of rows of W times rows of x. Grid: (ceil(m / 16),
// ceil(rows / 16)).
// Matrix variant (backend.h): x is f16 rows (lib/f16_row.h), k a multiple of 32. Grid: (ceil(m / 128), ceil(rows /
// 128)).
#pragma once
#include "gemv.h"

KERNELS_BEGIN

typedef GemvArgs GemmArgs;

KERNELS_END
