/* The windows of convolutions and pools on the spatial axes of an image. */
#ifndef XCVM_OPS_CONV_WINDOW_H
#define XCVM_OPS_CONV_WINDOW_H

#include "ops/util/kernel.h"

/* Maximum axes of a window. Missing ones are leading axes of size 1. */
enum { XCVM_WINDOW_AXES = 3 };

/* Output position o and window position k of an axis refer to input position o * stride + k * dilation - pad. */
typedef struct xcvm_window {
    size_t in[XCVM_WINDOW_AXES], out[XCVM_WINDOW_AXES], kernel[XCVM_WINDOW_AXES];
    size_t stride[XCVM_WINDOW_AXES], dilation[XCVM_WINDOW_AXES];
    ptrdiff_t pad[XCVM_WINDOW_AXES], pad_end[XCVM_WINDOW_AXES];
    size_t in_size, out_size, kernel_size; /* products */
} xcvm_window;

/* Attributes of an instruction. `kernel` has one size per spatial axis. */
typedef struct xcvm_window_attributes {
    xcvm_ints kernel, strides, pads, dilations;
} xcvm_window_attributes;

/* Pads of a pool: the given ones or, unless auto_pad is NOTSET, computed ones, which are written to `room`; 0 on axes
 * of unknown size. Source: ONNX, AveragePool, auto_pad. */
xcvm_ints xcvm_window_pads(int auto_pad, const xcvm_value *x, const xcvm_window_attributes *a,
                           int64_t room[2 * XCVM_MAX_RANK]);
/* Pads of a transposed convolution, which also depend on output_shape. A larger y gives a negative pad at the end.
 * Source: ONNX, ConvTranspose, output_shape. */
xcvm_ints xcvm_transposed_pads(const xcvm_ConvTranspose_args *a, int64_t room[2 * XCVM_MAX_RANK]);

/* For shape rules: checks that the attributes have the lengths that `axes` requires. */
xcvm_status xcvm_window_attributes_check(const xcvm_inference *t, int axes, const xcvm_window_attributes *a);
/* Computes the output size on one axis, XCVM_ANY_DIM if unknown. With `ceil`, a last window may extend beyond the end
 * of the padding, but must not begin there. */
xcvm_status xcvm_window_slide(const xcvm_inference *t, int64_t in, const xcvm_window_attributes *a, int axis, bool ceil,
                              int64_t *out);

/* Computes the output size of the transposed convolution on one axis, XCVM_ANY_DIM if unknown. */
xcvm_status xcvm_window_spread(const xcvm_inference *t, int64_t in, const xcvm_window_attributes *a, int axis,
                               int64_t output_padding, int64_t *out);

/* For checked operands: x and y are batch x channels x spatial axes. */
xcvm_window xcvm_window_of(const xcvm_value *x, const xcvm_value *y, const xcvm_window_attributes *a);

/* Returns true if the window has at most two axes. */
static inline bool xcvm_window_is_flat(const xcvm_window *w)
{
    return w->in[0] == 1 && w->out[0] == 1 && w->kernel[0] == 1 && w->pad[0] == 0;
}

/* Returns the range [*first, *last) of output positions whose input position for window position k is inside. */
static inline void xcvm_window_inside(const xcvm_window *w, int axis, size_t k, size_t *first, size_t *last)
{
    const ptrdiff_t stride = (ptrdiff_t)w->stride[axis], in = (ptrdiff_t)w->in[axis], out = (ptrdiff_t)w->out[axis];
    const ptrdiff_t shift = w->pad[axis] - (ptrdiff_t)(k * w->dilation[axis]);
    ptrdiff_t low = shift > 0 ? (shift + stride - 1) / stride : 0;
    ptrdiff_t high = in + shift > 0 ? (in + shift + stride - 1) / stride : 0;
    low = low > out ? out : low;
    high = high > out ? out : high;
    *first = (size_t)low;
    *last = (size_t)(high > low ? high : low);
}

/* Sizes of a convolution. Channels and outputs are those of one group. */
typedef struct xcvm_conv_shape {
    xcvm_window window;
    size_t batch, group, channels, outputs;
} xcvm_conv_shape;

/* `w` is outputs x channels of a group x window. */
xcvm_conv_shape xcvm_conv_shape_of(const xcvm_value *x, const xcvm_value *w, const xcvm_value *y, xcvm_ints strides,
                                   xcvm_ints pads, xcvm_ints dilations, int64_t group);

#endif
