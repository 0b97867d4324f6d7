/* Products with weights that are quantized in blocks (ops/matmul/quantized_blocks.h describes the layout). */
#ifndef XC_BLOCKS_H
#define XC_BLOCKS_H

#include "compiler/export_c/c_runtime/numbers.h"

enum { XC_BLOCK_F32, XC_BLOCK_F16, XC_BLOCK_BF16, XC_BLOCK_U8 };

/* k rows and n columns, and the types of the scales and offsets. */
typedef struct xc_blocks {
    size_t rows, k, n, block;
    unsigned bits;
    int scale_type, offset_type;
    float low, high; /* results are clamped to */
} xc_blocks;

/* Halves of IEEE 754, and the first halves of f32. */
static float xc_half(uint16_t half, int type)
{
    const uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 31, fraction = half & 1023;
    uint32_t word = (uint32_t)half << 16;
    float v;
    if (type == XC_BLOCK_F16 && exponent == 0) {
        v = (float)fraction * 5.9604644775390625e-8f;
        return sign != 0 ? -v : v;
    }
    if (type == XC_BLOCK_F16)
        word = sign | (exponent == 31 ? 0x7f800000u : (exponent + 112) << 23) | fraction << 13;
    memcpy(&v, &word, sizeof v);
    return v;
}

static float xc_block_number(const void *numbers, size_t at, int type)
{
    return type == XC_BLOCK_F32  ? ((const float *)numbers)[at]
           : type == XC_BLOCK_U8 ? (float)((const uint8_t *)numbers)[at]
                                 : xc_half(((const uint16_t *)numbers)[at], type);
}

/* The codes of row q of a line of 16 columns, less the middle of the codes. */
static inline void xc_block_codes(const uint8_t *line, unsigned bits, size_t q, int32_t codes[16])
{
    const unsigned shift = (unsigned)(q >> 2) * 4, mask = (1u << bits) - 1;
#if defined(XC_PORTABLE)
    for (size_t j = 0; j < 16; j++)
        codes[j] = (int32_t)(line[4 * j + (q & 3)] >> shift & mask) - (1 << (bits - 1));
#else
    uint32_t words[16];
    memcpy(words, line, sizeof words);
    for (size_t j = 0; j < 16; j++)
        codes[j] = (int32_t)(words[j] >> (8 * (q & 3) + shift) & mask) - (1 << (bits - 1));
#endif
}

/* A block of a row in 8 bits: integers from -127 to 127, their scale, and their sum. A block with a non-finite element
 * has the scale NaN. */
static float xc_block_round(const float *a, size_t count, int8_t *q, int32_t *sum)
{
    float greatest = 0;
    int finite = 1;
    *sum = 0;
    for (size_t p = 0; p < count; p++) {
        const float v = a[p] < 0 ? -a[p] : a[p];
        finite = finite && v < INFINITY;
        greatest = v > greatest ? v : greatest;
    }
    const float inverse = finite && greatest >= 7.52316384526264e-37f ? 127.0f / greatest : 0.0f;
    for (size_t p = 0; p < count; p++) {
        q[p] = finite ? (int8_t)rintf(a[p] * inverse) : 0;
        *sum += q[p];
    }
    return finite ? greatest / 127.0f : NAN;
}

/* The other operand of blocks of rows: a row of floats, or a row that was rounded to 8 bits. */
typedef struct xc_block_row {
    const float *a;
    int8_t *q; /* NULL: a is not rounded */
    float *scales, *sums;
} xc_block_row;

/* total[j] += the products of block i of a row with those of a panel. */
static void xc_block_add(const xc_blocks *w, const xc_block_row *row, size_t i, const uint8_t *line, const void *scales,
                         const void *offsets, size_t at, float total[16])
{
    const size_t of_line = 32 / w->bits, first = i * w->block, rest = w->k - first;
    const size_t count = rest < w->block ? rest : w->block;
    const float middle = (float)(1 << (w->bits - 1));
    float sum[16] = {0}, x_sum = 0;
    int32_t whole[16] = {0}, code[16];
    for (size_t p = 0; p < count; p++) {
        xc_block_codes(line + p / of_line * 64, w->bits, p % of_line, code);
        if (row->q != NULL) {
            const int32_t by = row->q[first + p];
            for (size_t j = 0; j < 16; j++)
                whole[j] += by * code[j];
        } else {
            const float by = row->a[first + p];
            x_sum += by;
            for (size_t j = 0; j < 16; j++)
                sum[j] += by * (float)code[j];
        }
    }
    if (row->q != NULL)
        x_sum = row->sums[i];
    for (size_t j = 0; j < 16; j++) {
        float products = row->q != NULL ? (float)whole[j] * row->scales[i] : sum[j];
        if (offsets != NULL)
            products -= (xc_block_number(offsets, at + j, w->offset_type) - middle) * x_sum *
                        (row->q != NULL ? row->scales[i] : 1.0f);
        total[j] += xc_block_number(scales, at + j, w->scale_type) * products;
    }
}

/* y = a * w + c + z; c and z may be NULL. With `workspace`, rows of a are rounded to 8 bits block by block. */
static void xc_block_product(const xc_blocks *w, const float *a, const uint8_t *codes, const void *scales,
                             const void *offsets, const float *c, const float *z, float *y, float *workspace)
{
    const size_t blocks = (w->k + w->block - 1) / w->block, panels = (w->n + 15) / 16;
    const size_t lines = w->block * w->bits / 32;
    xc_block_row row = {a, NULL, workspace, workspace};
    for (size_t r = 0; r < w->rows; r++, row.a += w->k) {
        if (workspace != NULL) {
            row.sums = workspace + blocks;
            row.q = (int8_t *)(void *)(workspace + 2 * blocks);
        }
        for (size_t i = 0; workspace != NULL && i < blocks; i++) {
            const size_t first = i * w->block, rest = w->k - first;
            int32_t sum;
            row.scales[i] = xc_block_round(row.a + first, rest < w->block ? rest : w->block, row.q + first, &sum);
            row.sums[i] = (float)sum;
        }
        for (size_t panel = 0; panel < panels; panel++) {
            float total[16] = {0};
            for (size_t i = 0; i < blocks; i++)
                xc_block_add(w, &row, i, codes + (panel * blocks + i) * lines * 64, scales, offsets,
                             (panel * blocks + i) * 16, total);
            for (size_t j = 0; j < 16 && panel * 16 + j < w->n; j++) {
                const size_t column = panel * 16 + j, to = r * w->n + column;
                float v = total[j] + (c != NULL ? c[column] : 0.0f) + (z != NULL ? z[to] : 0.0f);
                v = v < w->low ? w->low : v;
                y[to] = v > w->high ? w->high : v;
            }
        }
    }
}

#endif
