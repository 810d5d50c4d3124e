// Layout panel16: the rows of a quantised matrix in groups of 16 (the last group padded with zero rows), interleaved so
// that one vector register holds the same four columns of 16 rows, as integer dot products with 8-bit activations want
// them.
//
// A panel is as many bytes as its 16 rows in the file. Block b holds columns 32b .. 32b + 31; "lane r" is 4 bytes of
// row r.
//   Q4_0: quants, 256 bytes per block: 4 vectors of 16 lanes; byte i of lane r in vector j = weight 32b + 4j + i in the
//   low nibble
//         and weight 32b + 16 + 4j + i in the high nibble (0 .. 15, value + 8). After the quants of all blocks: scales,
//         f16 [block][16].
//   Q8_0: quants, 512 bytes per block: 8 vectors; byte i of lane r in vector j = weight 32b + 4j + i, plus 128
//   (unsigned).
//         Then scales, f16 [block][16].
//   Q6_K: quants, 384 bytes per block: 4 vectors of low nibbles as in Q4_0, then 2 vectors of high bits: bits 2q, 2q +
//   1 of byte i of
//         lane r in vector h belong to weight 32b + 16h + 4q + i (0 .. 63 with the nibble, value + 32).
//         Then scales, int8 [16 columns' group][16], then super-scales, f16 [256 columns' group][16].
//   Q4_K: quants as Q4_0 (0 .. 15). Then the 12 bytes of 6-bit scales and mins (fit.h) of each 256 columns, [12][16],
//         then d and dmin, f16 [256 columns' group][2][16].
//   Q5_K: quants, 320 bytes per block: 4 vectors of low nibbles as in Q4_0, then one of high bits: bit j of byte i of
//         lane r belongs to weight 32b + 4j + i. Then as Q4_K.
//   Q4_1: quants as Q4_0 (0 .. 15), Q5_0 and Q5_1: as Q5_K. Then Q5_0: scales, f16 [block][16]; Q4_1 and Q5_1: d and m,
//         f16 [block][2][16].
//   IQ4_NL: as Q4_0; the nibbles choose from the table of iq4_nl.h.
//   MXFP4: quants as Q4_0, which choose from the table of mxfp4.h. Then scales, int8 [block][16]: powers of two.
//
// The product with a q8 row (kernels/lib/q8.h) is a sum over groups of columns in ascending order, by fused
// multiply-adds:
//   Q4_0, Q5_0, Q8_0, IQ4_NL, MXFP4: acc = fma(float(sum of w * q over the block), d_w * d_x, acc)
//   Q6_K:       acc = fma(float(sum of w * q over 16 columns), (d_w * float(scale)) * d_x, acc)
//   Q4_K, Q5_K: acc = fma(float(sum of w * q over the block), (d_w * float(scale)) * d_x, acc), and then
//               acc = fma(float(-sum of q over the block), (dmin * float(min)) * d_x, acc)
//   Q4_1, Q5_1: likewise with d_w and -m
// starting from 0: the same bits on every tier and for every number of rows and tokens.
#pragma once
#include <cstddef>
#include <cstdint>

#include "sluice/type.h"

namespace sluice::quant {

inline constexpr uint32_t kPanelRows = 16;

bool has_panel16(Type type);
// Bytes of a matrix of n_rows rows of k weights, the last panel padded.
uint64_t panel16_bytes(Type type, uint64_t n_rows, uint64_t k);
// Packs rows as in the file; `panels` holds panel16_bytes. Rows of one panel are read together: call with whole panels
// to split work.
void pack_panel16(Type type, const std::byte* rows, uint64_t n_rows, uint64_t k, std::byte* panels);
// One row back as floats, for look-ups and tests.
void panel16_row(Type type, const std::byte* panels, uint64_t row, uint64_t k, float* out);
// One row back as integers: weight c = codes[c] * scales[c / group] - mins[c / group]. `codes` holds k values, `scales`
// k / 16, `mins` k / 32.
struct PanelGroups {
  uint32_t n_columns;  // 16 for Q6_K, else 32
  bool has_mins;       // else `mins` is untouched
};
PanelGroups panel16_codes(Type type, const std::byte* panels, uint64_t row, uint64_t k, int8_t* codes, float* scales,
                          float* mins);

}  // namespace sluice::quant
