/* Gradients of selection and repetition: gradients are scattered into zeros, and those of copies are summed. */
#include "compiler/gradients/rule.h"

#include <string.h>

#define ARGS(Name) const xcvm_##Name##_args *a = XCC_ARGS(Name, d->node)
#define G xcc_g(d)
#define X xcc_in(d, 0)

/* Reshapes to a list; a scalar becomes a list of one element. */
static xcc_value *flat(xcc_vjp *d, xcc_value *v) { return xcc_build_reshape(d->b, v, XCC_BUILD_INTS(d->b, -1)); }

/* The product of dimensions [first, last) of x as a list of one element. */
static xcc_value *product_of(xcc_vjp *d, xcc_value *x, int first, int last)
{
    xcc_value *product = XCC_BUILD_INTS(d->b, 1);
    for (int i = first; i < last; i++)
        product = xcc_mul(d, product, xcc_build_dim_of(d->b, x, i));
    return product;
}

/* 0 ... n - 1, where n is the size of an axis. */
static xcc_value *positions(xcc_vjp *d, xcc_value *x, int axis)
{
    xcc_value *n = xcc_build_reshape(d->b, xcc_build_dim_of(d->b, x, axis), xcc_build_ints(d->b, 0, NULL));
    return xcc_build_call(d->b, XCVM_OP_Range, 3,
                          (xcc_value *[]){xcc_scalar_i64(d->b->graph, 0), n, xcc_scalar_i64(d->b->graph, 1)});
}

static xcc_value *scatter_nd(xcc_vjp *d, xcc_value *x, xcc_value *indices, xcc_value *updates, int reduction)
{
    if (x == NULL || indices == NULL || updates == NULL)
        return NULL;
    return xcc_apply(d->b, ScatterND, y, .x = XCC_IN(x), .indices = XCC_IN(indices), .updates = XCC_IN(updates),
                     .reduction = reduction);
}

static xcc_value *scatter_elements(xcc_vjp *d, xcc_value *x, xcc_value *indices, xcc_value *updates, int64_t axis,
                                   int reduction)
{
    if (x == NULL || indices == NULL || updates == NULL)
        return NULL;
    return xcc_apply(d->b, ScatterElements, y, .x = XCC_IN(x), .indices = XCC_IN(indices), .updates = XCC_IN(updates),
                     .axis = axis, .reduction = reduction);
}

static xcc_value *gather_elements(xcc_vjp *d, xcc_value *x, xcc_value *indices, int64_t axis)
{
    if (x == NULL || indices == NULL)
        return NULL;
    return xcc_apply(d->b, GatherElements, y, .x = XCC_IN(x), .indices = XCC_IN(indices), .axis = axis);
}

static xcc_value *zeros_of(xcc_vjp *d, const xcc_value *like, xcc_value *shape)
{
    return xcc_build_expand(d->b, xcc_num(d, like, 0), shape);
}

/* The gradient of x from that of its slices at the list `indices` along `axis`; `g` has x's other axes. */
static xcc_value *scatter_along(xcc_vjp *d, xcc_value *x, xcc_value *g, xcc_value *indices, int axis)
{
    const int rank = x->type.rank;
    xcc_value *before = product_of(d, x, 0, axis), *behind = product_of(d, x, axis + 1, rank);
    xcc_value *size = xcc_build_dim_of(d->b, x, axis), *taken = xcc_build_unary(d->b, XCVM_OP_Size, indices);
    taken = flat(d, taken);
    const bool turned = axis > 0;
    xcc_value *rows =
        xcc_build_reshape_to(d->b, g, xcc_build_concat(d->b, 3, (xcc_value *[]){before, taken, behind}, 0));
    if (turned)
        rows = xcc_build_transpose(d->b, rows, 3, (const int64_t[]){1, 0, 2});
    xcc_value *zeros = zeros_of(d, g, xcc_build_concat(d->b, 3, (xcc_value *[]){size, before, behind}, 0));
    xcc_value *at = xcc_build_unsqueeze(d->b, xcc_build_cast(d->b, indices, XCVM_I64), 1, (const int64_t[]){1});
    if (!turned) {
        rows = xcc_build_squeeze(d->b, xcc_build_transpose(d->b, rows, 3, (const int64_t[]){1, 0, 2}), 1,
                                 (const int64_t[]){1});
        zeros = xcc_build_squeeze(d->b, zeros, 1, (const int64_t[]){1});
    }
    xcc_value *sum = scatter_nd(d, zeros, at, rows, XCVM_REDUCTION_add);
    if (turned)
        sum = xcc_build_transpose(d->b, sum, 3, (const int64_t[]){1, 0, 2});
    return xcc_reshape_like(d->b, sum, x);
}

