/* Builder functions that emit several instructions. */
#include "compiler/ir/compose.h"
#include "compiler/ir/evaluate.h"
#include "ops/table/table.h"
#include "proto/arguments.h"

#include <string.h>

/* ---- Instructions ---- */

/* Folds small values that depend only on constants, so that nodes built on them know their elements. */
static xcc_value *folded(const xcc_builder *b, xcc_node *last, xcc_value *value)
{
    if (b->before == NULL && value != NULL)
        xcc_fold_behind(b->graph, last, XCC_FOLDED_BYTES);
    return value;
}

xcc_value *xcc_build_call(xcc_builder *b, xcvm_opcode opcode, size_t count, xcc_value *const *operands)
{
    const xcvm_schema *schema = xcvm_schema_of(opcode);
    void *args = xcc_alloc(b->graph->module, schema->args_size);
    if (args == NULL)
        return NULL;
    xcvm_args_default(schema, args);
    size_t next = 0, result = 0;
    for (size_t i = 0; i < schema->field_count; i++) {
        const xcvm_field *f = &schema->fields[i];
        if (f->role == XCVM_ROLE_OUT)
            result = f->offset;
        if (!xcvm_field_is_input(f) || next == count)
            continue;
        if (operands[next] == NULL)
            return NULL;
        *(const xcvm_value **)(void *)((char *)args + f->offset) = &operands[next++]->type;
    }
    xcc_node *last = b->graph->last;
    return folded(b, last, xcc_apply_at(b, opcode, args, result));
}

xcc_value *xcc_build_unary(xcc_builder *b, xcvm_opcode opcode, xcc_value *x)
{
    return xcc_build_call(b, opcode, 1, &x);
}

xcc_value *xcc_build_binary(xcc_builder *b, xcvm_opcode opcode, xcc_value *p, xcc_value *q)
{
    return xcc_build_call(b, opcode, 2, (xcc_value *[]){p, q});
}

xcc_value *xcc_build_number(xcc_builder *b, const xcc_value *like, double value)
{
    return like != NULL ? xcc_scalar(b->graph, (xcvm_dtype)like->type.dtype, value) : NULL;
}

xcc_value *xcc_build_ints(xcc_builder *b, size_t count, const int64_t *ints)
{
    return xcc_constant_i64(b->graph, count, ints);
}

xcc_value *xcc_build_strings(xcc_builder *b, int rank, size_t count, const xcvm_text *texts)
{
    size_t bytes = count * sizeof(xcvm_string);
    for (size_t i = 0; i < count; i++)
        bytes += texts[i].length;
    char *data = xcc_alloc(b->graph->module, bytes);
    if (data == NULL)
        return NULL;
    xcvm_string *spans = (xcvm_string *)(void *)data;
    size_t at = count * sizeof *spans;
    for (size_t i = 0; i < count; i++) {
        spans[i] = (xcvm_string){at, texts[i].length};
        memcpy(data + at, texts[i].at, texts[i].length);
        at += texts[i].length;
    }
    const int64_t dim = (int64_t)count;
    return xcc_constant(b->graph, NULL, XCVM_STRING, rank, &dim, data, true);
}

xcc_value *xcc_build_cast(xcc_builder *b, xcc_value *x, xcvm_dtype dtype)
{
    if (x == NULL || x->type.dtype == dtype)
        return x;
    xcc_node *last = b->graph->last;
    return folded(b, last, xcc_apply(b, Cast, y, .x = XCC_IN(x), .to = dtype, .saturate = 1));
}

xcc_value *xcc_build_shape_of(xcc_builder *b, xcc_value *x)
{
    if (x == NULL)
        return NULL;
    if (x->type.kind == XCVM_KIND_TENSOR && x->type.rank >= 0 && xcvm_dims_known(&x->type))
        return xcc_build_ints(b, (size_t)x->type.rank, x->type.dims);
    return xcc_apply(b, Shape, y, .x = XCC_IN(x), .start = 0, .end = INT64_MAX);
}

