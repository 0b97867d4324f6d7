/* Products of rows that are rounded to 8 bits, with a scale for each block, with weights that are quantized in blocks:
 * sums within a block are of integers, and exact. */
#ifndef XCVM_OPS_MATMUL_SIMD_QUANTIZED_BLOCKS_INTEGERS_H
#define XCVM_OPS_MATMUL_SIMD_QUANTIZED_BLOCKS_INTEGERS_H

#include "ops/matmul/simd/quantized_blocks_row.h"

/* Rows that share one reading of a panel: as many as there are registers for. */
enum { XCVM_QBLOCKS_GROUP = XCVM_LANES == 16 ? 12 : 6 };

/* How many of so many rows make a group. */
#define xcvm_qblocks_group XCVM_PER_ISA(xcvm_qblocks_group)
size_t xcvm_qblocks_group(size_t rows);

/* Words of 32 bits that hold four numbers of a row: one where this instruction set on this processor multiplies and
 * adds four bytes at a time, else two, for pairs of 16-bit numbers. Results are the same. Asking may take a
 * microsecond. */
#define xcvm_qblocks_quad_words XCVM_PER_ISA(xcvm_qblocks_quad_words)
size_t xcvm_qblocks_quad_words(void);

/* Words that a row takes, and rounding a group of rows, one behind the other at `a`, into so many words of each. A
 * block with a number that is not finite gets a scale that is NaN. */
#define xcvm_qblocks_row_words XCVM_PER_ISA(xcvm_qblocks_row_words)
size_t xcvm_qblocks_row_words(const xcvm_qblocks *b, size_t quad_words);
#define xcvm_qblocks_round_rows XCVM_PER_ISA(xcvm_qblocks_round_rows)
void xcvm_qblocks_round_rows(const xcvm_qblocks *b, const float *a, size_t rows, size_t quad_words, int32_t *group);

/* y[r][j] = the sum for column j of the panel and row r of the group. */
#define xcvm_qblocks_panel_integers XCVM_PER_ISA(xcvm_qblocks_panel_integers)
void xcvm_qblocks_panel_integers(const xcvm_qblocks_matrix *w, size_t panel, const int32_t *group, size_t rows,
                                 size_t quad_words, float y[][XCVM_PACKED_COLUMNS]);

#endif
