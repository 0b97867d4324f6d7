/* The adjoint of broadcasting: a sum over the copies. */
#include "compiler/gradients/rule.h"

xcc_value *xcc_full_like(xcc_builder *b, xcc_value *like, double number)
{
    return xcc_build_expand(b, xcc_build_number(b, like, number), xcc_build_shape_of(b, like));
}

xcc_value *xcc_zeros_like(xcc_builder *b, xcc_value *like)
{
    if (like != NULL && like->type.kind != XCVM_KIND_TENSOR)
        return xcc_apply(b, ZerosLike, y, .x = XCC_IN(like));
    return xcc_full_like(b, like, 0);
}

xcc_value *xcc_accumulate(xcc_builder *b, xcc_value *p, xcc_value *q)
{
    const bool tensors =
        p == NULL || q == NULL || (p->type.kind == XCVM_KIND_TENSOR && q->type.kind == XCVM_KIND_TENSOR);
    return tensors ? xcc_build_add(b, p, q) : xcc_apply(b, Accumulate, y, .a = XCC_IN(p), .b = XCC_IN(q));
}

xcc_value *xcc_reshape_like(xcc_builder *b, xcc_value *v, xcc_value *like)
{
    const bool same = v != NULL && like != NULL && v->type.rank >= 0 && xcvm_same_shape(&v->type, &like->type);
    return same ? v : xcc_build_reshape_to(b, v, xcc_build_shape_of(b, like));
}

xcc_value *xcc_expand_like(xcc_builder *b, xcc_value *v, xcc_value *like)
{
    const bool same = v != NULL && like != NULL && v->type.rank >= 0 && xcvm_same_shape(&v->type, &like->type);
    return same ? v : xcc_build_expand(b, v, xcc_build_shape_of(b, like));
}

/* Computes at run time the axes of v that are missing in `like` or have size 1 there. Summing an axis of size 1 changes
 * nothing. */
static xcc_value *axes_at_run_time(xcc_builder *b, xcc_value *v, xcc_value *like)
{
    xcc_value *one = XCC_BUILD_INTS(b, 1), *shape = xcc_build_shape_of(b, like);
    xcc_value *missing = xcc_build_sub(b, xcc_build_rank_of(b, v), xcc_build_rank_of(b, like));
    xcc_value *front = xcc_build_expand(b, one, xcc_build_reshape(b, missing, one));
    xcc_value *sizes = xcc_build_concat(b, 2, (xcc_value *[]){front, shape}, 0);
    xcc_value *found = xcc_build_unary(b, XCVM_OP_NonZero, xcc_build_binary(b, XCVM_OP_Equal, sizes, one));
    return xcc_build_reshape(b, found, XCC_BUILD_INTS(b, -1));
}

static xcc_value *sum_at_run_time(xcc_builder *b, xcc_value *v, xcc_value *like)
{
    xcc_value *axes = axes_at_run_time(b, v, like);
    if (axes == NULL)
        return NULL;
    xcc_value *sum =
        xcc_apply(b, ReduceSum, y, .x = XCC_IN(v), .axes = XCC_IN(axes), .keepdims = 1, .noop_with_empty_axes = 1);
    return xcc_build_reshape_to(b, sum, xcc_build_shape_of(b, like));
}

xcc_value *xcc_sum_to(xcc_builder *b, xcc_value *v, xcc_value *like)
{
    if (v == NULL || like == NULL)
        return NULL;
    if (like->type.kind != XCVM_KIND_TENSOR) /* lists are not broadcast */
        return v;
    const xcvm_value *from = &v->type, *to = &like->type;
    if (from->rank < 0 || to->rank < 0)
        return sum_at_run_time(b, v, like);
    const int missing = from->rank - to->rank;
    int64_t axes[XCVM_MAX_RANK], leading[XCVM_MAX_RANK];
    size_t count = 0;
    for (int i = 0; i < from->rank; i++) {
        if (i < missing)
            leading[i] = i;
        const int64_t size = i < missing ? 1 : to->dims[i - missing];
        if (i >= missing && size == from->dims[i])
            continue;
        if (size < 0) /* 1 or v's size, known only at run time */
            return sum_at_run_time(b, v, like);
        if (size == 1 && from->dims[i] != 1)
            axes[count++] = i;
    }
    xcc_value *sum = count > 0 ? xcc_build_reduce(b, XCVM_OP_ReduceSum, v, xcc_build_ints(b, count, axes), true) : v;
    return xcc_build_squeeze(b, sum, missing > 0 ? (size_t)missing : 0, leading);
}