/* ---- Concatenation and splitting ---- */

/* Sizes of all operands on an axis as a list: one constant if they are known, because there may be thousands. */
static xcc_value *sizes_along(xcc_vjp *d, int axis)
{
    const size_t count = xcc_node_input_count(d->node);
    xcc_module *m = d->b->graph->module;
    int64_t *known = xcc_alloc(m, count * sizeof *known);
    xcc_value **sizes = xcc_alloc(m, count * sizeof *sizes);
    bool all = true;
    for (size_t i = 0; i < count && known != NULL; i++) {
        const xcvm_value *type = &xcc_in(d, i)->type;
        known[i] = type->rank > axis ? type->dims[axis] : XCVM_ANY_DIM;
        all = all && known[i] >= 0;
    }
    if (known == NULL || sizes == NULL)
        return NULL;
    if (all)
        return xcc_build_ints(d->b, count, known);
    for (size_t i = 0; i < count; i++)
        sizes[i] = xcc_build_dim_of(d->b, xcc_in(d, i), axis);
    return xcc_build_concat(d->b, count, sizes, 0);
}

XCC_GRADIENT(Concat)
{
    ARGS(Concat);
    const size_t count = a->xs.count;
    xcvm_value **pieces = xcc_alloc(d->b->graph->module, count * sizeof *pieces);
    if (pieces == NULL || !xcc_vjp_need_rank(d, 0)) {
        d->failed = d->failed || pieces == NULL;
        return;
    }
    const int axis = (int)(a->axis < 0 ? a->axis + X->type.rank : a->axis);
    for (size_t i = 0; i < count; i++)
        pieces[i] = XCC_OUT(xcc_value_create(d->b->graph, NULL));
    xcc_value *split = sizes_along(d, axis);
    if (split == NULL ||
        xcc_emit(d->b, Split, .ys = {pieces, count}, .x = XCC_IN(G), .split = XCC_IN(split), .axis = axis) == NULL)
        d->failed = true;
    for (size_t i = 0; i < count && !d->failed; i++)
        if (xcc_wanted(d, i))
            xcc_set_gradient(d, i, xcc_value_of(pieces[i]));
}

XCC_GRADIENT(Split)
{
    ARGS(Split);
    xcc_value **pieces = xcc_alloc(d->b->graph->module, a->ys.count * sizeof *pieces);
    for (size_t i = 0; pieces != NULL && i < a->ys.count; i++)
        pieces[i] = d->results[i] != NULL ? d->results[i] : xcc_zeros_like(d->b, xcc_out(d, i));
    xcc_set_gradient(d, 0, pieces != NULL ? xcc_build_concat(d->b, a->ys.count, pieces, a->axis) : NULL);
}

/* The axes of a Slice or a Pad. Refuses and returns false if they are known only at run time. */
static bool read_axes(xcc_vjp *d, const xcvm_value *axes, int64_t *list, size_t *count)
{
    const int rank = X->type.rank;
    if (axes == NULL) {
        const xcvm_value *each = XCC_IN(xcc_in(d, 1)); /* starts; or pads, two per axis */
        *count = each->rank >= 0 && xcvm_dims_known(each) ? xcvm_element_count(each) : (size_t)rank;
        if (xcc_is(d->node, XCVM_OP_Pad))
            *count = (size_t)rank;
        for (size_t i = 0; i < *count; i++)
            list[i] = (int64_t)i;
        return true;
    }
    if (axes->data == NULL || axes->rank != 1 || axes->dims[0] > XCVM_MAX_RANK) {
        xcc_refuse(d, "has a gradient that needs the axes, which depend on the run");
        return false;
    }
    *count = (size_t)axes->dims[0];
    for (size_t i = 0; i < *count; i++) {
        list[i] = axes->dtype == XCVM_I32 ? XCVM_CDATA(int32_t, axes)[i] : XCVM_CDATA(int64_t, axes)[i];
        list[i] += list[i] < 0 ? rank : 0;
    }
    return true;
}

/* An element of a constant list; false if it is unknown. */
static bool constant_at(const xcvm_value *list, size_t i, int64_t *value)
{
    if (list == NULL || list->data == NULL || i >= xcvm_element_count(list))
        return false;
    *value = list->dtype == XCVM_I32 ? XCVM_CDATA(int32_t, list)[i] : XCVM_CDATA(int64_t, list)[i];
    return true;
}

