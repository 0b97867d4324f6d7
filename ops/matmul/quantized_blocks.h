/* Matrices of weights that are quantized in blocks along their columns: the layout of BlockQuantizedGemm's operands,
 * the same for every CPU.
 *
 * A matrix of k rows and n columns lies in panels of 16 columns, as those of ops/matmul/packed.h do. An element is
 * scale * (code - offset): its code is a number of 4 or 8 bits, scale and offset are those of its column's block of
 * `block` rows; without offsets they are 8 or 128, the middle of the codes. The last block is whole: codes that fill it
 * up are the middle, and so do columns that fill up the last panel, whose scales are zero.
 *
 * Codes are u8[panels, lines, 64]. A line is one of the cache and holds 32 / bits rows of a panel, 4 bytes for each
 * column: those of 8 bits one behind the other, of 4 bits rows 0 to 3 in the low halves of the bytes and rows 4 to 7 in
 * the high ones. So a lane of a vector is a column, whether its rows are brought to f32 one by one or multiplied four
 * at a time as integers. Scales and offsets are [panels, blocks, 16]. */
#ifndef XCVM_OPS_MATMUL_QUANTIZED_BLOCKS_H
#define XCVM_OPS_MATMUL_QUANTIZED_BLOCKS_H

#include "base/dtype.h"
#include "ops/matmul/packed.h"

enum {
    XCVM_QBLOCKS_LINE = 64,      /* bytes of a line */
    XCVM_QBLOCKS_LEAST = 16,     /* blocks are a multiple of this, */
    XCVM_QBLOCKS_MOST = 1 << 16, /* and so long that a sum of products of bytes fits in 32 bits */
    XCVM_QBLOCKS_USUAL = 32      /* rows of a block where the compiler quantizes */
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
/* The bit of a lane's 32 at which the code of row `row` of a line begins. */
static inline unsigned xcvm_qblocks_bit(size_t row) { return (unsigned)((row & 3) * 8 + (row >> 2) * 4); }
/* Where the scale and the offset of element (p, j) are. */
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
/* Makes all codes the middle. */
void xcvm_qblocks_clear(const xcvm_qblocks *b, uint8_t *codes);
/* Sets the code of element (p, j), which is the middle. */
static inline void xcvm_qblocks_set(const xcvm_qblocks *b, size_t p, size_t j, unsigned code, uint8_t *codes)
{
    const size_t rows = xcvm_qblocks_rows(b), line = j / XCVM_PACKED_COLUMNS * xcvm_qblocks_lines(b) + p / rows;
    const unsigned bit = xcvm_qblocks_bit(p % rows), middle = 1u << (b->bits - 1);
    uint8_t *at = codes + line * XCVM_QBLOCKS_LINE + j % XCVM_PACKED_COLUMNS * 4 + bit / 8;
    *at = (uint8_t)(*at ^ ((code ^ middle) << bit % 8));
}

/* ---- Rounding weights ---- */

typedef enum xcvm_qblocks_form {
    XCVM_QBLOCKS_SYMMETRIC, /* no offsets: scale = (value of greatest magnitude) / -8 in 4 bits, greatest / 127 in 8 */
    XCVM_QBLOCKS_ASYMMETRIC /* scale = range / greatest code, offset = the code of zero, which the range holds */
} xcvm_qblocks_form;

/* Codes, scale (an f16 number) and offset of `count` weights that lie `stride` apart and are finite; false if the scale
 * is beyond f16. The error of a weight is at most half a scale; a scale that f16 would make zero is its least number.
 */
bool xcvm_qblocks_round(const float *w, size_t count, size_t stride, unsigned bits, xcvm_qblocks_form form,
                        uint8_t *codes, float *scale, unsigned *offset);

#endif
