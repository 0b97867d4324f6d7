/* Window operations shared by the gradients of convolutions and pools. */
#include "compiler/gradients/windows.h"

enum { SPATIAL = XCVM_MAX_RANK - 2 };

xcc_value *xcc_window_pad(xcc_vjp *d, xcc_value *x, xcvm_ints pads, bool back, xcc_value *const *sizes)
{
    const size_t axes = pads.count / 2;
    xcc_value *list[2 * SPATIAL];
    int64_t along[SPATIAL];
    for (size_t i = 0; i < axes; i++) {
        list[i] = XCC_BUILD_INTS(d->b, back ? -pads.at[i] : pads.at[i]);
        list[i + axes] = xcc_sub(d, sizes[i], xcc_add(d, xcc_build_dim_of(d->b, x, (int)i + 2), list[i]));
        along[i] = (int64_t)i + 2;
    }
    xcc_value *to = xcc_build_concat(d->b, 2 * axes, list, 0), *spatial = xcc_build_ints(d->b, axes, along);
    if (x == NULL || to == NULL || spatial == NULL)
        return NULL;
    return xcc_apply(d->b, Pad, y, .x = XCC_IN(x), .pads = XCC_IN(to), .axes = XCC_IN(spatial));
}

/* Computes by how much the image exceeds the reach of the windows, if it is known and output_padding can express it. */
static bool find_rest(const xcvm_value *g, const xcvm_value *w, const xcc_window *window, const xcvm_value *image,
                      int64_t *rest)
{
    const size_t axes = window->strides.count;
    for (size_t i = 0; i < axes; i++) {
        const int64_t in = image->rank > 0 ? image->dims[2 + i] : -1, out = g->rank > 0 ? g->dims[2 + i] : -1;
        const int64_t size = w->rank > 0 ? w->dims[2 + i] : -1, stride = window->strides.at[i];
        if (in < 0 || out < 1 || size < 0)
            return false;
        const int64_t reach = (out - 1) * stride + (size - 1) * window->dilations.at[i] + 1;
        rest[i] = in - (reach - window->pads.at[i] - window->pads.at[i + axes]);
        if (rest[i] < 0 || rest[i] >= stride || window->pads.at[i] < 0 || window->pads.at[i + axes] < 0)
            return false;
    }
    return true;
}

xcc_value *xcc_window_spread(xcc_vjp *d, xcc_value *g, xcc_value *w, const xcc_window *window, xcc_value *image)
{
    const size_t axes = window->strides.count;
    int64_t rest[SPATIAL];
    if (g == NULL || w == NULL || image == NULL)
        return NULL;
    if (find_rest(&g->type, &w->type, window, &image->type, rest))
        return xcc_apply(d->b, ConvTranspose, y, .x = XCC_IN(g), .w = XCC_IN(w), .strides = window->strides,
                         .pads = window->pads, .dilations = window->dilations, .output_padding = {rest, axes},
                         .group = window->group);
    static const int64_t none[2 * SPATIAL];
    xcc_value *all = xcc_apply(d->b, ConvTranspose, y, .x = XCC_IN(g), .w = XCC_IN(w), .strides = window->strides,
                               .pads = {none, 2 * axes}, .dilations = window->dilations, .output_padding = {none, axes},
                               .group = window->group);
    xcc_value *sizes[SPATIAL];
    for (size_t i = 0; i < axes; i++)
        sizes[i] = xcc_build_dim_of(d->b, image, (int)i + 2);
    return all != NULL ? xcc_window_pad(d, all, window->pads, true, sizes) : NULL;
}
