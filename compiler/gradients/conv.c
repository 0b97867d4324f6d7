/* Gradients of convolutions. The gradient of the image is a transposed convolution. With channels and batch exchanged,
 * the gradient of the filters is a convolution. */
#include "compiler/gradients/windows.h"
#include "ops/conv/window.h"

#define G xcc_g(d)
#define X xcc_in(d, 0)
#define W xcc_in(d, 1)

enum { SPATIAL = XCVM_MAX_RANK - 2 };

static xcc_value *swap_first(xcc_vjp *d, xcc_value *x)
{
    int64_t perm[XCVM_MAX_RANK] = {1, 0, 2, 3, 4, 5, 6, 7};
    return x != NULL ? xcc_build_transpose(d->b, x, (size_t)x->type.rank, perm) : NULL;
}

/* Converts [batch, groups * channels, ...] to [channels, groups * batch, ...]. */
static xcc_value *channels_first(xcc_vjp *d, xcc_value *x, int64_t group)
{
    if (group == 1)
        return swap_first(d, x);
    const int rank = x->type.rank;
    xcc_value *groups = XCC_BUILD_INTS(d->b, group), *batch = xcc_build_dim_of(d->b, x, 0);
    xcc_value *channels = xcc_div(d, xcc_build_dim_of(d->b, x, 1), groups),
              *parts[XCVM_MAX_RANK + 1] = {batch, groups, channels};
    for (int i = 2; i < rank; i++)
        parts[i + 1] = xcc_build_dim_of(d->b, x, i);
    xcc_value *split = xcc_build_reshape_to(d->b, x, xcc_build_concat(d->b, (size_t)rank + 1, parts, 0));
    int64_t perm[XCVM_MAX_RANK + 1] = {2, 1, 0, 3, 4, 5, 6, 7};
    xcc_value *turned = xcc_build_transpose(d->b, split, (size_t)rank + 1, perm);
    parts[0] = channels;
    parts[1] = xcc_mul(d, groups, batch);
    for (int i = 2; i < rank; i++)
        parts[i] = xcc_build_dim_of(d->b, x, i);
    return xcc_build_reshape_to(d->b, turned, xcc_build_concat(d->b, (size_t)rank, parts, 0));
}

/* Pads x with zeros or crops it, so that no negative pads remain. */
static xcc_value *apply_pads(xcc_vjp *d, xcc_value *x, xcvm_ints *pads)
{
    static const int64_t none[2 * SPATIAL];
    bool negative = false;
    for (size_t i = 0; i < pads->count; i++)
        negative = negative || pads->at[i] < 0;
    if (!negative)
        return x;
    const size_t axes = pads->count / 2;
    xcc_value *sizes[SPATIAL];
    for (size_t i = 0; i < axes; i++)
        sizes[i] =
            xcc_add(d, xcc_build_dim_of(d->b, x, (int)i + 2), XCC_BUILD_INTS(d->b, pads->at[i] + pads->at[i + axes]));
    xcc_value *framed = xcc_window_pad(d, x, *pads, false, sizes);
    *pads = (xcvm_ints){none, pads->count};
    return framed;
}

/* Crops the spatial axes to the sizes of `like`. */
static xcc_value *cut_to(xcc_vjp *d, xcc_value *x, xcc_value *like)
{
    if (x == NULL || (x->type.rank >= 0 && xcvm_dims_known(&x->type) && xcvm_same_shape(&x->type, &like->type)))
        return x;
    const size_t axes = (size_t)like->type.rank - 2;
    static const int64_t zeros[SPATIAL], along[SPATIAL] = {2, 3, 4, 5, 6, 7};
    xcc_value *sizes[SPATIAL];
    for (size_t i = 0; i < axes; i++)
        sizes[i] = xcc_build_dim_of(d->b, like, (int)i + 2);
    return xcc_build_call(d->b, XCVM_OP_Slice, 4,
                          (xcc_value *[]){x, xcc_build_ints(d->b, axes, zeros), xcc_build_concat(d->b, axes, sizes, 0),
                                          xcc_build_ints(d->b, axes, along)});
}

/* The gradient of filter `w` from that of the result, `g`. If the filter's sizes are unknown it is a convolution with
 * strides and dilations exchanged, because g moves over the image. Its result may have extra positions at the end. */
