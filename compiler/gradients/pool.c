/* Gradients of pools: an element gets its share of the gradients of all windows that contain it. */
#include "compiler/gradients/windows.h"
#include "ops/conv/window.h"

#include <string.h>

#define G xcc_g(d)
#define X xcc_in(d, 0)
#define Y xcc_out(d, 0)

enum { SPATIAL = XCVM_MAX_RANK - 2 };

/* ---- Maxima ---- */

/* The first maximum, given by the indices, gets the whole gradient. */
XCC_GRADIENT(MaxPool)
{
    const xcvm_MaxPool_args *a = XCC_ARGS(MaxPool, d->node);
    xcc_value *indices = a->storage_order == 0 ? xcc_extra_result(d, 1) : NULL;
    if (a->storage_order != 0) {
        /* The node's own indices are column-major. */
        xcvm_MaxPool_args again = *a;
        xcc_value *y = xcc_value_create(d->b->graph, NULL);
        indices = xcc_value_create(d->b->graph, NULL);
        again.storage_order = 0;
        again.y = XCC_OUT(y);
        again.indices = XCC_OUT(indices);
        if (y == NULL || indices == NULL || xcc_append(d->b, XCVM_OP_MaxPool, &again) == NULL)
            indices = NULL;
    }
    xcc_value *all = XCC_BUILD_INTS(d->b, -1), *g = xcc_build_reshape(d->b, G, all);
    xcc_value *at = xcc_build_reshape(d->b, indices, all);
    xcc_value *zeros = xcc_build_reshape(d->b, xcc_zeros_like(d->b, X), all);
    xcc_set_gradient(
        d, 0,
        zeros == NULL || at == NULL || g == NULL
            ? NULL
            : xcc_reshape_like(d->b,
                               xcc_apply(d->b, ScatterElements, y, .x = XCC_IN(zeros), .indices = XCC_IN(at),
                                         .updates = XCC_IN(g), .reduction = XCVM_REDUCTION_add),
                               X));
}

/* ---- Sums ---- */

/* Sum and mean pools as convolutions with a window of ones over one channel. */
typedef struct pool {
    xcvm_ints kernel;
    xcc_window window;
    int64_t room[2 * XCVM_MAX_RANK];
} pool;

/* Refuses and returns false if the pads depend on unknown sizes. */
static bool read_pool(xcc_vjp *d, pool *p, xcvm_ints kernel, xcvm_ints strides, xcvm_ints pads, xcvm_ints dilations,
                      int auto_pad)
{
    *p = (pool){.kernel = kernel, .window = {strides, pads, dilations, 1}};
    if (!xcc_vjp_need_rank(d, 0))
        return false;
    if (auto_pad == XCVM_AUTO_PAD_NOTSET)
        return true;
    if (!xcc_vjp_need_sizes(d, X, "operand 0"))
        return false;
    const xcvm_window_attributes attributes = {kernel, strides, pads, dilations};
    p->window.pads = xcvm_window_pads(auto_pad, &X->type, &attributes, p->room);
    return true;
}

/* Merges batch and channels into one axis, followed by one channel. */
static xcc_value *one_channel(xcc_vjp *d, xcc_value *x)
{
    xcc_value *parts[XCVM_MAX_RANK] = {xcc_mul(d, xcc_build_dim_of(d->b, x, 0), xcc_build_dim_of(d->b, x, 1)),
                                       XCC_BUILD_INTS(d->b, 1)};
    if (x == NULL)
        return NULL;
    for (int i = 2; i < x->type.rank; i++)
        parts[i] = xcc_build_dim_of(d->b, x, i);
    return xcc_build_reshape_to(d->b, x, xcc_build_concat(d->b, (size_t)x->type.rank, parts, 0));
}

/* A window of ones. */
static xcc_value *ones_of(xcc_vjp *d, const pool *p)
{
    int64_t dims[XCVM_MAX_RANK] = {1, 1};
    memcpy(dims + 2, p->kernel.at, p->kernel.count * sizeof *dims);
    return xcc_build_expand(d->b, xcc_num(d, X, 1), xcc_build_ints(d->b, p->kernel.count + 2, dims));
}

