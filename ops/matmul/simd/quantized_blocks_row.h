/* Products of few rows with block-quantized weights (ops/matmul/quantized_blocks.h): the codes are streamed once and
 * converted to f32 in registers. */
#ifndef XCVM_OPS_MATMUL_SIMD_QUANTIZED_BLOCKS_ROW_H
#define XCVM_OPS_MATMUL_SIMD_QUANTIZED_BLOCKS_ROW_H

#include "ops/util/kernel.h"
#include "ops/matmul/quantized_blocks.h"
#include "ops/simd/half_lanes.h"

/* Rows of a that are multiplied with a panel at a time. */
enum { XCVM_QBLOCKS_TALL = 4, XCVM_QBLOCKS_VECTORS = XCVM_PACKED_COLUMNS / XCVM_LANES };

typedef struct xcvm_qblocks_matrix {
    xcvm_qblocks layout;
    const uint8_t *codes;
    const void *scales;
    xcvm_dtype scale_dtype;  /* f16, bf16 or f32 */
    const void *offsets;     /* NULL: the middle code */
    xcvm_dtype offset_dtype; /* u8 or f32 */
} xcvm_qblocks_matrix;

/* Makes it from operands whose shapes were checked. */
static inline xcvm_qblocks_matrix xcvm_qblocks_matrix_of(const xcvm_value *codes, const xcvm_value *scales,
                                                         const xcvm_value *offsets, size_t depth, size_t columns,
                                                         int64_t bits, int64_t block_size)
{
    return (xcvm_qblocks_matrix){
        .layout = {.k = depth, .n = columns, .block = (size_t)block_size, .bits = (unsigned)bits},
        .codes = codes->data,
        .scales = scales->data,
        .scale_dtype = (xcvm_dtype)scales->dtype,
        .offsets = offsets != NULL ? offsets->data : NULL,
        .offset_dtype = offsets != NULL ? (xcvm_dtype)offsets->dtype : XCVM_U8};
}

/* A row of a, padded with zeros to whole blocks. */
typedef struct xcvm_qblocks_row {
    float *x;
    float *x_sums; /* one sum per block */
} xcvm_qblocks_row;

/* Bytes of scratch of a row, a multiple of XCVM_ALIGNMENT, and the row stored there. */
static inline size_t xcvm_qblocks_row_bytes(const xcvm_qblocks *b)
{
    const size_t blocks = xcvm_qblocks_count(b);
    return xcvm_round_up((blocks * b->block + blocks) * sizeof(float), XCVM_ALIGNMENT);
}
static inline xcvm_qblocks_row xcvm_qblocks_row_at(const xcvm_qblocks *b, void *scratch)
{
    return (xcvm_qblocks_row){.x = scratch, .x_sums = (float *)scratch + xcvm_qblocks_count(b) * b->block};
}
#define xcvm_qblocks_row_make XCVM_PER_ISA(xcvm_qblocks_row_make)
void xcvm_qblocks_row_make(const xcvm_qblocks *b, const float *a, void *scratch, xcvm_qblocks_row *row);

/* y[r][j] = the sum for column j of the panel, for `count` rows, at most XCVM_QBLOCKS_TALL. */
#define xcvm_qblocks_panel_f32 XCVM_PER_ISA(xcvm_qblocks_panel_f32)
void xcvm_qblocks_panel_f32(const xcvm_qblocks_matrix *w, size_t panel, const xcvm_qblocks_row *rows, size_t count,
                            float y[][XCVM_PACKED_COLUMNS]);

/* Offsets from `at`; without offsets, the middle of codes of `bits` bits. */
XCVM_INLINE xcvm_lanes xcvm_qblocks_offsets(const xcvm_qblocks_matrix *w, const unsigned bits, size_t at)
{
    if (w->offsets == NULL)
        return xcvm_lanes_all((float)(1 << (bits - 1)));
    if (w->offset_dtype == XCVM_F32)
        return xcvm_lanes_load((const float *)w->offsets + at);
    const uint8_t *bytes = (const uint8_t *)w->offsets + at;
#if defined(__AVX512F__)
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)bytes)));
#elif defined(__AVX2__)
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)bytes)));
#else
    xcvm_lanes numbers;
    for (size_t i = 0; i < XCVM_LANES; i++)
        numbers[i] = (float)bytes[i];
    return numbers;
#endif
}
XCVM_INLINE xcvm_lanes xcvm_qblocks_scales(const xcvm_qblocks_matrix *w, size_t at)
{
    const char *scales = w->scales;
    return w->scale_dtype == XCVM_F16    ? xcvm_lanes_load_f16(scales + at * 2)
           : w->scale_dtype == XCVM_BF16 ? xcvm_lanes_load_bf16(scales + at * 2)
                                         : xcvm_lanes_load((const float *)w->scales + at);
}

XCVM_INLINE size_t xcvm_qblocks_scale_bytes(const xcvm_qblocks_matrix *w) { return w->scale_dtype == XCVM_F32 ? 4 : 2; }

/* Loads a vector of a line. */
XCVM_INLINE xcvm_lanes_bits xcvm_qblocks_line(const uint8_t *from)
{
    typedef uint32_t line_at __attribute__((vector_size(4 * XCVM_LANES), aligned(4), may_alias));
    return *(const line_at *)(const void *)from;
}

/* Scaled codes used in products with few rows: codes of row `row` times xcvm_qblocks_multiple(row), minus an origin.
 * 4-bit codes are not shifted, so their bit position gives the multiple, and their origin is 0; anything else would
 * take too long. 8-bit codes are centered, which reduces rounding errors. */
XCVM_INLINE float xcvm_qblocks_multiple(const unsigned bits, size_t row)
{
    return bits == 4 && xcvm_qblocks_bit(row) != 28 ? (float)(1u << xcvm_qblocks_bit(row)) : 1.0f;
}
XCVM_INLINE float xcvm_qblocks_origin(const unsigned bits) { return bits == 4 ? 0.0f : 128.0f; }
XCVM_INLINE xcvm_lanes xcvm_qblocks_numbers(const unsigned bits, xcvm_lanes_bits line, const size_t row)
{
    const unsigned at = xcvm_qblocks_bit(row);
    if (bits == 4)
        return __builtin_convertvector((xcvm_lanes_mask)(at == 28 ? line >> 28 : line & (UINT32_C(15) << at)),
                                       xcvm_lanes);
    /* Inverting its top bit makes a code a two's complement number. */
    const xcvm_lanes_bits turned = line ^ UINT32_C(0x80808080);
    return __builtin_convertvector((xcvm_lanes_mask)(turned << (24 - at)) >> 24, xcvm_lanes);
}

#endif
