/* Runs of output positions whose windows have the same positions inside the image, so that positions in the padding
 * need neither multiplication nor memory. */
#ifndef XCVM_OPS_CONV_SIMD_BLOCKED_SPAN_H
#define XCVM_OPS_CONV_SIMD_BLOCKED_SPAN_H

#include "ops/conv/simd/blocked_conv.h"

/* Output positions [first, last) along an axis for which exactly the window positions [tap, tap_end) are inside x. */
typedef struct xcvm_blocked_span {
    size_t first, last, tap, tap_end;
} xcvm_blocked_span;

/* The longest span from output `first` that ends at or before `limit`. */
XCVM_INLINE xcvm_blocked_span xcvm_blocked_span_from(const xcvm_blocked_conv *c, int axis, size_t first, size_t limit)
{
    const size_t stride = c->stride[axis], dilation = c->dilation[axis], taps = c->kernel[axis];
    /* In positions of the padded image, like `top`. */
    const size_t begin = c->pad[axis], end = begin + c->in[axis], top = first * stride;
    xcvm_blocked_span s = {.first = first, .last = limit};
    if (top < begin)
        s.tap = (begin - top + dilation - 1) / dilation;
    if (top < end)
        s.tap_end = (end - top + dilation - 1) / dilation;
    s.tap = s.tap < taps ? s.tap : taps;
    s.tap_end = s.tap_end < taps ? s.tap_end : taps;
    if (s.tap > 0) {
        /* The preceding tap becomes inside. */
        const size_t change = (begin - (s.tap - 1) * dilation + stride - 1) / stride;
        s.last = change < s.last ? change : s.last;
    }
    if (s.tap_end > 0) {
        /* The last tap becomes outside. */
        const size_t change = (end - (s.tap_end - 1) * dilation + stride - 1) / stride;
        s.last = change < s.last ? change : s.last;
    }
    s.tap_end = s.tap_end > s.tap ? s.tap_end : s.tap;
    return s;
}

/* Offset in x, with `pixel` floats per position, of the first tap of the first row and column; 0 if there is none. */
XCVM_INLINE size_t xcvm_blocked_span_place(const xcvm_blocked_conv *c, const xcvm_blocked_span *rows,
                                           const xcvm_blocked_span *columns, size_t pixel)
{
    if (rows->tap == rows->tap_end || columns->tap == columns->tap_end)
        return 0;
    const size_t row = rows->first * c->stride[0] + rows->tap * c->dilation[0] - c->pad[0];
    const size_t column = columns->first * c->stride[1] + columns->tap * c->dilation[1] - c->pad[1];
    return (row * c->in[1] + column) * pixel;
}

#endif