/* Pads the gradient of a Slice with step 1 on axes of known size with zeros; false otherwise. */
static bool pad_slice(xcc_vjp *d, const xcvm_Slice_args *a, const int64_t *axes, size_t count)
{
    int64_t pads[2 * XCVM_MAX_RANK];
    for (size_t i = 0; i < count; i++) {
        int64_t start, step = 1;
        const int64_t size = a->x->dims[axes[i]], taken = a->y->dims[axes[i]];
        if (size < 0 || taken < 0 || !constant_at(a->starts, i, &start) ||
            (a->steps != NULL && !constant_at(a->steps, i, &step)) || step != 1)
            return false;
        start = start < 0 ? start + size : start;
        start = start < 0 ? 0 : start > size ? size : start;
        pads[i] = taken > 0 ? start : size;
        pads[i + count] = size - taken - pads[i];
    }
    xcc_value *to = xcc_build_ints(d->b, 2 * count, pads), *along = xcc_build_ints(d->b, count, axes);
    xcc_set_gradient(d, 0,
                     to == NULL || along == NULL
                         ? NULL
                         : xcc_apply(d->b, Pad, y, .x = XCC_IN(G), .pads = XCC_IN(to), .axes = XCC_IN(along)));
    return true;
}

XCC_GRADIENT(Slice)
{
    ARGS(Slice);
    int64_t axes[XCVM_MAX_RANK];
    size_t count;
    if (!xcc_vjp_need_rank(d, 0) || !read_axes(d, a->axes, axes, &count) || pad_slice(d, a, axes, count))
        return;
    /* Otherwise axis by axis: the selected positions are the slice of all positions. */
    xcc_value *g = G, *shape = xcc_build_shape_of(d->b, X), *sliced = xcc_build_shape_of(d->b, xcc_out(d, 0));
    for (size_t i = 0; i < count; i++) {
        const int64_t one = (int64_t)i, axis = axes[i];
        xcc_value *at = XCC_BUILD_INTS(d->b, one), *zero = XCC_BUILD_INTS(d->b, 0);
        xcc_value *start = xcc_build_gather(d->b, xcc_value_of(a->starts), at, 0);
        xcc_value *end = xcc_build_gather(d->b, xcc_value_of(a->ends), at, 0), *step = NULL;
        if (start == NULL || end == NULL) {
            d->failed = true;
            return;
        }
        if (a->steps != NULL && (step = xcc_build_gather(d->b, xcc_value_of(a->steps), at, 0)) == NULL) {
            d->failed = true;
            return;
        }
        zero = xcc_build_cast(d->b, zero, (xcvm_dtype)start->type.dtype);
        xcc_value *all = positions(d, X, (int)axis);
        if (all == NULL || zero == NULL) {
            d->failed = true;
            return;
        }
        xcc_value *taken = xcc_apply(d->b, Slice, y, .x = XCC_IN(all), .starts = XCC_IN(start), .ends = XCC_IN(end),
                                     .axes = XCC_IN(zero), .steps = XCC_IN(step));
        /* The shape after this axis: processed axes have x's sizes, the others the slice's. */
        xcc_value *sizes[XCVM_MAX_RANK];
        for (int k = 0; k < X->type.rank; k++) {
            bool done = true;
            for (size_t j = i + 1; j < count; j++)
                done = done && axes[j] != k;
            sizes[k] = xcc_build_gather(d->b, done ? shape : sliced, XCC_BUILD_INTS(d->b, k), 0);
        }
        xcc_value *wide = zeros_of(d, G, xcc_build_concat(d->b, (size_t)X->type.rank, sizes, 0));
        if (wide == NULL || taken == NULL) {
            d->failed = true;
            return;
        }
        g = scatter_along(d, wide, g, taken, (int)axis);
    }
    xcc_set_gradient(d, 0, count > 0 ? xcc_reshape_like(d->b, g, X) : g);
}

/* ---- Repetition ---- */

XCC_GRADIENT(Expand) { xcc_set_gradient(d, 0, xcc_sum_to(d->b, G, X)); }

/* Axis by axis: copies are adjacent, [before, copies, size and all axes after]. */
XCC_GRADIENT(Tile)
{
    ARGS(Tile);
    if (!xcc_vjp_need_rank(d, 0))
        return;
    const int rank = X->type.rank;
    xcc_value *g = G;
    for (int i = 0; i < rank; i++) {
        int64_t known;
        if (constant_at(a->repeats, (size_t)i, &known) && known == 1)
            continue;
        xcc_value *copies = xcc_build_gather(d->b, xcc_value_of(a->repeats), XCC_BUILD_INTS(d->b, i), 0);
        xcc_value *behind = xcc_mul(d, xcc_build_dim_of(d->b, X, i), product_of(d, xcc_out(d, 0), i + 1, rank));
        xcc_value *parts[] = {product_of(d, X, 0, i), copies, behind};
        g = xcc_build_reshape_to(d->b, g, xcc_build_concat(d->b, 3, parts, 0));
        g = xcc_sum(d, g, XCC_BUILD_INTS(d->b, 1));
    }
    xcc_set_gradient(d, 0, xcc_reshape_like(d->b, g, X));
}