xcc_value *xcc_build_dim_of(xcc_builder *b, xcc_value *x, int axis)
{
    if (x == NULL)
        return NULL;
    const int rank = x->type.rank, at = axis < 0 ? axis + rank : axis;
    if (at >= 0 && rank > at && x->type.dims[at] >= 0)
        return xcc_build_ints(b, 1, &x->type.dims[at]);
    return xcc_apply(b, Shape, y, .x = XCC_IN(x), .start = axis, .end = axis == -1 ? INT64_MAX : axis + 1);
}

xcc_value *xcc_build_rank_of(xcc_builder *b, xcc_value *x)
{
    if (x == NULL)
        return NULL;
    if (x->type.rank >= 0)
        return xcc_scalar_i64(b->graph, x->type.rank);
    xcc_value *shape = xcc_build_shape_of(b, x);
    return xcc_build_unary(b, XCVM_OP_Size, shape);
}

xcc_value *xcc_build_reshape(xcc_builder *b, xcc_value *x, xcc_value *shape)
{
    if (x == NULL || shape == NULL)
        return NULL;
    xcc_node *last = b->graph->last;
    return folded(b, last, xcc_apply(b, Reshape, y, .x = XCC_IN(x), .shape = XCC_IN(shape)));
}

xcc_value *xcc_build_reshape_to(xcc_builder *b, xcc_value *x, xcc_value *shape)
{
    if (x == NULL || shape == NULL)
        return NULL;
    xcc_node *last = b->graph->last;
    return folded(b, last, xcc_apply(b, Reshape, y, .x = XCC_IN(x), .shape = XCC_IN(shape), .allowzero = 1));
}

xcc_value *xcc_build_expand(xcc_builder *b, xcc_value *x, xcc_value *shape)
{
    return xcc_build_binary(b, XCVM_OP_Expand, x, shape);
}

xcc_value *xcc_build_unsqueeze(xcc_builder *b, xcc_value *x, size_t count, const int64_t *axes)
{
    return count == 0 ? x : xcc_build_binary(b, XCVM_OP_Unsqueeze, x, xcc_build_ints(b, count, axes));
}

xcc_value *xcc_build_squeeze(xcc_builder *b, xcc_value *x, size_t count, const int64_t *axes)
{
    return count == 0 ? x : xcc_build_binary(b, XCVM_OP_Squeeze, x, xcc_build_ints(b, count, axes));
}

xcc_value *xcc_build_transpose(xcc_builder *b, xcc_value *x, size_t count, const int64_t *perm)
{
    size_t i = 0;
    while (i < count && perm[i] == (int64_t)i)
        i++;
    if (x == NULL || i == count)
        return x;
    return xcc_apply(b, Transpose, y, .x = XCC_IN(x), .perm = {perm, count});
}

xcc_value *xcc_build_heads_apart(xcc_builder *b, xcc_value *x, int64_t heads)
{
    xcc_value *y = xcc_build_reshape(b, x, XCC_BUILD_INTS(b, 0, 0, heads, -1));
    return xcc_build_transpose(b, y, 4, (const int64_t[]){0, 2, 1, 3});
}

xcc_value *xcc_build_heads_together(xcc_builder *b, xcc_value *x)
{
    xcc_value *y = xcc_build_transpose(b, x, 4, (const int64_t[]){0, 2, 1, 3});
    return xcc_build_reshape(b, y, XCC_BUILD_INTS(b, 0, 0, -1));
}

xcc_value *xcc_build_reduce(xcc_builder *b, xcvm_opcode opcode, xcc_value *x, xcc_value *axes, bool keepdims)
{
    if (x == NULL)
        return NULL;
    /* All reductions have the same arguments. */
    xcvm_ReduceSum_args args = {.x = XCC_IN(x), .axes = XCC_IN(axes), .keepdims = keepdims};
    return xcc_apply_at(b, opcode, &args, offsetof(xcvm_ReduceSum_args, y));
}

xcc_value *xcc_build_gather(xcc_builder *b, xcc_value *x, xcc_value *indices, int64_t axis)
{
    if (x == NULL || indices == NULL)
        return NULL;
    xcc_node *last = b->graph->last;
    return folded(b, last, xcc_apply(b, Gather, y, .x = XCC_IN(x), .indices = XCC_IN(indices), .axis = axis));
}

