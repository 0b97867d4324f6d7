/* BlockedConv: the convolution that the algorithm names. */
#include "ops/vector/blocked_conv.h"

XCVM_KERNEL(BlockedConv)
{
    const xcvm_activation f = xcvm_activation_of(a->activation, a->activation_params);
    const xcvm_value *x = a->x, *w = a->w, *y = a->y;
    if (xcvm_element_count(y) == 0)
        return XCVM_OK;
    const bool plain = x->rank == 4;
    xcvm_blocked_conv c = {.batch = (size_t)x->dims[0],
                           .group = a->algorithm == XCVM_BLOCKED_direct ? (size_t)a->group : 1,
                           .outputs = (size_t)y->dims[1],
                           .plain = plain,
                           .x = x->data,
                           .w = w->data,
                           .w_dtype = (xcvm_dtype)w->dtype,
                           .b = a->b != NULL ? a->b->data : NULL,
                           .z = a->z != NULL ? a->z->data : NULL,
                           .y = y->data,
                           .activation = f};
    for (int i = 0; i < 2; i++) {
        c.in[i] = (size_t)x->dims[2 + i];
        c.out[i] = (size_t)y->dims[2 + i];
        c.stride[i] = (size_t)a->strides.at[i];
        c.dilation[i] = (size_t)a->dilations.at[i];
        c.pad[i] = (size_t)a->pads.at[i];
        c.pad_end[i] = (size_t)a->pads.at[2 + i];
    }
    switch (a->algorithm) {
    case XCVM_BLOCKED_depthwise:
        c.kernel[0] = (size_t)w->dims[1];
        c.kernel[1] = (size_t)w->dims[2];
        return xcvm_blocked_depthwise(k, &c);
    case XCVM_BLOCKED_winograd:
        c.channels = (size_t)w->dims[2];
        c.tile = w->dims[0] == 36 ? 4 : 2;
        return xcvm_blocked_winograd(k, &c);
    default:
        c.channels = (size_t)w->dims[1];
        c.kernel[0] = (size_t)w->dims[2];
        c.kernel[1] = (size_t)w->dims[3];
        return xcvm_blocked_direct(k, &c);
    }
}
