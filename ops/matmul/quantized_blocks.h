/* Weight matrices quantized in blocks along columns: the operand layout of BlockQuantizedGemm, the same for every CPU.
 *
 * A matrix of k rows and n columns is stored in panels of 16 columns, as in ops/matmul/packed.h. An element is scale *
 * (code - offset). Its code has 4 or 8 bits. Scale and offset belong to its column's block of `block` rows; without
 * offsets they are 8 or 128, the middle code. The last block is padded with middle codes, as are the columns that pad
 * the last panel, whose scales are zero.
 *
 * Codes are u8[panels, lines, 64]. A line is a cache line and has 32 / bits rows of a panel, 4 bytes per column: 8-bit
 * codes in row order, or 4-bit codes with rows 0 to 3 in the low halves of the bytes and rows 4 to 7 in the high
 * halves. So a vector lane is a column, both for conversion to f32 and for multiplying four rows at a time as integers.
 * Scales and offsets are [panels, blocks, 16]. */
#ifndef XCVM_OPS_MATMUL_QUANTIZED_BLOCKS_H
#define XCVM_OPS_MATMUL_QUANTIZED_BLOCKS_H

#include "base/dtype.h"
#include "ops/matmul/packed.h"

enum {
    XCVM_QBLOCKS_LINE = 64,      /* bytes of a line */
    XCVM_QBLOCKS_LEAST = 16,     /* block sizes are a multiple of this */
    XCVM_QBLOCKS_MOST = 1 << 16, /* maximum block size, so that a sum of products of bytes fits in 32 bits */
    XCVM_QBLOCKS_USUAL = 32      /* block size that the compiler uses */
};

typedef struct xcvm_qblocks {
    size_t k, n, block;
    unsigned bits; /* 4 or 8 */
} xcvm_qblocks;

static inline size_t xcvm_qblocks_count(const xcvm_qblocks *b) { return b->k / b->block + (b->k % b->block != 0); }
static inline size_t xcvm_qblocks_panels(const xcvm_qblocks *b) { return xcvm_packed_panels(b->n); }
/* Rows of a line, and lines of a panel. */
static inline size_t xcvm_qblocks_rows(const xcvm_qblocks *b) { return 32 / b->bits; }
static inline size_t xcvm_qblocks_lines(const xcvm_qblocks *b)
{
    return xcvm_qblocks_count(b) * (b->block / xcvm_qblocks_rows(b));
}
/* First bit, in a lane's 32, of the code of row `row` of a line. */
static inline unsigned xcvm_qblocks_bit(size_t row) { return (unsigned)((row & 3) * 8 + (row >> 2) * 4); }
/* Index of the scale and the offset of element (p, j). */
static inline size_t xcvm_qblocks_scale_at(const xcvm_qblocks *b, size_t p, size_t j)
{
    return (j / XCVM_PACKED_COLUMNS * xcvm_qblocks_count(b) + p / b->block) * XCVM_PACKED_COLUMNS +
           j % XCVM_PACKED_COLUMNS;
}

/* Bytes of the codes. */
static inline size_t xcvm_qblocks_bytes(const xcvm_qblocks *b)
{
    return xcvm_qblocks_panels(b) * xcvm_qblocks_lines(b) * XCVM_QBLOCKS_LINE;
}
/* Sets all codes to the middle code. */
void xcvm_qblocks_clear(const xcvm_qblocks *b, uint8_t *codes);
/* Sets the code of element (p, j), which must be the middle code before. */
static inline void xcvm_qblocks_set(const xcvm_qblocks *b, size_t p, size_t j, unsigned code, uint8_t *codes)
{
    const size_t rows = xcvm_qblocks_rows(b), line = j / XCVM_PACKED_COLUMNS * xcvm_qblocks_lines(b) + p / rows;
    const unsigned bit = xcvm_qblocks_bit(p % rows), middle = 1u << (b->bits - 1);
    uint8_t *at = codes + line * XCVM_QBLOCKS_LINE + j % XCVM_PACKED_COLUMNS * 4 + bit / 8;
    *at = (uint8_t)(*at ^ ((code ^ middle) << bit % 8));
}

/* ---- Rounding weights ---- */

typedef enum xcvm_qblocks_form {
    XCVM_QBLOCKS_SYMMETRIC, /* no offsets: scale = (value of largest magnitude) / -8 for 4 bits, largest / 127 for 8 */
    XCVM_QBLOCKS_ASYMMETRIC /* scale = range / largest code; offset = code of zero, which the range includes */
} xcvm_qblocks_form;

/* Computes codes, scale (an f16 number) and offset of `count` finite weights with distance `stride`. Returns false if
 * the scale exceeds f16. The error of a weight is at most half a scale. A scale that would underflow is the smallest
 * f16 number. */
bool xcvm_qblocks_round(const float *w, size_t count, size_t stride, unsigned bits, xcvm_qblocks_form form,
                        uint8_t *codes, float *scale, unsigned *offset);

#endif
