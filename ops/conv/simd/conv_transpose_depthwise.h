/* Transposed convolutions of each channel by itself, as the gradients of depthwise convolutions are. */
#ifndef XCVM_OPS_VECTOR_CONV_TRANSPOSE_DEPTHWISE_H
#define XCVM_OPS_VECTOR_CONV_TRANSPOSE_DEPTHWISE_H

#include "ops/conv/window.h"

typedef struct xcvm_transposed_depthwise {
    xcvm_conv_shape shape;  /* of the convolution of which this is the adjoint: its input is y, its output x */
    const float *x, *w, *b; /* b NULL: none */
    float *y;
} xcvm_transposed_depthwise;

/* Whether every group is one channel in and one out, under a window of two axes at most and few positions. */
#define xcvm_transposed_depthwise_fits XCVM_PER_ISA(xcvm_transposed_depthwise_fits)
bool xcvm_transposed_depthwise_fits(const xcvm_conv_shape *s);
/* Bytes of scratch that a run needs. */
#define xcvm_transposed_depthwise_scratch XCVM_PER_ISA(xcvm_transposed_depthwise_scratch)
size_t xcvm_transposed_depthwise_scratch(const xcvm_conv_shape *s, int threads);
/* Of finite filters: beside the image they meet zeros. */
#define xcvm_transposed_depthwise_run XCVM_PER_ISA(xcvm_transposed_depthwise_run)
xcvm_status xcvm_transposed_depthwise_run(const xcvm_kernel *k, const xcvm_transposed_depthwise *t, void *scratch);

#endif