/* Removes added elements, and pads removed ones with zeros. */
static void set_padded(xcc_vjp *d, const xcvm_Pad_args *a)
{
    xcc_value *back = xcc_neg(d, xcc_value_of(a->pads));
    xcc_value *inner =
        back == NULL ? NULL : xcc_apply(d->b, Pad, y, .x = XCC_IN(G), .pads = XCC_IN(back), .axes = a->axes);
    if (xcc_wanted(d, 0))
        xcc_set_gradient(d, 0, inner);
    if (xcc_wanted(d, 2)) {
        xcc_value *rest = xcc_sub(d, xcc_build_reduce(d->b, XCVM_OP_ReduceSum, G, NULL, false),
                                  xcc_build_reduce(d->b, XCVM_OP_ReduceSum, inner, NULL, false));
        xcc_set_gradient(d, 2, xcc_reshape_like(d->b, rest, xcc_in(d, 2)));
    }
}

/* In other modes, padding the positions of an axis gives the positions of x that y's elements come from. */
XCC_GRADIENT(Pad)
{
    ARGS(Pad);
    int64_t axes[XCVM_MAX_RANK];
    size_t count;
    if (a->mode == XCVM_PAD_MODE_constant) {
        set_padded(d, a);
        return;
    }
    if (!xcc_vjp_need_rank(d, 0) || !read_axes(d, a->axes, axes, &count))
        return;
    xcc_value *g = G, *shape = xcc_build_shape_of(d->b, X), *padded = xcc_build_shape_of(d->b, xcc_out(d, 0));
    for (size_t i = 0; i < count && g != NULL; i++) {
        const int64_t ends[] = {(int64_t)i, (int64_t)(i + count)};
        xcc_value *pads = xcc_build_gather(d->b, xcc_value_of(a->pads), xcc_build_ints(d->b, 2, ends), 0);
        xcc_value *all = positions(d, X, (int)axes[i]), *sizes[XCVM_MAX_RANK];
        for (int k = 0; k < X->type.rank; k++) {
            bool done = true;
            for (size_t j = i + 1; j < count; j++)
                done = done && axes[j] != k;
            sizes[k] = xcc_build_gather(d->b, done ? shape : padded, XCC_BUILD_INTS(d->b, k), 0);
        }
        xcc_value *wide = zeros_of(d, G, xcc_build_concat(d->b, (size_t)X->type.rank, sizes, 0));
        xcc_value *taken = pads == NULL || all == NULL
                               ? NULL
                               : xcc_apply(d->b, Pad, y, .x = XCC_IN(all), .pads = XCC_IN(pads), .mode = a->mode);
        g = wide == NULL || taken == NULL ? NULL : scatter_along(d, wide, g, taken, (int)axes[i]);
    }
    xcc_set_gradient(d, 0, g);
}

XCC_GRADIENT(Trilu)
{
    ARGS(Trilu);
    xcc_set_gradient(d, 0, xcc_apply(d->b, Trilu, y, .x = XCC_IN(G), .k = a->k, .upper = a->upper));
}

/* ---- Indexing ---- */

XCC_GRADIENT(Gather)
{
    ARGS(Gather);
    if (!xcc_vjp_need_rank(d, 0))
        return;
    xcc_value *list = flat(d, xcc_in(d, 1));
    const int axis = (int)(a->axis < 0 ? a->axis + X->type.rank : a->axis);
    xcc_set_gradient(d, 0, list != NULL ? scatter_along(d, X, G, list, axis) : NULL);
}

XCC_GRADIENT(GatherElements)
{
    ARGS(GatherElements);
    xcc_set_gradient(d, 0, scatter_elements(d, xcc_zeros_like(d->b, X), xcc_in(d, 1), G, a->axis, XCVM_REDUCTION_add));
}

