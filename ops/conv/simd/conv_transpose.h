/* Transposed convolutions of f32: what their algorithms have in common. */
#ifndef XCVM_OPS_CONV_SIMD_CONV_TRANSPOSE_H
#define XCVM_OPS_CONV_SIMD_CONV_TRANSPOSE_H

#include "ops/conv/window.h"
#include "ops/util/kernel.h"
#include "ops/simd/lanes.h"

typedef struct xcvm_transposed {
    /* The convolution of which this is the adjoint: its input is y, its output x; `channels` are those of a group of y,
     * `outputs` those of x. */
    xcvm_conv_shape shape;
    const float *x, *w, *b; /* b NULL: none */
    float *y;
} xcvm_transposed;

/* One way to compute them. What it fits, and bytes of scratch, depend on the shape alone. */
typedef struct xcvm_transposed_algorithm {
    bool (*fits)(const xcvm_conv_shape *s);
    bool finite; /* of finite filters alone: it adds zeros where nothing is to be added, and others times 0 are NaN */
    bool f32;    /* of operands that are f32 in memory, not of those that are brought to it */
    size_t (*scratch)(const xcvm_conv_shape *s, int threads);
    xcvm_status (*run)(const xcvm_kernel *k, const xcvm_transposed *t, void *scratch);
} xcvm_transposed_algorithm;

/* With stride 1, the convolution by filters that are turned round, where that takes less. */
#define xcvm_transposed_convolution XCVM_PER_ISA(xcvm_transposed_convolution)
extern const xcvm_transposed_algorithm xcvm_transposed_convolution;
/* Each channel by itself, under a window of two axes at most and few positions. */
#define xcvm_transposed_depthwise XCVM_PER_ISA(xcvm_transposed_depthwise)
extern const xcvm_transposed_algorithm xcvm_transposed_depthwise;
/* Products that are added up where they belong, for any shape and any filters. */
#define xcvm_transposed_products XCVM_PER_ISA(xcvm_transposed_products)
extern const xcvm_transposed_algorithm xcvm_transposed_products;

#endif
