/* Building blocks of lowerings that need several instructions. */
#include "compiler/onnx/lower/lower.h"
#include "proto/arguments.h"

#include <string.h>

/* ---- Instructions ---- */

/* What is small and depends on constants alone is one itself, so that what is built on it knows its elements. */
static xcc_value *settled(const xcc_lowering *n, xcc_node *last, xcc_value *value)
{
    if (n->b.before == NULL && value != NULL)
        xcc_fold_behind(n->b.graph, last, XCC_FOLDED_BYTES);
    return value;
}

xcc_value *xcc_low_call(xcc_lowering *n, xcvm_opcode opcode, size_t count, xcc_value *const *operands)
{
    const xcvm_row *row = xcvm_row_of(opcode);
    void *args = xcc_alloc(n->m, row->args_size);
    if (args == NULL)
        return NULL;
    xcvm_args_default(row, args);
    size_t next = 0, result = 0;
    for (size_t i = 0; i < row->field_count; i++) {
        const xcvm_field *f = &row->fields[i];
        if (f->role == XCVM_ROLE_OUT)
            result = f->offset;
        if (!xcvm_field_is_input(f) || next == count)
            continue;
        if (operands[next] == NULL)
            return NULL;
        *(const xcvm_value **)(void *)((char *)args + f->offset) = &operands[next++]->type;
    }
    xcc_node *last = n->b.graph->last;
    return settled(n, last, xcc_apply_at(&n->b, opcode, args, result));
}

xcc_value *xcc_low_unary(xcc_lowering *n, xcvm_opcode opcode, xcc_value *x) { return xcc_low_call(n, opcode, 1, &x); }

xcc_value *xcc_low_binary(xcc_lowering *n, xcvm_opcode opcode, xcc_value *a, xcc_value *b)
{
    return xcc_low_call(n, opcode, 2, (xcc_value *[]){a, b});
}

xcc_value *xcc_low_number(xcc_lowering *n, const xcc_value *like, double value)
{
    return like != NULL ? xcc_scalar(n->b.graph, (xcvm_dtype)like->type.dtype, value) : NULL;
}

xcc_value *xcc_low_ints(xcc_lowering *n, size_t count, const int64_t *ints)
{
    return xcc_constant_i64(n->b.graph, count, ints);
}

xcc_value *xcc_low_cast(xcc_lowering *n, xcc_value *x, xcvm_dtype dtype)
{
    if (x == NULL || x->type.dtype == dtype)
        return x;
    xcc_node *last = n->b.graph->last;
    return settled(n, last, xcc_apply(&n->b, Cast, y, .x = XCC_IN(x), .to = dtype, .saturate = 1));
}

xcc_value *xcc_low_shape_of(xcc_lowering *n, xcc_value *x)
{
    if (x == NULL)
        return NULL;
    if (x->type.kind == XCVM_KIND_TENSOR && x->type.rank >= 0 && xcvm_dims_known(&x->type))
        return xcc_low_ints(n, (size_t)x->type.rank, x->type.dims);
    return xcc_apply(&n->b, Shape, y, .x = XCC_IN(x), .start = 0, .end = INT64_MAX);
}

xcc_value *xcc_low_dim_of(xcc_lowering *n, xcc_value *x, int axis)
{
    if (x == NULL)
        return NULL;
    const int rank = x->type.rank, at = axis < 0 ? axis + rank : axis;
    if (at >= 0 && rank > at && x->type.dims[at] >= 0)
        return xcc_low_ints(n, 1, &x->type.dims[at]);
    return xcc_apply(&n->b, Shape, y, .x = XCC_IN(x), .start = axis, .end = axis == -1 ? INT64_MAX : axis + 1);
}

xcc_value *xcc_low_rank_of(xcc_lowering *n, xcc_value *x)
{
    if (x == NULL)
        return NULL;
    if (x->type.rank >= 0)
        return xcc_scalar_i64(n->b.graph, x->type.rank);
    xcc_value *shape = xcc_low_shape_of(n, x);
    return xcc_low_unary(n, XCVM_OP_Size, shape);
}

xcc_value *xcc_low_reshape(xcc_lowering *n, xcc_value *x, xcc_value *shape)
{
    if (x == NULL || shape == NULL)
        return NULL;
    xcc_node *last = n->b.graph->last;
    return settled(n, last, xcc_apply(&n->b, Reshape, y, .x = XCC_IN(x), .shape = XCC_IN(shape)));
}

xcc_value *xcc_low_reshape_to(xcc_lowering *n, xcc_value *x, xcc_value *shape)
{
    if (x == NULL || shape == NULL)
        return NULL;
    xcc_node *last = n->b.graph->last;
    return settled(n, last, xcc_apply(&n->b, Reshape, y, .x = XCC_IN(x), .shape = XCC_IN(shape), .allowzero = 1));
}

xcc_value *xcc_low_expand(xcc_lowering *n, xcc_value *x, xcc_value *shape)
{
    return xcc_low_binary(n, XCVM_OP_Expand, x, shape);
}

xcc_value *xcc_low_unsqueeze(xcc_lowering *n, xcc_value *x, size_t count, const int64_t *axes)
{
    return count == 0 ? x : xcc_low_binary(n, XCVM_OP_Unsqueeze, x, xcc_low_ints(n, count, axes));
}

