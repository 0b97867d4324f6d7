/* Windows that move over an image, and back: what convolutions and pools have in common. */
#ifndef XCVM_COMPILER_GRADIENTS_WINDOWS_H
#define XCVM_COMPILER_GRADIENTS_WINDOWS_H

#include "compiler/gradients/rule.h"

/* One entry for each spatial axis, pads two: begins, then ends. */
typedef struct xcc_window {
    xcvm_ints strides, pads, dilations;
    int64_t group;
} xcc_window;

/* `x` with its spatial axes made larger by zeros, or smaller, so that at the beginning there are `pads` more (less, if
 * `back`) and the sizes are those of `sizes`, a tensor for each axis. */
xcc_value *xcc_window_frame(xcc_vjp *d, xcc_value *x, xcvm_ints pads, bool back, xcc_value *const *sizes);

/* The adjoint of a convolution by its operand x: an image of the shape of `image` in which, for each window, the filter
 * `w` times the element of g is added. Windows may reach beyond the pads' end, as those of a pool with ceil_mode do. */
xcc_value *xcc_window_spread(xcc_vjp *d, xcc_value *g, xcc_value *w, const xcc_window *window, xcc_value *image);

#endif
