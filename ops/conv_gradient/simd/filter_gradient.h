/* Gradients of filters of f32: what their algorithms have in common. */
#ifndef XCVM_OPS_CONV_GRADIENT_SIMD_FILTER_GRADIENT_H
#define XCVM_OPS_CONV_GRADIENT_SIMD_FILTER_GRADIENT_H

#include "ops/conv/simd/conv.h"

typedef struct xcvm_filter_gradient {
    xcvm_conv_shape shape;
    const float *x, *g; /* the image, and the gradient of the convolution's result */
    float *y;           /* of the filters, of all groups */
} xcvm_filter_gradient;

/* One way to compute them. What it fits, and bytes of scratch, depend on the shape alone. */
typedef struct xcvm_filter_gradient_algorithm {
    bool (*fits)(const xcvm_conv_shape *s);
    size_t (*scratch)(const xcvm_conv_shape *s, int threads);
    xcvm_status (*run)(const xcvm_kernel *k, const xcvm_filter_gradient *f, void *scratch);
} xcvm_filter_gradient_algorithm;

/* Groups of few channels, pair by pair of channels. */
#define xcvm_filter_gradient_pairs XCVM_PER_ISA(xcvm_filter_gradient_pairs)
extern const xcvm_filter_gradient_algorithm xcvm_filter_gradient_pairs;
/* Winograd's algorithm, where that takes less. */
#define xcvm_filter_gradient_winograd XCVM_PER_ISA(xcvm_filter_gradient_winograd)
extern const xcvm_filter_gradient_algorithm xcvm_filter_gradient_winograd;
/* From rows where they lie: windows of two axes, and enough outputs to fill vectors. */
#define xcvm_filter_gradient_rows XCVM_PER_ISA(xcvm_filter_gradient_rows)
extern const xcvm_filter_gradient_algorithm xcvm_filter_gradient_rows;
/* A product of matrices, for any shape. */
#define xcvm_filter_gradient_products XCVM_PER_ISA(xcvm_filter_gradient_products)
extern const xcvm_filter_gradient_algorithm xcvm_filter_gradient_products;

#endif
