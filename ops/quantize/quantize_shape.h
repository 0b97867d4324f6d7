/* Which scale and zero point the elements of a quantized tensor have. */
#ifndef XCVM_OPS_QUANTIZE_QUANTIZE_SHAPE_H
#define XCVM_OPS_QUANTIZE_QUANTIZE_SHAPE_H

#include "ops/util/convert.h"
#include "ops/util/kernel.h"

#define XCVM_TYPES_QUANTIZED                                                                                           \
    (XCVM_TYPES_BYTE | XCVM_DTYPE_BIT(U16) | XCVM_DTYPE_BIT(I16) | XCVM_TYPES_F8 | XCVM_TYPES_PACKED)

/* How x is divided into pieces of one scale each: outer x axis x inner elements, of which `block` neighbors on the
 * axis share a scale (all of them: block is the axis' size); a scale for each inner element too if `by_inner`. */
typedef struct xcvm_quantized {
    size_t outer, axis, inner, block;
    bool single, by_inner;
} xcvm_quantized;

/* SHAPE_MISMATCH where scale does not fit x along `axis` with blocks of `block_size` (0: none). */
xcvm_status xcvm_quantized_find(xcvm_error *error, const xcvm_value *x, const xcvm_value *scale, int64_t axis,
                                int64_t block_size, xcvm_quantized *p);
/* Elements [first, first + count) of the scales (or zero points) as x sees them; `values` are those given, in order. */
void xcvm_quantized_spread(const xcvm_quantized *p, const float *values, size_t first, size_t count, float *to);

#endif
