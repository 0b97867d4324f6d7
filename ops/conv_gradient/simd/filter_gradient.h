/* Filter gradients of f32 convolutions: common definitions of their algorithms. */
#ifndef XCVM_OPS_CONV_GRADIENT_SIMD_FILTER_GRADIENT_H
#define XCVM_OPS_CONV_GRADIENT_SIMD_FILTER_GRADIENT_H

#include "ops/conv/simd/conv.h"

typedef struct xcvm_filter_gradient {
    xcvm_conv_shape shape;
    const float *x, *g; /* the image, and the gradient of the convolution's result */
    float *y;           /* gradient of the filters of all groups */
} xcvm_filter_gradient;

/* An algorithm. Support and scratch size depend only on the shape. */
typedef struct xcvm_filter_gradient_algorithm {
    bool (*fits)(const xcvm_conv_shape *s);
    size_t (*scratch)(const xcvm_conv_shape *s, int threads);
    xcvm_status (*run)(const xcvm_kernel *k, const xcvm_filter_gradient *f, void *scratch);
} xcvm_filter_gradient_algorithm;

/* Groups of few channels, one pair of input and output channel at a time. */
#define xcvm_filter_gradient_pairs XCVM_PER_ISA(xcvm_filter_gradient_pairs)
extern const xcvm_filter_gradient_algorithm xcvm_filter_gradient_pairs;
/* Winograd's algorithm, if that costs less. */
#define xcvm_filter_gradient_winograd XCVM_PER_ISA(xcvm_filter_gradient_winograd)
extern const xcvm_filter_gradient_algorithm xcvm_filter_gradient_winograd;
/* Rows read in place: windows of two axes, and enough outputs to fill vectors. */
#define xcvm_filter_gradient_rows XCVM_PER_ISA(xcvm_filter_gradient_rows)
extern const xcvm_filter_gradient_algorithm xcvm_filter_gradient_rows;
/* A matrix product, for any shape. */
#define xcvm_filter_gradient_products XCVM_PER_ISA(xcvm_filter_gradient_products)
extern const xcvm_filter_gradient_algorithm xcvm_filter_gradient_products;

#endif
