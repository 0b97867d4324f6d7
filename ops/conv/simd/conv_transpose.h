/* Transposed convolutions of f32: common definitions of their algorithms. */
#ifndef XCVM_OPS_CONV_SIMD_CONV_TRANSPOSE_H
#define XCVM_OPS_CONV_SIMD_CONV_TRANSPOSE_H

#include "ops/conv/window.h"
#include "ops/util/kernel.h"
#include "ops/simd/lanes.h"

typedef struct xcvm_transposed {
    /* The convolution whose adjoint this is: its input is y and its output x. `channels` are those of a group of y,
     * `outputs` those of x. */
    xcvm_conv_shape shape;
    const float *x, *w, *b; /* b may be NULL */
    float *y;
} xcvm_transposed;

/* An algorithm. Support and scratch size depend only on the shape. */
typedef struct xcvm_transposed_algorithm {
    bool (*fits)(const xcvm_conv_shape *s);
    bool finite; /* requires finite filters: it also multiplies zeros, and 0 times infinity or NaN is NaN */
    bool f32;    /* requires operands that are f32 in memory, not converted */
    size_t (*scratch)(const xcvm_conv_shape *s, int threads);
    xcvm_status (*run)(const xcvm_kernel *k, const xcvm_transposed *t, void *scratch);
} xcvm_transposed_algorithm;

/* Stride 1: the convolution by flipped filters, if that costs less. */
#define xcvm_transposed_convolution XCVM_PER_ISA(xcvm_transposed_convolution)
extern const xcvm_transposed_algorithm xcvm_transposed_convolution;
/* Depthwise, with windows of at most two axes and few positions. */
#define xcvm_transposed_depthwise XCVM_PER_ISA(xcvm_transposed_depthwise)
extern const xcvm_transposed_algorithm xcvm_transposed_depthwise;
/* A matrix product followed by scatter-add (col2im), for any shape and filters. */
#define xcvm_transposed_products XCVM_PER_ISA(xcvm_transposed_products)
extern const xcvm_transposed_algorithm xcvm_transposed_products;

#endif
