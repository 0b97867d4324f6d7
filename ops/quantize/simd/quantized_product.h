/* Exact products of u8 rows with packed s8 panels (ops/quantize/quantized_panels.h), scaled, rounded and stored as u8.
 *
 * Sums are of 32 bits, modulo 2 to the 32, and no step on the way to them saturates, so that every processor finds the
 * same; behind them stand one multiplication and at most one addition of f32, each rounded by itself. */
#ifndef XCVM_OPS_QUANTIZE_SIMD_QUANTIZED_PRODUCT_H
#define XCVM_OPS_QUANTIZE_SIMD_QUANTIZED_PRODUCT_H

#include "ops/util/kernel.h"
#include "ops/quantize/quantized_panels.h"

/* Rows are images x height x width positions, whose first bytes lie image, line and pixel bytes apart; the bytes that a
 * row is a sum over begin `offsets` from there, a segment each. Up to three bytes behind each segment are read. */
typedef struct xcvm_quantized_product {
    size_t images, height, width, groups;
    const uint8_t *x;
    size_t image, line, pixel;
    size_t group; /* bytes between the channels of two groups */
    xcvm_quantized_runs runs;
    const size_t *offsets;
    const int8_t *w;
    size_t outputs;             /* of a group */
    const int32_t *bias;        /* groups * outputs numbers, likewise scale and shift */
    const float *scale, *shift; /* shift may be NULL */
    void *y;                    /* rows of groups * outputs */
    bool floats;                /* y is f32; else u8 by what follows */
    int32_t zero, low, high;
} xcvm_quantized_product;

/* Bytes of scratch that a run takes, a multiple of XCVM_ALIGNMENT. */
#define xcvm_quantized_product_scratch XCVM_PER_ISA(xcvm_quantized_product_scratch)
#define xcvm_quantized_product_run XCVM_PER_ISA(xcvm_quantized_product_run)
size_t xcvm_quantized_product_scratch(const xcvm_quantized_product *p);
xcvm_status xcvm_quantized_product_run(const xcvm_kernel *k, const xcvm_quantized_product *p, void *scratch);

/* The ways of multiplying that this file's instruction set has on this processor, the best first; all give the same
 * sums. `xcvm_quantized_product_by` runs with the one of that index; tests compare them. */
#define xcvm_quantized_ways XCVM_PER_ISA(xcvm_quantized_ways)
#define xcvm_quantized_product_by XCVM_PER_ISA(xcvm_quantized_product_by)
size_t xcvm_quantized_ways(void);
xcvm_status xcvm_quantized_product_by(const xcvm_kernel *k, const xcvm_quantized_product *p, void *scratch, size_t way);

/* Sums alone, to[i * to_row + column]: of `count` rows of `quads` quads, `row` bytes apart, with `panels` neighboring
 * panels. */
#define xcvm_quantized_sums XCVM_PER_ISA(xcvm_quantized_sums)
void xcvm_quantized_sums(const uint8_t *x, size_t row, size_t count, const int8_t *w, size_t quads, size_t panels,
                         int32_t *to, size_t to_row);
/* The same by the way of that index. */
#define xcvm_quantized_sums_by XCVM_PER_ISA(xcvm_quantized_sums_by)
void xcvm_quantized_sums_by(const uint8_t *x, size_t row, size_t count, const int8_t *w, size_t quads, size_t panels,
                            int32_t *to, size_t to_row, size_t way);

#endif
