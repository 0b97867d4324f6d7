/* The gradient of a convolution's filter, as products: each position of the filter meets a part of the image that is
 * strided like the windows. */
#include "compiler/gradients/windows.h"

#include <string.h>

enum {
    SPATIAL = XCVM_MAX_RANK - 2,
    MOST_POSITIONS = 64, /* of a filter; each is some nodes */
    COLUMNS = 256        /* of one product, where single positions have fewer */
};

/* The walk over the positions of a filter. `image` has its pads, and its spatial axes from `first` on. */
typedef struct positions {
    xcc_vjp *d;
    const xcc_window *window;
    const int64_t *kernel, *out; /* sizes, one for each axis */
    xcc_value *image;
    int first;
} positions;

static int64_t count_positions(const positions *p)
{
    int64_t count = 1;
    for (size_t i = 0; i < p->window->strides.count; i++)
        count *= p->kernel[i];
    return count;
}

/* What of the image position `index` of the filter meets, in the order of windows. */
static xcc_value *met(const positions *p, int64_t index)
{
    const size_t axes = p->window->strides.count;
    int64_t starts[SPATIAL], ends[SPATIAL], along[SPATIAL];
    bool all = true;
    for (size_t i = axes; i-- > 0; index /= p->kernel[i]) {
        starts[i] = index % p->kernel[i] * p->window->dilations.at[i];
        ends[i] = starts[i] + (p->out[i] - 1) * p->window->strides.at[i] + 1;
        along[i] = p->first + (int64_t)i;
        all = all && starts[i] == 0 && p->image->type.dims[along[i]] == p->out[i];
    }
    if (all)
        return p->image;
    xcc_builder *b = p->d->b;
    return xcc_build_call(b, XCVM_OP_Slice, 5,
                          (xcc_value *[]){p->image, xcc_build_ints(b, axes, starts), xcc_build_ints(b, axes, ends),
                                          xcc_build_ints(b, axes, along),
                                          xcc_build_ints(b, axes, p->window->strides.at)});
}

/* With zeros, or without what pads below 0 take away. */
static xcc_value *padded(xcc_vjp *d, xcc_value *x, xcvm_ints pads, int first)
{
    const size_t axes = pads.count / 2;
    int64_t along[SPATIAL];
    bool any = false;
    for (size_t i = 0; i < pads.count; i++)
        any = any || pads.at[i] != 0;
    for (size_t i = 0; i < axes; i++)
        along[i] = first + (int64_t)i;
    xcc_value *by = xcc_build_ints(d->b, pads.count, pads.at), *axis = xcc_build_ints(d->b, axes, along);
    if (!any || x == NULL || by == NULL || axis == NULL)
        return x;
    return xcc_apply(d->b, Pad, y, .x = XCC_IN(x), .pads = XCC_IN(by), .axes = XCC_IN(axis));
}

/* Channels as columns, all else as rows. */
static xcc_value *channels_last(xcc_vjp *d, xcc_value *x)
{
    int64_t perm[XCVM_MAX_RANK] = {0};
    const int rank = x->type.rank;
    for (int i = 1; i < rank - 1; i++)
        perm[i] = i + 1;
    perm[rank - 1] = 1;
    return xcc_build_transpose(d->b, x, (size_t)rank, perm);
}

static xcc_value *as_rows(xcc_vjp *d, xcc_value *x, int64_t columns)
{
    return xcc_build_reshape(d->b, x, XCC_BUILD_INTS(d->b, -1, columns));
}

/* One group: some positions side by side are the columns of one product. */
static xcc_value *by_products(positions *p, xcc_value *image, xcc_value *g, xcc_value *w)
{
    xcc_vjp *d = p->d;
    const int64_t inputs = image->type.dims[1], outputs = g->type.dims[1], count = count_positions(p);
    const int64_t together = inputs >= COLUMNS ? 1 : COLUMNS / inputs;
    xcc_value *rows = as_rows(d, channels_last(d, g), outputs), *parts[MOST_POSITIONS], *products[MOST_POSITIONS];
    size_t made = 0;
    p->first = 1;
    if ((p->image = padded(d, channels_last(d, image), p->window->pads, 1)) == NULL)
        return NULL;
    for (int64_t at = 0; at < count; at += together) {
        size_t part = 0;
        for (int64_t i = at; i < count && i < at + together; i++)
            parts[part++] = as_rows(d, met(p, i), inputs);
        xcc_value *columns = xcc_build_concat(d->b, part, parts, 1);
        if (rows == NULL || columns == NULL)
            return NULL;
        products[made++] =
            xcc_apply(d->b, Gemm, y, .a = XCC_IN(rows), .b = XCC_IN(columns), .alpha = 1, .beta = 1, .transA = 1);
    }
    xcc_value *all = xcc_build_reshape(d->b, xcc_build_concat(d->b, made, products, 1),
                                       XCC_BUILD_INTS(d->b, outputs, count, inputs));
    return xcc_reshape_like(d->b, xcc_build_transpose(d->b, all, 3, (const int64_t[]){0, 2, 1}), w);
}

/* A channel for each group: no more than sums of products of elements. */
static xcc_value *by_elements(positions *p, xcc_value *image, xcc_value *g, xcc_value *w)
{
    static const int64_t others[] = {0, 2, 3, 4, 5, 6, 7};
    xcc_vjp *d = p->d;
    const int64_t count = count_positions(p), column[] = {1};
    xcc_value *sums[MOST_POSITIONS];
    p->first = 2;
    if ((p->image = padded(d, image, p->window->pads, 2)) == NULL)
        return NULL;
    for (int64_t i = 0; i < count; i++) {
        xcc_value *axes = xcc_build_ints(d->b, (size_t)g->type.rank - 1, others);
        xcc_value *sum = xcc_build_reduce(d->b, XCVM_OP_ReduceSum, xcc_mul(d, g, met(p, i)), axes, false);
        sums[i] = xcc_build_unsqueeze(d->b, sum, 1, column);
    }
    return xcc_reshape_like(d->b, xcc_build_concat(d->b, (size_t)count, sums, 1), w);
}

bool xcc_filter_by_products(xcc_vjp *d, xcc_value *image, xcc_value *g, xcc_value *w, const xcc_window *window,
                            xcc_value **gradient)
{
    const xcvm_value *from = &image->type, *to = &g->type, *filter = &w->type;
    const bool known = xcvm_dims_known(from) && xcvm_dims_known(to) && xcvm_dims_known(filter);
    if (!known || xcvm_element_count(from) == 0 || xcvm_element_count(to) == 0 || xcvm_element_count(filter) == 0)
        return false;
    positions p = {.d = d, .window = window, .kernel = filter->dims + 2, .out = to->dims + 2};
    const bool depthwise = from->dims[1] == window->group && to->dims[1] == window->group;
    if (count_positions(&p) > MOST_POSITIONS || (window->group != 1 && !depthwise))
        return false;
    *gradient = window->group == 1 ? by_products(&p, image, g, w) : by_elements(&p, image, g, w);
    return true;
}