/* For each element of x, the sum of `g` over the windows that contain it. */
static xcc_value *spread(xcc_vjp *d, const pool *p, xcc_value *g)
{
    xcc_value *each = one_channel(d, g), *image = one_channel(d, X);
    return xcc_reshape_like(d->b, xcc_window_spread(d, each, ones_of(d, p), &p->window, image), X);
}

/* Number of elements of each window, including padding if `padding`, but none beyond it, where windows may end with
 * ceil_mode. */
static xcc_value *window_sizes(xcc_vjp *d, const pool *p, bool padding)
{
    static const int64_t none[2 * SPATIAL];
    const size_t axes = p->kernel.count;
    xcc_value *sizes[SPATIAL], *ends[SPATIAL],
        *parts[XCVM_MAX_RANK] = {XCC_BUILD_INTS(d->b, 1), XCC_BUILD_INTS(d->b, 1)};
    for (size_t i = 0; i < axes; i++) {
        const int64_t begin = p->window.pads.at[i], end = p->window.pads.at[i + axes], stride = p->window.strides.at[i];
        sizes[i] = xcc_build_dim_of(d->b, X, (int)i + 2);
        if (padding)
            sizes[i] = xcc_add(d, sizes[i], XCC_BUILD_INTS(d->b, begin + end));
        parts[i + 2] = sizes[i];
        xcc_value *gaps = xcc_sub(d, xcc_build_dim_of(d->b, Y, (int)i + 2), XCC_BUILD_INTS(d->b, 1));
        const int64_t reach = (p->kernel.at[i] - 1) * p->window.dilations.at[i] + 1;
        ends[i] = xcc_add(d, xcc_mul(d, gaps, XCC_BUILD_INTS(d->b, stride)), XCC_BUILD_INTS(d->b, reach));
    }
    xcc_value *ones = xcc_build_expand(d->b, xcc_num(d, X, 1), xcc_build_concat(d->b, axes + 2, parts, 0));
    const xcvm_ints pads = padding ? (xcvm_ints){none, 2 * axes} : p->window.pads;
    xcc_value *image = ones != NULL ? xcc_window_pad(d, ones, pads, false, ends) : NULL, *w = ones_of(d, p);
    if (image == NULL || w == NULL)
        return NULL;
    return xcc_apply(d->b, Conv, y, .x = XCC_IN(image), .w = XCC_IN(w), .strides = p->window.strides,
                     .pads = {none, 2 * axes}, .dilations = p->window.dilations, .group = 1);
}

XCC_GRADIENT(AveragePool)
{
    const xcvm_AveragePool_args *a = XCC_ARGS(AveragePool, d->node);
    pool p;
    if (read_pool(d, &p, a->kernel_shape, a->strides, a->pads, a->dilations, a->auto_pad))
        xcc_set_gradient(d, 0, spread(d, &p, xcc_div(d, G, window_sizes(d, &p, a->count_include_pad != 0))));
}

/* x * |x|^(p - 2) / y^(p - 1), 0 where y is 0 */
XCC_GRADIENT(LpPool)
{
    const xcvm_LpPool_args *a = XCC_ARGS(LpPool, d->node);
    pool p;
    if (!read_pool(d, &p, a->kernel_shape, a->strides, a->pads, a->dilations, a->auto_pad))
        return;
    xcc_value *power = xcc_num(d, X, (double)(a->p - 1));
    xcc_value *share = xcc_div(d, G, xcc_op2(d, XCVM_OP_Pow, Y, power)), *zero = xcc_num(d, X, 0);
    xcc_value *sum = spread(d, &p, xcc_where(d, xcc_op2(d, XCVM_OP_Equal, Y, zero), zero, share));
    xcc_value *size = xcc_op2(d, XCVM_OP_Pow, xcc_op1(d, XCVM_OP_Abs, X), power);
    xcc_set_gradient(d, 0, xcc_mul(d, sum, xcc_mul(d, xcc_op1(d, XCVM_OP_Sign, X), size)));
}
