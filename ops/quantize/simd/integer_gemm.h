/* Products of byte matrices minus their zero points, with 32-bit sums: c = (a - a_zero) * (b - b_zero), modulo 2^32.
 * Differences are 16-bit integers, and two neighbors along k are multiplied and added at a time. CPUs with byte
 * instructions use four bytes at a time, and zero points are corrected afterwards. */
#ifndef XCVM_OPS_QUANTIZE_SIMD_INTEGER_GEMM_H
#define XCVM_OPS_QUANTIZE_SIMD_INTEGER_GEMM_H

#include "ops/util/kernel.h"
#include "ops/matmul/simd/gemm.h"

#include <float.h>

typedef struct xcvm_integer_gemm xcvm_integer_gemm;

/* Returns the bytes of row p, columns [n0, n1), of g's matrix b: in `buffer`, or elsewhere if they are whole vectors.
 * Padding is the zero point. */
typedef const uint8_t *(*xcvm_integer_row)(const xcvm_integer_gemm *g, size_t p, size_t n0, size_t n1, uint8_t *buffer);
/* Takes the finished sums of row i, columns [n0, n1). */
typedef void (*xcvm_integer_finish)(const xcvm_integer_gemm *g, size_t i, size_t n0, size_t n1, const int32_t *sums);

struct xcvm_integer_gemm {
    size_t m, n, k;
    const void *a, *b; /* bytes; rows of a are k apart */
    bool a_signed, b_signed;
    const int16_t *a_zero; /* m numbers */
    const int16_t *b_zero; /* n numbers; NULL: b_zero_of_all */
    int16_t b_zero_of_all;
    xcvm_integer_row row;
    int32_t *c;                 /* of all products, contiguous; NULL: `finish` takes the sums */
    xcvm_integer_finish finish; /* may be NULL */
    const void *context;        /* of row and finish */
    size_t item;
};

typedef struct xcvm_integer_batch {
    xcvm_integer_gemm shape;
    size_t count;
    void (*at)(const void *context, size_t index, xcvm_integer_gemm *g); /* sets the operands of product `index` */
} xcvm_integer_batch;

/* Bytes of 64-byte aligned scratch for a run on `threads` threads. */
#define xcvm_integer_gemm_scratch XCVM_PER_ISA(xcvm_integer_gemm_scratch)
size_t xcvm_integer_gemm_scratch(const xcvm_integer_batch *batch, int threads);
#define xcvm_integer_gemm_run XCVM_PER_ISA(xcvm_integer_gemm_run)
xcvm_status xcvm_integer_gemm_run(const xcvm_kernel *k, const xcvm_integer_batch *batch, void *scratch);

/* Returns zero point `index` of a byte tensor, which may have a single element, or be NULL. */
static inline int16_t xcvm_zero_point(const xcvm_value *zero_point, size_t index)
{
    if (zero_point == NULL)
        return 0;
    if (xcvm_element_count(zero_point) == 1)
        index = 0;
    return zero_point->dtype == XCVM_I8 ? XCVM_CDATA(int8_t, zero_point)[index]
                                        : XCVM_CDATA(uint8_t, zero_point)[index];
}

/* Quantizes sums: sums[i] * scale, or scale * scales[i], rounded to nearest even, plus zero, saturated. A scale beyond
 * f32 becomes the largest f32, so that nonzero sums saturate and 0 stays 0; with infinity it would be NaN. */
static inline void xcvm_quantize_sums(const int32_t *sums, size_t count, float scale, const float *scales, int16_t zero,
                                      bool is_signed, void *to)
{
    const float low = (float)((is_signed ? INT8_MIN : 0) - zero),
                high = (float)((is_signed ? INT8_MAX : UINT8_MAX) - zero);
    uint8_t *bytes = to;
    for (size_t i = 0; i < count; i++) {
        const float by = scales != NULL ? scale * scales[i] : scale;
        float v = (float)sums[i] * (by < FLT_MAX ? by : FLT_MAX);
        v = v > low ? v : low; /* also replaces NaN */
        v = v < high ? v : high;
        /* Adding this constant leaves no fraction bits. */
        const float rounded = (v + 12582912.0f) - 12582912.0f;
        bytes[i] = (uint8_t)((int32_t)rounded + zero);
    }
}

#endif