static xcc_value *filter_gradient(xcc_vjp *d, xcc_value *image, xcc_value *g, xcc_value *w, const xcc_window *window)
{
    xcvm_ints pads = window->pads;
    xcc_value *x = apply_pads(d, image, &pads);
    const size_t axes = pads.count / 2;
    bool known = true;
    for (size_t i = 0; i < axes; i++)
        known = known && w->type.dims[2 + i] > 0;
    if (x == NULL || g == NULL)
        return NULL;
    if (known)
        return xcc_apply(d->b, ConvFilterGradient, y, .x = XCC_IN(x), .g = XCC_IN(g),
                         .kernel_shape = {w->type.dims + 2, axes}, .strides = window->strides, .pads = pads,
                         .dilations = window->dilations, .group = window->group);
    x = channels_first(d, x, window->group);
    xcc_value *filter = swap_first(d, g);
    if (x == NULL || filter == NULL)
        return NULL;
    xcc_value *sum = xcc_apply(d->b, Conv, y, .x = XCC_IN(x), .w = XCC_IN(filter), .strides = window->dilations,
                               .pads = pads, .dilations = window->strides, .group = window->group);
    return cut_to(d, swap_first(d, sum), w);
}

/* Sums over all axes except the channels. */
static xcc_value *bias_gradient(xcc_vjp *d, xcc_value *g)
{
    static const int64_t axes[] = {0, 2, 3, 4, 5, 6, 7};
    return xcc_build_reduce(d->b, XCVM_OP_ReduceSum, g, xcc_build_ints(d->b, (size_t)g->type.rank - 1, axes), false);
}

XCC_GRADIENT(Conv)
{
    const xcvm_Conv_args *a = XCC_ARGS(Conv, d->node);
    const xcc_window window = {a->strides, a->pads, a->dilations, a->group};
    if (a->activation != XCVM_ACTIVATION_none || a->affine.count > 0) {
        xcc_refuse(d, "has an activation, which only a pass after differentiation adds");
        return;
    }
    if (!xcc_vjp_need_rank(d, 0) || !xcc_vjp_need_rank(d, 1))
        return;
    if (xcc_wanted(d, 0))
        xcc_set_gradient(d, 0, xcc_window_spread(d, G, W, &window, X));
    if (xcc_wanted(d, 1))
        xcc_set_gradient(d, 1, filter_gradient(d, X, G, W, &window));
    if (xcc_wanted(d, 2))
        xcc_set_gradient(d, 2, bias_gradient(d, G));
    if (xcc_wanted(d, 3))
        xcc_set_gradient(d, 3, G);
}

XCC_GRADIENT(ConvTranspose)
{
    const xcvm_ConvTranspose_args *a = XCC_ARGS(ConvTranspose, d->node);
    if (!xcc_vjp_need_rank(d, 0) || !xcc_vjp_need_rank(d, 1))
        return;
    if ((a->auto_pad != XCVM_AUTO_PAD_NOTSET || a->output_shape.count > 0) &&
        (!xcc_vjp_need_sizes(d, X, "operand 0") || !xcc_vjp_need_sizes(d, W, "operand 1")))
        return;
    int64_t room[2 * XCVM_MAX_RANK];
    const xcc_window window = {a->strides, xcvm_transposed_pads(a, room), a->dilations, a->group};
    if (xcc_wanted(d, 0)) {
        xcvm_ints pads = window.pads;
        xcc_value *g = apply_pads(d, G, &pads);
        xcc_set_gradient(d, 0,
                         g == NULL
                             ? NULL
                             : cut_to(d,
                                      xcc_apply(d->b, Conv, y, .x = XCC_IN(g), .w = XCC_IN(W), .strides = a->strides,
                                                .pads = pads, .dilations = a->dilations, .group = a->group),
                                      X));
    }
    if (xcc_wanted(d, 1))
        xcc_set_gradient(d, 1, filter_gradient(d, G, X, W, &window));
    if (xcc_wanted(d, 2))
        xcc_set_gradient(d, 2, bias_gradient(d, G));
}

/* It is linear in the image and in g. */
XCC_GRADIENT(ConvFilterGradient)
{
    const xcvm_ConvFilterGradient_args *a = XCC_ARGS(ConvFilterGradient, d->node);
    const xcc_window window = {a->strides, a->pads, a->dilations, a->group};
    if (!xcc_vjp_need_rank(d, 0) || !xcc_vjp_need_rank(d, 1))
        return;
    if (xcc_wanted(d, 0))
        xcc_set_gradient(d, 0, xcc_window_spread(d, xcc_in(d, 1), G, &window, X));
    if (xcc_wanted(d, 1))
        xcc_set_gradient(d, 1,
                         cut_to(d,
                                xcc_apply(d->b, Conv, y, .x = XCC_IN(X), .w = XCC_IN(G), .strides = a->strides,
                                          .pads = a->pads, .dilations = a->dilations, .group = a->group),
                                xcc_in(d, 1)));
}
