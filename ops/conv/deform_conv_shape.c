/* Shape rule of DeformConv. */
#include "ops/util/kernel.h"

/* Checks a dimension of offset or mask. `name` is for messages. */
static xcvm_status need_dim(const xcvm_inference *t, const xcvm_value *v, const char *name, int axis, int64_t needed)
{
    XCVM_CHECK(t->error, !xcvm_dims_differ(v->dims[axis], needed), SHAPE_MISMATCH,
               "dimension %d of %s has the wrong size (%lld; expected %lld)", axis, name, (long long)v->dims[axis],
               (long long)needed);
    return XCVM_OK;
}

/* Checks a map with `entries` values per offset group, window position and output position. */
static xcvm_status need_map(const xcvm_inference *t, const xcvm_DeformConv_args *a, const xcvm_value *v,
                            const char *name, int64_t entries)
{
    if (v == NULL || v->rank < 0)
        return XCVM_OK;
    XCVM_CHECK(t->error, v->rank == 4, SHAPE_MISMATCH, "%s has the wrong rank (%d; expected 4)", name, v->rank);
    XCVM_TRY(need_dim(t, v, name, 0, a->y->dims[0]));
    const int64_t height = a->w->dims[2], width = a->w->dims[3];
    if (height >= 0 && width >= 0) {
        int64_t maps;
        XCVM_CHECK(t->error,
                   !__builtin_mul_overflow(height, width, &maps) && !__builtin_mul_overflow(maps, entries, &maps) &&
                       !__builtin_mul_overflow(maps, a->offset_group, &maps),
                   OUT_OF_RANGE, "the window is too large");
        XCVM_TRY(need_dim(t, v, name, 1, maps));
    }
    XCVM_TRY(need_dim(t, v, name, 2, a->y->dims[2]));
    return need_dim(t, v, name, 3, a->y->dims[3]);
}

XCVM_SHAPE_RULE_OF(DeformConv)
{
    /* Without offsets, DeformConv is a convolution. */
    const xcvm_Conv_args conv = {.y = a->y,
                                 .x = a->x,
                                 .w = a->w,
                                 .b = a->b,
                                 .strides = a->strides,
                                 .pads = a->pads,
                                 .dilations = a->dilations,
                                 .group = a->group};
    xcvm_inference of_conv = *t;
    of_conv.args = &conv;
    XCVM_TRY(xcvm_shape_Conv(&of_conv));
    if (a->y->rank < 0)
        return XCVM_OK;
    XCVM_CHECK(t->error, a->y->rank == 4, UNSUPPORTED, "x has an unsupported number of spatial axes (%d; expected 2)",
               a->y->rank - 2);
    XCVM_CHECK(t->error, a->x->dims[1] < 0 || a->x->dims[1] % a->offset_group == 0, SHAPE_MISMATCH,
               "%lld channels do not divide into %lld offset groups", (long long)a->x->dims[1],
               (long long)a->offset_group);
    XCVM_TRY(need_map(t, a, a->offset, "offset", 2));
    return need_map(t, a, a->mask, "mask", 1);
}
