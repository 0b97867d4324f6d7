/* Gradients of filters without a matrix of columns: ways that ConvFilterGradient chooses from. */
#ifndef XCVM_OPS_CONV_GRADIENT_SIMD_FILTER_GRADIENT_ROWS_H
#define XCVM_OPS_CONV_GRADIENT_SIMD_FILTER_GRADIENT_ROWS_H

#include "ops/conv/simd/conv.h"

typedef struct xcvm_filter_gradient {
    xcvm_conv_shape shape;
    const float *x, *g; /* the image, and the gradient of the convolution's result */
    float *y;           /* of the filters, of all groups */
} xcvm_filter_gradient;

/* Whether the sums of products are made from rows where they lie, which takes windows of two axes and enough outputs
 * to fill vectors. */
#define xcvm_filter_gradient_rows_fit XCVM_PER_ISA(xcvm_filter_gradient_rows_fit)
bool xcvm_filter_gradient_rows_fit(const xcvm_conv_shape *s);
#define xcvm_filter_gradient_rows_scratch XCVM_PER_ISA(xcvm_filter_gradient_rows_scratch)
size_t xcvm_filter_gradient_rows_scratch(const xcvm_conv_shape *s, int threads);
#define xcvm_filter_gradient_rows_run XCVM_PER_ISA(xcvm_filter_gradient_rows_run)
xcvm_status xcvm_filter_gradient_rows_run(const xcvm_kernel *k, const xcvm_filter_gradient *f, void *scratch);
/* By Winograd's algorithm (winograd.h), where that takes less. */
#define xcvm_filter_gradient_winograd_fits XCVM_PER_ISA(xcvm_filter_gradient_winograd_fits)
bool xcvm_filter_gradient_winograd_fits(const xcvm_conv_shape *s);
#define xcvm_filter_gradient_winograd_scratch XCVM_PER_ISA(xcvm_filter_gradient_winograd_scratch)
size_t xcvm_filter_gradient_winograd_scratch(const xcvm_conv_shape *s, int threads);
#define xcvm_filter_gradient_winograd_run XCVM_PER_ISA(xcvm_filter_gradient_winograd_run)
xcvm_status xcvm_filter_gradient_winograd_run(const xcvm_kernel *k, const xcvm_filter_gradient *f, void *scratch);

#endif
