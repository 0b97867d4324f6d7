/* Mapping from elements of a quantized tensor to scales and zero points. */
#ifndef XCVM_OPS_QUANTIZE_QUANTIZE_SHAPE_H
#define XCVM_OPS_QUANTIZE_QUANTIZE_SHAPE_H

#include "ops/util/convert.h"
#include "ops/util/kernel.h"

#define XCVM_TYPES_QUANTIZED                                                                                           \
    (XCVM_TYPES_BYTE | XCVM_DTYPE_BIT(U16) | XCVM_DTYPE_BIT(I16) | XCVM_TYPES_F8 | XCVM_TYPES_PACKED)

/* Partition of x into parts with one scale each: outer x axis x inner elements, where `block` neighbors on the axis
 * share a scale (for one scale per line, block is the axis' size). With `by_inner` each inner element also has its own.
 */
typedef struct xcvm_quantized {
    size_t outer, axis, inner, block;
    bool single, by_inner;
} xcvm_quantized;

/* Fails with SHAPE_MISMATCH if scale does not fit x on `axis` with blocks of `block_size` (0: none). */
xcvm_status xcvm_quantized_find(xcvm_error *error, const xcvm_value *x, const xcvm_value *scale, int64_t axis,
                                int64_t block_size, xcvm_quantized *p);
/* Expands elements [first, first + count) of the scales (or zero points) to the elements of x. */
void xcvm_quantized_spread(const xcvm_quantized *p, const float *values, size_t first, size_t count, float *to);

#endif
