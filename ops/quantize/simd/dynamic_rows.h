/* f32 rows quantized by their own range, as by DynamicQuantizeLinear, and their products with packed s8 panels
 * (ops/quantize/quantized_panels.h). Sums are exact; each later f32 step rounds separately. */
#ifndef XCVM_OPS_QUANTIZE_SIMD_DYNAMIC_ROWS_H
#define XCVM_OPS_QUANTIZE_SIMD_DYNAMIC_ROWS_H

#include "ops/util/kernel.h"
#include "ops/quantize/quantized_panels.h"

#include <math.h>

/* Scale and zero point of quantized bytes. */
typedef struct xcvm_dynamic_scale {
    float scale, divisor; /* the divisor is 1 if the scale is 0 or NaN, so that zeros stay zero */
    uint8_t zero_point;
} xcvm_dynamic_scale;

/* For numbers from low <= 0 to high >= 0; NaN if there is one. */
static inline xcvm_dynamic_scale xcvm_dynamic_scale_of(float low, float high)
{
    const float scale = (high - low) / 255.0f;
    xcvm_dynamic_scale s = {.scale = scale, .divisor = scale > 0.0f ? scale : 1.0f};
    const float zero = rintf(-low / s.divisor);
    s.zero_point = (uint8_t)(zero > 0.0f ? (zero < 255.0f ? zero : 255.0f) : 0.0f);
    return s;
}

/* A row in memory: whole quads; padding may be any initialized bytes. */
typedef struct xcvm_dynamic_row {
    float scale;
    int32_t zero;
    uint8_t bytes[];
} xcvm_dynamic_row;

/* Bytes of a row of `count` numbers, a multiple of XCVM_ALIGNMENT. */
static inline size_t xcvm_dynamic_row_bytes(size_t count)
{
    return xcvm_round_up(sizeof(xcvm_dynamic_row) + xcvm_round_up(count, XCVM_QUAD), XCVM_ALIGNMENT);
}
#define xcvm_dynamic_row_make XCVM_PER_ISA(xcvm_dynamic_row_make)
void xcvm_dynamic_row_make(const float *x, size_t count, xcvm_dynamic_row *row);
/* Computes the residual of x after quantization to a row. The sum of two such rows represents x with 16 bits. */
#define xcvm_dynamic_row_rest XCVM_PER_ISA(xcvm_dynamic_row_rest)
void xcvm_dynamic_row_rest(const float *x, size_t count, const xcvm_dynamic_row *row, float *rest);

/* Weights with a sum and a scale per column. */
typedef struct xcvm_dynamic_panels {
    const int8_t *panels;
    size_t quads;
    const int32_t *sums;
    const float *scales;
} xcvm_dynamic_panels;

/* Adds the products of `count` rows, `row_bytes` apart, with panels [first, last) to `to`. Rows of `to` are to_row
 * floats apart and begin with panel `first`. Each consecutive `terms` rows are added to one of them. */
#define xcvm_dynamic_product XCVM_PER_ISA(xcvm_dynamic_product)
void xcvm_dynamic_product(const xcvm_dynamic_panels *w, size_t first, size_t last, const void *rows, size_t row_bytes,
                          size_t count, size_t terms, float *to, size_t to_row);
/* Returns true if a row's range is finite. Bytes cannot represent others. */
static inline bool xcvm_dynamic_row_is_finite(const xcvm_dynamic_row *row) { return isfinite(row->scale) != 0; }
/* Adds the products of x, `count` numbers that may be infinite or NaN, with panels [first, last) to `to`, as with f32
 * weights. */
#define xcvm_dynamic_product_f32 XCVM_PER_ISA(xcvm_dynamic_product_f32)
void xcvm_dynamic_product_f32(const xcvm_dynamic_panels *w, size_t first, size_t last, const float *x, size_t count,
                              float *to);

#endif
