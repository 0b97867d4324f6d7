/* BlockedConv: dispatches to the algorithm of the instruction. */
#include "ops/conv/simd/blocked_conv.h"

enum { HEIGHT = XCVM_BLOCKED_HEIGHT, DEPTH = XCVM_BLOCKED_DEPTH };

/* Index of a plane axis or the depth in attributes and shapes; negative if absent. A single axis is the width. */
static int index_of(int axis, int axes) { return axis == DEPTH ? axes - 3 : axes - 2 + axis; }

/* Slices and rows that windows never combine are treated as rows of one plane. */
static void lay_flat(xcvm_blocked_conv *c)
{
    const int axes[] = {HEIGHT, DEPTH};
    for (int i = 0; i < 2; i++)
        if (c->kernel[axes[i]] != 1 || c->stride[axes[i]] != 1 || c->pad[axes[i]] != 0 || c->pad_end[axes[i]] != 0)
            return;
    c->in[HEIGHT] *= c->in[DEPTH];
    c->out[HEIGHT] *= c->out[DEPTH];
    c->in[DEPTH] = c->out[DEPTH] = 1;
}

XCVM_KERNEL(BlockedConv)
{
    const xcvm_activation f = xcvm_activation_affine(a->activation, a->activation_params, a->affine);
    const xcvm_value *x = a->x, *w = a->w, *y = a->y;
    if (xcvm_element_count(y) == 0)
        return XCVM_OK;
    const int axes = (int)a->strides.count, first_of_w = xcvm_blocked_has_channels(a->algorithm) ? 2 : 1;
    const bool plain = x->rank == axes + 2, is_winograd = xcvm_blocked_is_winograd(a->algorithm);
    xcvm_blocked_conv c = {.batch = (size_t)x->dims[0],
                           .group = xcvm_blocked_is_direct(a->algorithm) ? (size_t)a->group : 1,
                           .outputs = (size_t)y->dims[1],
                           .plain = plain,
                           .x = x->data,
                           .w = w->data,
                           .w_dtype = (xcvm_dtype)w->dtype,
                           .b = a->b != NULL ? a->b->data : NULL,
                           .z = a->z != NULL ? a->z->data : NULL,
                           .y = y->data,
                           .activation = f};
    for (int i = 0; i < XCVM_BLOCKED_AXES; i++) {
        const int at = index_of(i, axes);
        c.in[i] = at < 0 ? 1 : (size_t)x->dims[2 + at];
        c.out[i] = at < 0 ? 1 : (size_t)y->dims[2 + at];
        c.stride[i] = at < 0 ? 1 : (size_t)a->strides.at[at];
        c.dilation[i] = at < 0 ? 1 : (size_t)a->dilations.at[at];
        c.pad[i] = at < 0 ? 0 : (size_t)a->pads.at[at];
        c.pad_end[i] = at < 0 ? 0 : (size_t)a->pads.at[axes + at];
        c.kernel[i] = at < 0 ? 1 : is_winograd ? 3 : (size_t)w->dims[first_of_w + at];
    }
    switch (a->algorithm) {
    case XCVM_BLOCKED_depthwise:
        return xcvm_blocked_depthwise(k, &c);
    case XCVM_BLOCKED_grouped:
        c.channels = (size_t)w->dims[1];
        return xcvm_blocked_depthwise(k, &c);
    case XCVM_BLOCKED_winograd:
    case XCVM_BLOCKED_winograd_untransformed:
        c.on_the_fly = a->algorithm == XCVM_BLOCKED_winograd_untransformed;
        c.kernel[DEPTH] = axes == 3 ? (size_t)w->dims[2] : 1;
        c.channels = (size_t)w->dims[c.on_the_fly ? 1 : axes];
        c.tile = c.on_the_fly || w->dims[0] == 36 ? 4 : 2;
        c.pool = (size_t)a->pool;
        for (int i = 0; i < 2 && c.pool > 1; i++)
            c.out[i] = c.in[i] + c.pad[i] + c.pad_end[i] - (c.kernel[i] - 1);
        return xcvm_blocked_winograd(k, &c);
    case XCVM_BLOCKED_winograd_strided:
        c.channels = (size_t)w->dims[2];
        return xcvm_blocked_strided(k, &c);
    default:
        c.pairs = a->algorithm == XCVM_BLOCKED_direct_pairs;
        c.w_dtype = c.pairs ? XCVM_F32 : c.w_dtype;
        c.channels = (size_t)w->dims[1];
        lay_flat(&c);
        return xcvm_blocked_direct(k, &c);
    }
}