xcc_value *xcc_low_squeeze(xcc_lowering *n, xcc_value *x, size_t count, const int64_t *axes)
{
    return count == 0 ? x : xcc_low_binary(n, XCVM_OP_Squeeze, x, xcc_low_ints(n, count, axes));
}

xcc_value *xcc_low_transpose(xcc_lowering *n, xcc_value *x, size_t count, const int64_t *perm)
{
    size_t i = 0;
    while (i < count && perm[i] == (int64_t)i)
        i++;
    if (x == NULL || i == count)
        return x;
    return xcc_apply(&n->b, Transpose, y, .x = XCC_IN(x), .perm = {perm, count});
}

xcc_value *xcc_low_reduce(xcc_lowering *n, xcvm_opcode opcode, xcc_value *x, xcc_value *axes, bool keepdims)
{
    if (x == NULL)
        return NULL;
    /* Reductions have their arguments in common. */
    xcvm_ReduceSum_args args = {.x = XCC_IN(x), .axes = XCC_IN(axes), .keepdims = keepdims};
    return xcc_apply_at(&n->b, opcode, &args, offsetof(xcvm_ReduceSum_args, y));
}

xcc_value *xcc_low_gather(xcc_lowering *n, xcc_value *x, xcc_value *indices, int64_t axis)
{
    if (x == NULL || indices == NULL)
        return NULL;
    xcc_node *last = n->b.graph->last;
    return settled(n, last, xcc_apply(&n->b, Gather, y, .x = XCC_IN(x), .indices = XCC_IN(indices), .axis = axis));
}

xcc_value *xcc_low_slice(xcc_lowering *n, xcc_value *x, int64_t axis, int64_t start, int64_t end, int64_t step)
{
    return xcc_low_call(n, XCVM_OP_Slice, 5,
                        (xcc_value *[]){x, xcc_low_ints(n, 1, &start), xcc_low_ints(n, 1, &end),
                                        xcc_low_ints(n, 1, &axis), xcc_low_ints(n, 1, &step)});
}

/* All values constants of rank 1, which are joined here. */
static xcc_value *concat_constants(xcc_lowering *n, size_t count, xcc_value *const *values)
{
    size_t total = 0;
    for (size_t i = 0; i < count; i++)
        total += (size_t)values[i]->type.dims[0];
    int64_t *ints = xcc_alloc(n->m, total * sizeof *ints);
    if (ints == NULL)
        return NULL;
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        memcpy(ints + at, values[i]->type.data, values[i]->type.bytes);
        at += (size_t)values[i]->type.dims[0];
    }
    return xcc_low_ints(n, total, ints);
}

xcc_value *xcc_low_concat(xcc_lowering *n, size_t count, xcc_value *const *values, int64_t axis)
{
    bool constant = axis == 0;
    const xcvm_value **list = xcc_alloc(n->m, count * sizeof *list);
    if (list == NULL)
        return NULL;
    for (size_t i = 0; i < count; i++) {
        if (values[i] == NULL)
            return NULL;
        list[i] = &values[i]->type;
        constant = constant && xcc_is_constant(values[i]) && list[i]->dtype == XCVM_I64 && list[i]->rank == 1;
    }
    if (constant)
        return concat_constants(n, count, values);
    return count == 1 ? values[0] : xcc_apply(&n->b, Concat, y, .xs = {list, count}, .axis = axis);
}

xcc_value *xcc_low_axes_from(xcc_lowering *n, xcc_value *x, int64_t first)
{
    if (x == NULL)
        return NULL;
    if (x->type.rank >= 0) {
        int64_t axes[XCVM_MAX_RANK];
        size_t count = 0;
        for (int64_t i = first; i < x->type.rank; i++)
            axes[count++] = i;
        return xcc_low_ints(n, count, axes);
    }
    return xcc_low_call(
        n, XCVM_OP_Range, 3,
        (xcc_value *[]){xcc_scalar_i64(n->b.graph, first), xcc_low_rank_of(n, x), xcc_scalar_i64(n->b.graph, 1)});
}

/* ---- Facts ---- */

bool xcc_constant_number(const xcc_value *value, double *number)
{
    if (!xcc_is_constant(value) || !xcvm_dtype_in(value->type.dtype, XCVM_TYPES_REAL_OR_BOOL) ||
        xcvm_element_count(&value->type) != 1)
        return false;
    *number = value->type.dtype == XCVM_BOOL ? (double)*XCVM_CDATA(bool, &value->type)
                                             : xcvm_element_as_double(&value->type, 0);
    return true;
}

bool xcc_is_empty_constant(const xcc_value *value)
{
    return xcc_is_constant(value) && value->type.kind == XCVM_KIND_TENSOR && xcvm_element_count(&value->type) == 0;
}

xcvm_status xcc_need_axis(xcc_lowering *n, int64_t axis, int rank, int64_t *resolved)
{
    XCC_NEED(n, axis >= -rank && axis < rank, OUT_OF_RANGE, "axis is %lld, %d to %d is expected", (long long)axis,
             -rank, rank - 1);
    *resolved = axis < 0 ? axis + rank : axis;
    return XCVM_OK;
}

xcvm_status xcc_need_rank(const xcc_lowering *n, const xcc_value *value, const char *what)
{
    XCC_NEED(n, value->type.kind == XCVM_KIND_TENSOR, TYPE_MISMATCH, "%s is no tensor", what);
    XCC_NEED(n, value->type.rank >= 0, UNSUPPORTED, "the number of dimensions of %s is not known at compile time",
             what);
    return XCVM_OK;
}