xcc_value *xcc_build_slice(xcc_builder *b, xcc_value *x, int64_t axis, int64_t start, int64_t end, int64_t step)
{
    return xcc_build_call(b, XCVM_OP_Slice, 5,
                          (xcc_value *[]){x, xcc_build_ints(b, 1, &start), xcc_build_ints(b, 1, &end),
                                          xcc_build_ints(b, 1, &axis), xcc_build_ints(b, 1, &step)});
}

/* Concatenates constants of rank 1. */
static xcc_value *concat_constants(xcc_builder *b, size_t count, xcc_value *const *values)
{
    size_t total = 0;
    for (size_t i = 0; i < count; i++)
        total += (size_t)values[i]->type.dims[0];
    int64_t *ints = xcc_alloc(b->graph->module, total * sizeof *ints);
    if (ints == NULL)
        return NULL;
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        memcpy(ints + at, values[i]->type.data, values[i]->type.bytes);
        at += (size_t)values[i]->type.dims[0];
    }
    return xcc_build_ints(b, total, ints);
}

xcc_value *xcc_build_concat(xcc_builder *b, size_t count, xcc_value *const *values, int64_t axis)
{
    bool constant = axis == 0;
    const xcvm_value **list = xcc_alloc(b->graph->module, count * sizeof *list);
    if (list == NULL)
        return NULL;
    for (size_t i = 0; i < count; i++) {
        if (values[i] == NULL)
            return NULL;
        list[i] = &values[i]->type;
        constant = constant && xcc_is_constant(values[i]) && list[i]->dtype == XCVM_I64 && list[i]->rank == 1;
    }
    if (constant)
        return concat_constants(b, count, values);
    return count == 1 ? values[0] : xcc_apply(b, Concat, y, .xs = {list, count}, .axis = axis);
}

xcc_value *xcc_build_axes_from(xcc_builder *b, xcc_value *x, int64_t first)
{
    if (x == NULL)
        return NULL;
    if (x->type.rank >= 0) {
        int64_t axes[XCVM_MAX_RANK];
        size_t count = 0;
        for (int64_t i = first; i < x->type.rank; i++)
            axes[count++] = i;
        return xcc_build_ints(b, count, axes);
    }
    return xcc_build_call(
        b, XCVM_OP_Range, 3,
        (xcc_value *[]){xcc_scalar_i64(b->graph, first), xcc_build_rank_of(b, x), xcc_scalar_i64(b->graph, 1)});
}

/* ---- Properties ---- */

bool xcc_is_low_rank_product(const xcc_value *v, const xcvm_value **a, const xcvm_value **b)
{
    const xcc_node *n = v->producer;
    if (!xcc_is(n, XCVM_OP_Gemm) || v->type.rank != 2 || (v->type.dtype != XCVM_F32 && v->type.dtype != XCVM_F64))
        return false;
    const xcvm_Gemm_args *g = XCC_ARGS(Gemm, n);
    const bool plain = g->c == NULL && g->activation == XCVM_ACTIVATION_none && g->alpha == 1.0 && g->transA != 0 &&
                       g->transB == 0 && g->a->rank == 2 && g->b->rank == 2;
    if (!plain || g->a->dims[0] < 1 || g->a->dims[0] > XCC_FEW_TERMS)
        return false;
    *a = g->a;
    *b = g->b;
    return true;
}

bool xcc_constant_number(const xcc_value *value, double *number)
{
    if (!xcc_is_constant(value) || !xcvm_dtype_in(value->type.dtype, XCVM_TYPES_REAL_OR_BOOL) ||
        xcvm_element_count(&value->type) != 1 || value->type.data == NULL)
        return false;
    *number = value->type.dtype == XCVM_BOOL ? (double)*XCVM_CDATA(bool, &value->type)
                                             : xcvm_element_as_double(&value->type, 0);
    return true;
}

bool xcc_is_empty_constant(const xcc_value *value)
{
    return xcc_is_constant(value) && value->type.kind == XCVM_KIND_TENSOR && xcvm_element_count(&value->type) == 0;
}
