/* Exact products of u8 rows with packed s8 panels (ops/quantize/quantized_panels.h), scaled, rounded and stored as u8.
 *
 * Sums are 32 bits modulo 2^32, and no intermediate step saturates, so that all CPUs give the same result. One
 * multiplication and at most one addition in f32 follow, each rounded separately. */
#ifndef XCVM_OPS_QUANTIZE_SIMD_QUANTIZED_PRODUCT_H
#define XCVM_OPS_QUANTIZE_SIMD_QUANTIZED_PRODUCT_H

#include "ops/util/kernel.h"
#include "ops/quantize/quantized_panels.h"

/* Rows are images x height x width positions, whose first bytes are image, line and pixel bytes apart. The segments of
 * a row begin at `offsets` from there. Up to three bytes past each segment are read. */
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
    bool floats;                /* y is f32; else u8 with the following parameters */
    int32_t zero, low, high;
} xcvm_quantized_product;

/* Bytes of scratch of a run, a multiple of XCVM_ALIGNMENT. */
#define xcvm_quantized_product_scratch XCVM_PER_ISA(xcvm_quantized_product_scratch)
#define xcvm_quantized_product_run XCVM_PER_ISA(xcvm_quantized_product_run)
size_t xcvm_quantized_product_scratch(const xcvm_quantized_product *p);
xcvm_status xcvm_quantized_product_run(const xcvm_kernel *k, const xcvm_quantized_product *p, void *scratch);

/* Number of methods that this file's instruction set has on this CPU, the fastest first; all give the same sums.
 * `xcvm_quantized_product_by` uses the method of that index, for tests. */
#define xcvm_quantized_ways XCVM_PER_ISA(xcvm_quantized_ways)
#define xcvm_quantized_product_by XCVM_PER_ISA(xcvm_quantized_product_by)
size_t xcvm_quantized_ways(void);
xcvm_status xcvm_quantized_product_by(const xcvm_kernel *k, const xcvm_quantized_product *p, void *scratch, size_t way);

/* Computes sums only, to[i * to_row + column]: `count` rows of `quads` quads, `row` bytes apart, with `panels`
 * neighboring panels. */
#define xcvm_quantized_sums XCVM_PER_ISA(xcvm_quantized_sums)
void xcvm_quantized_sums(const uint8_t *x, size_t row, size_t count, const int8_t *w, size_t quads, size_t panels,
                         int32_t *to, size_t to_row);
/* The same with the method of that index. */
#define xcvm_quantized_sums_by XCVM_PER_ISA(xcvm_quantized_sums_by)
void xcvm_quantized_sums_by(const uint8_t *x, size_t row, size_t count, const int8_t *w, size_t quads, size_t panels,
                            int32_t *to, size_t to_row, size_t way);

#endif
