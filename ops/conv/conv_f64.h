/* Convolutions of f64 by their definition. */
#ifndef XCVM_OPS_CONV_CONV_F64_H
#define XCVM_OPS_CONV_CONV_F64_H

#include "ops/elementwise/activation.h"
#include "ops/util/kernel.h"
#include "ops/conv/window.h"

/* Computes Conv of f64 on the session's threads. Fails only as xcvm_kernel_poll does. */
xcvm_status xcvm_conv_f64(const xcvm_kernel *k, const xcvm_conv_shape *s, const xcvm_Conv_args *a,
                          const xcvm_activation *f);
/* `s` is the convolution from y to x, whose adjoint this is. */
xcvm_status xcvm_conv_transpose_f64(const xcvm_kernel *k, const xcvm_conv_shape *s, const xcvm_ConvTranspose_args *a);
/* `s` is the convolution from x to g, whose filter gradient this is. */
xcvm_status xcvm_conv_filter_gradient_f64(const xcvm_kernel *k, const xcvm_conv_shape *s,
                                          const xcvm_ConvFilterGradient_args *a);

#endif
