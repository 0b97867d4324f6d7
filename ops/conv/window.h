/* The windows that convolutions and pools move over the spatial axes of an image. */
#ifndef XCVM_OPS_CONV_WINDOW_H
#define XCVM_OPS_CONV_WINDOW_H

#include "ops/util/kernel.h"

/* Axes that a window may have; fewer are preceded by axes of size 1. */
enum { XCVM_WINDOW_AXES = 3 };

/* Output position o and window position k of an axis meet input position o * stride + k * dilation - pad. */
typedef struct xcvm_window {
    size_t in[XCVM_WINDOW_AXES], out[XCVM_WINDOW_AXES], kernel[XCVM_WINDOW_AXES];
    size_t stride[XCVM_WINDOW_AXES], dilation[XCVM_WINDOW_AXES];
    ptrdiff_t pad[XCVM_WINDOW_AXES], pad_end[XCVM_WINDOW_AXES];
    size_t in_size, out_size, kernel_size; /* products */
} xcvm_window;

/* Attributes as they stand in an instruction; `kernel` are sizes, one for each spatial axis. */
typedef struct xcvm_window_attributes {
    xcvm_ints kernel, strides, pads, dilations;
} xcvm_window_attributes;

/* The pads of a pool: those given or, unless auto_pad is NOTSET, as many as it asks for, written to `room`; 0 along
 * axes whose size is not known. Source: ONNX, AveragePool, auto_pad. */
xcvm_ints xcvm_window_pads(int auto_pad, const xcvm_value *x, const xcvm_window_attributes *a,
                           int64_t room[2 * XCVM_MAX_RANK]);
/* Those of a transposed convolution, which depend on output_shape besides; what y is larger than x makes it is a pad
 * below 0 at the end. Source: ONNX, ConvTranspose, output_shape. */
xcvm_ints xcvm_transposed_pads(const xcvm_ConvTranspose_args *a, int64_t room[2 * XCVM_MAX_RANK]);

/* For shape rules: checks that there are as many attributes as `axes` need. */
xcvm_status xcvm_window_attributes_check(const xcvm_inference *t, int axes, const xcvm_window_attributes *a);
/* Output size along one axis, XCVM_ANY_DIM if it is not known. With `ceil`, a last window may reach over the padding's
 * end, but not begin there. */
xcvm_status xcvm_window_slide(const xcvm_inference *t, int64_t in, const xcvm_window_attributes *a, int axis, bool ceil,
                              int64_t *out);

/* Output size of the transposed convolution along one axis, XCVM_ANY_DIM if it is not known. */
xcvm_status xcvm_window_spread(const xcvm_inference *t, int64_t in, const xcvm_window_attributes *a, int axis,
                               int64_t output_padding, int64_t *out);

/* Of checked operands: x and y are batch x channels x spatial axes. */
xcvm_window xcvm_window_of(const xcvm_value *x, const xcvm_value *y, const xcvm_window_attributes *a);

/* Whether the window has two axes at most. */
static inline bool xcvm_window_is_flat(const xcvm_window *w)
{
    return w->in[0] == 1 && w->out[0] == 1 && w->kernel[0] == 1 && w->pad[0] == 0;
}

/* The range [*first, *last) of output positions whose input position for window position k lies inside. */
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

/* A convolution's sizes besides the window; channels and outputs are those of one group. */
typedef struct xcvm_conv_shape {
    xcvm_window window;
    size_t batch, group, channels, outputs;
} xcvm_conv_shape;

/* `w` is outputs x channels of a group x window. */
xcvm_conv_shape xcvm_conv_shape_of(const xcvm_value *x, const xcvm_value *w, const xcvm_value *y, xcvm_ints strides,
                                   xcvm_ints pads, xcvm_ints dilations, int64_t group);

#endif
