/* Window operations shared by the gradients of convolutions and pools. */
#ifndef XCVM_COMPILER_GRADIENTS_WINDOWS_H
#define XCVM_COMPILER_GRADIENTS_WINDOWS_H

#include "compiler/gradients/rule.h"

/* One entry per spatial axis; pads has two: starts, then ends. */
typedef struct xcc_window {
    xcvm_ints strides, pads, dilations;
    int64_t group;
} xcc_window;

/* Pads `x` with zeros or crops it on its spatial axes: `pads` more elements at the start (fewer if `back`), and the
 * sizes in `sizes`, one tensor per axis. */
xcc_value *xcc_window_pad(xcc_vjp *d, xcc_value *x, xcvm_ints pads, bool back, xcc_value *const *sizes);

/* The adjoint of a convolution with respect to x: an image of the shape of `image`, to which each window adds the
 * filter `w` times the element of g. Windows may extend beyond the pads at the end, as those of a pool with ceil_mode
 * do. */
xcc_value *xcc_window_spread(xcc_vjp *d, xcc_value *g, xcc_value *w, const xcc_window *window, xcc_value *image);

#endif