/* Index tuples for all of x: batch axes, which the indices omit, are merged and counted. */
XCC_GRADIENT(GatherND)
{
    ARGS(GatherND);
    xcc_value *indices = xcc_in(d, 1), *zeros = xcc_zeros_like(d->b, X), *g = G;
    const int batch = (int)a->batch_dims;
    if (batch == 0) {
        xcc_set_gradient(d, 0, scatter_nd(d, zeros, indices, g, XCVM_REDUCTION_add));
        return;
    }
    if (!xcc_vjp_need_rank(d, 0) || !xcc_vjp_need_rank(d, 1))
        return;
    const int tuples = indices->type.rank - 1;
    if (indices->type.dims[tuples] < 0) {
        xcc_refuse(d, "has a gradient that needs the length of index tuples, which is not known");
        return;
    }
    /* x as [batches, rest of x], the tuples as a list per batch. */
    xcc_value *batches = product_of(d, X, 0, batch), *each = product_of(d, indices, batch, tuples);
    xcc_value *length = xcc_build_dim_of(d->b, indices, tuples), *one = XCC_BUILD_INTS(d->b, 1),
              *rest[XCVM_MAX_RANK + 1];
    rest[0] = batches;
    for (int i = batch; i < X->type.rank; i++)
        rest[1 + i - batch] = xcc_build_dim_of(d->b, X, i);
    zeros = xcc_build_reshape_to(d->b, zeros, xcc_build_concat(d->b, (size_t)(1 + X->type.rank - batch), rest, 0));
    indices = xcc_build_reshape_to(d->b, indices, xcc_build_concat(d->b, 3, (xcc_value *[]){batches, each, length}, 0));
    xcc_value *number =
        zeros == NULL ? NULL : xcc_build_unsqueeze(d->b, positions(d, zeros, 0), 2, (const int64_t[]){1, 2});
    number = xcc_build_expand(d->b, number, xcc_build_concat(d->b, 3, (xcc_value *[]){batches, each, one}, 0));
    xcc_value *full = xcc_build_concat(d->b, 2, (xcc_value *[]){number, indices}, 2), *shape[XCVM_MAX_RANK + 2];
    const int depth = (int)xcc_in(d, 1)->type.dims[tuples];
    shape[0] = batches;
    shape[1] = each;
    int count = 2;
    for (int i = batch + depth; i < X->type.rank; i++)
        shape[count++] = xcc_build_dim_of(d->b, X, i);
    g = xcc_build_reshape_to(d->b, g, xcc_build_concat(d->b, (size_t)count, shape, 0));
    xcc_set_gradient(d, 0, xcc_reshape_like(d->b, scatter_nd(d, zeros, full, g, XCVM_REDUCTION_add), X));
}

XCC_GRADIENT(Compress)
{
    ARGS(Compress);
    xcc_value *taken = flat(d, xcc_op1(d, XCVM_OP_NonZero, xcc_in(d, 1)));
    xcc_value *x = a->axis < -XCVM_MAX_RANK ? flat(d, X) : X;
    if (x == NULL || taken == NULL) {
        d->failed = true;
        return;
    }
    if (a->axis >= -XCVM_MAX_RANK && !xcc_vjp_need_rank(d, 0))
        return;
    const int axis = a->axis < -XCVM_MAX_RANK ? 0 : (int)(a->axis < 0 ? a->axis + X->type.rank : a->axis);
    xcc_set_gradient(d, 0, xcc_reshape_like(d->b, scatter_along(d, x, G, taken, axis), X));
}

XCC_GRADIENT(TopK)
{
    ARGS(TopK);
    xcc_value *indices = xcc_extra_result(d, 1);
    xcc_set_gradient(d, 0, scatter_elements(d, xcc_zeros_like(d->b, X), indices, G, a->axis, XCVM_REDUCTION_none));
}

XCC_GRADIENT(MaxUnpool)
{
    xcc_value *at = flat(d, xcc_in(d, 1));
    xcc_set_gradient(d, 0, xcc_reshape_like(d->b, gather_elements(d, flat(d, G), at, 0), X));
}

/* Sums of the gradient at the selected positions, and elsewhere. */
XCC_GRADIENT(OneHot)
{
    ARGS(OneHot);
    xcc_value *pair = xcc_build_cast(d->b, XCC_BUILD_INTS(d->b, 0, 1), (xcvm_dtype)G->type.dtype);
    xcc_value *mask = pair == NULL ? NULL
                                   : xcc_apply(d->b, OneHot, y, .indices = a->indices, .depth = a->depth,
                                               .values = XCC_IN(pair), .axis = a->axis);
    xcc_value *on = xcc_build_reduce(d->b, XCVM_OP_ReduceSum, xcc_mul(d, G, mask), NULL, false);
    xcc_value *off =
        xcc_build_reduce(d->b, XCVM_OP_ReduceSum, xcc_mul(d, G, xcc_sub(d, xcc_num(d, G, 1), mask)), NULL, false);
    xcc_set_gradient(d, 2, xcc_build_concat(d->b, 2, (xcc_value *[]){flat(d, off), flat(d, on)}, 0));
}
