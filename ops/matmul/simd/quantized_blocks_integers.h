/* Products of 8-bit rows, with a scale per block, and block-quantized weights. Sums within a block are integer and
 * exact. */
#ifndef XCVM_OPS_MATMUL_SIMD_QUANTIZED_BLOCKS_INTEGERS_H
#define XCVM_OPS_MATMUL_SIMD_QUANTIZED_BLOCKS_INTEGERS_H

#include "ops/matmul/simd/quantized_blocks_row.h"

/* Rows that share one pass over a panel, limited by registers. */
enum { XCVM_QBLOCKS_GROUP = XCVM_LANES == 16 ? 12 : 6 };

/* Size of the next group for `rows` remaining rows. */
#define xcvm_qblocks_group XCVM_PER_ISA(xcvm_qblocks_group)
size_t xcvm_qblocks_group(size_t rows);

/* Number of 32-bit words for four numbers of a row: one if this instruction set on this CPU multiplies and adds four
 * bytes at a time, else two, for pairs of 16-bit numbers. Results are the same. The query may take a microsecond. */
#define xcvm_qblocks_quad_words XCVM_PER_ISA(xcvm_qblocks_quad_words)
size_t xcvm_qblocks_quad_words(void);

/* Words of a row; and rounding of a group of rows, contiguous at `a`, to that many words each. A block with a
 * non-finite number gets the scale NaN. */
#define xcvm_qblocks_row_words XCVM_PER_ISA(xcvm_qblocks_row_words)
size_t xcvm_qblocks_row_words(const xcvm_qblocks *b, size_t quad_words);
#define xcvm_qblocks_round_rows XCVM_PER_ISA(xcvm_qblocks_round_rows)
void xcvm_qblocks_round_rows(const xcvm_qblocks *b, const float *a, size_t rows, size_t quad_words, int32_t *group);

/* y[r][j] = the sum for column j of the panel and row r of the group. */
#define xcvm_qblocks_panel_integers XCVM_PER_ISA(xcvm_qblocks_panel_integers)
void xcvm_qblocks_panel_integers(const xcvm_qblocks_matrix *w, size_t panel, const int32_t *group, size_t rows,
                                 size_t quad_words, float y[][XCVM_PACKED_COLUMNS]);

#endif
