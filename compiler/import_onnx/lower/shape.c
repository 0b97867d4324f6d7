/* Shapes and indexing: attributes that became operands, and operators without an instruction. */
#include "compiler/import_onnx/lower/lower.h"

static int64_t bound(int64_t position, int64_t rank)
{
    position = position < 0 ? position + rank : position;
    return position < 0 ? 0 : position > rank ? rank : position;
}

/* A constant where the dimensions are known. */
xcvm_status xcc_lower_shape(xcc_lowering *n)
{
    int64_t start, end;
    XCVM_TRY(xcc_need_inputs(n, 1, 1));
    XCVM_TRY(xcc_attribute_int(n, "start", 0, &start));
    XCVM_TRY(xcc_attribute_int(n, "end", INT64_MAX, &end));
    const xcvm_value *x = &n->inputs[0]->type;
    bool known = x->kind == XCVM_KIND_TENSOR && x->rank >= 0;
    if (known) {
        start = bound(start, x->rank);
        end = bound(end, x->rank);
    }
    for (int64_t i = start; known && i < end; i++)
        known = x->dims[i] >= 0;
    if (known)
        return xcc_bind(n, 0, xcc_build_ints(&n->b, end > start ? (size_t)(end - start) : 0, x->dims + start));
    return xcc_lower_one_to_one(n);
}

xcvm_status xcc_lower_size(xcc_lowering *n)
{
    XCVM_TRY(xcc_need_inputs(n, 1, 1));
    const xcvm_value *x = &n->inputs[0]->type;
    if (x->kind == XCVM_KIND_TENSOR && x->rank >= 0 && xcvm_dims_known(x))
        return xcc_bind(n, 0, xcc_scalar_i64(n->b.graph, (int64_t)xcvm_element_count(x)));
    return xcc_lower_one_to_one(n);
}

xcvm_status xcc_lower_reshape(xcc_lowering *n)
{
    if (n->version >= 5)
        return xcc_lower_one_to_one(n);
    xcvm_ints shape;
    XCVM_TRY(xcc_need_inputs(n, 1, 1));
    XCVM_TRY(xcc_attribute_ints(n, "shape", &shape));
    XCVM_TRY(xcc_set_input(n, 1, xcc_build_ints(&n->b, shape.count, shape.at)));
    return xcc_lower_one_to_one(n);
}

/* Squeeze and Unsqueeze. */
xcvm_status xcc_lower_axes_attribute(xcc_lowering *n)
{
    XCVM_TRY(xcc_attribute_to_input(n, "axes", 1, 13));
    return xcc_lower_one_to_one(n);
}

xcvm_status xcc_lower_split(xcc_lowering *n)
{
    int64_t pieces;
    if (n->version > 1 || xcc_input(n, 1) == NULL) {
        XCVM_TRY(xcc_attribute_to_input(n, "split", 1, 13));
    } else { /* an operand of the type of x */
        xcc_attribute_ignore(n, "split");
        XCVM_TRY(xcc_set_input(n, 1, xcc_build_cast(&n->b, n->inputs[1], XCVM_I64)));
    }
    XCVM_TRY(xcc_attribute_int(n, "num_outputs", (int64_t)n->output_count, &pieces));
    XCVM_CHECK(n->m->error, n->version < 18 || pieces == (int64_t)n->proto->n_output, INVALID_MODEL,
               "attribute 'num_outputs' is %lld, but the node has %zu results", (long long)pieces, n->proto->n_output);
    /* Unused pieces count, too. */
    n->output_count = n->proto->n_output;
    return xcc_lower_one_to_one(n);
}

xcvm_status xcc_lower_slice(xcc_lowering *n)
{
    if (n->version < 10) {
        XCVM_CHECK(n->m->error, xcc_attribute_find(n, "starts") != NULL && xcc_attribute_find(n, "ends") != NULL,
                   INVALID_MODEL, "attributes 'starts' and 'ends' are needed");
        XCVM_TRY(xcc_attribute_to_input(n, "starts", 1, 10));
        XCVM_TRY(xcc_attribute_to_input(n, "ends", 2, 10));
        XCVM_TRY(xcc_attribute_to_input(n, "axes", 3, 10));
    }
    return xcc_lower_one_to_one(n);
}

xcvm_status xcc_lower_pad(xcc_lowering *n)
{
    if (n->version >= 11)
        return xcc_lower_one_to_one(n);
    double value;
    XCVM_TRY(xcc_need_inputs(n, 1, 1));
    XCVM_TRY(xcc_attribute_to_input(n, n->version == 1 ? "paddings" : "pads", 1, 11));
    XCVM_TRY(xcc_attribute_float(n, "value", 0, &value));
    if (value != 0)
        XCVM_TRY(xcc_set_input(n, 2, xcc_build_number(&n->b, n->inputs[0], value)));
    return xcc_lower_one_to_one(n);
}

/* The first version repeats along one axis, which is an operand. */
xcvm_status xcc_lower_tile(xcc_lowering *n)
{
    if (n->version >= 6)
        return xcc_lower_one_to_one(n);
    XCVM_TRY(xcc_need_inputs(n, 3, 3));
    xcc_value *times = xcc_build_cast(&n->b, n->inputs[1], XCVM_I64),
              *axis = xcc_build_cast(&n->b, n->inputs[2], XCVM_I64);
    xcc_value *is_axis = xcc_build_binary(&n->b, XCVM_OP_Equal, xcc_build_axes_from(&n->b, n->inputs[0], 0), axis);
    xcc_value *repeats =
        xcc_build_call(&n->b, XCVM_OP_Where, 3, (xcc_value *[]){is_axis, times, xcc_scalar_i64(n->b.graph, 1)});
    return xcc_bind(n, 0, xcc_build_binary(&n->b, XCVM_OP_Tile, n->inputs[0], repeats));
}

xcvm_status xcc_lower_transpose(xcc_lowering *n)
{
    int64_t reversed[XCVM_MAX_RANK];
    XCC_ONE_TO_ONE_ARGS(n, Transpose, args);
    const int rank = args.x->rank;
    if (args.perm.count == 0 && rank > 0) {
        for (int i = 0; i < rank; i++)
            reversed[i] = rank - 1 - i;
        args.perm = (xcvm_ints){reversed, (size_t)rank};
    }
    return XCC_EMIT_ONE_TO_ONE(n, Transpose, args);
}

xcvm_status xcc_lower_concat(xcc_lowering *n)
{
    bool given = xcc_attribute_find(n, "axis") != NULL;
    XCVM_CHECK(n->m->error, given || n->version < 4, INVALID_MODEL, "attribute 'axis' is missing");
    XCC_ONE_TO_ONE_ARGS(n, Concat, args);
    if (!given)
        args.axis = 1;
    return XCC_EMIT_ONE_TO_ONE(n, Concat, args);
}

xcvm_status xcc_lower_scatter(xcc_lowering *n) { return xcc_lower_as(n, XCVM_OP_ScatterElements); }

/* The first version has k as an attribute. */
xcvm_status xcc_lower_top_k(xcc_lowering *n)
{
    if (n->version < 10) {
        int64_t k;
        XCVM_TRY(xcc_need_inputs(n, 1, 1));
        XCVM_CHECK(n->m->error, xcc_attribute_find(n, "k") != NULL, INVALID_MODEL, "attribute 'k' is missing");
        XCVM_TRY(xcc_attribute_int(n, "k", 0, &k));
        XCVM_TRY(xcc_set_input(n, 1, xcc_build_ints(&n->b, 1, &k)));
    }
    return xcc_lower_one_to_one(n);
}

/* Number of elements of the sorted vector that precede each value; all are compared with all. */
xcvm_status xcc_lower_search_sorted(xcc_lowering *n)
{
    xcvm_text side;
    XCVM_TRY(xcc_need_inputs(n, 2, 3));
    XCVM_TRY(xcc_attribute_text(n, "side", "left", &side));
    const bool left = xcc_text_is(side, "left");
    XCVM_CHECK(n->m->error, left || xcc_text_is(side, "right"), INVALID_MODEL,
               "attribute 'side' is '%.60s'; expected left or right", side.at);
    xcc_value *sorted = n->inputs[0], *sorter = xcc_input(n, 2);
    if (sorter != NULL)
        sorted = xcc_build_gather(&n->b, sorted, sorter, 0);
    xcc_value *values = xcc_build_unsqueeze(&n->b, n->inputs[1], 1, (const int64_t[]){-1});
    xcc_value *before = xcc_build_binary(&n->b, left ? XCVM_OP_Less : XCVM_OP_LessOrEqual, sorted, values);
    before = xcc_build_cast(&n->b, before, XCVM_I64);
    return xcc_bind(n, 0, xcc_build_reduce(&n->b, XCVM_OP_ReduceSum, before, XCC_BUILD_INTS(&n->b, -1), false));
}

/* Crops where the requested shape is smaller, and pads where it is larger, both around the center. */
xcvm_status xcc_lower_center_crop_pad(xcc_lowering *n)
{
    xcvm_ints given;
    XCVM_TRY(xcc_need_inputs(n, 2, 2));
    XCVM_TRY(xcc_attribute_ints(n, "axes", &given));
    xcc_value *x = n->inputs[0], *shape = xcc_build_cast(&n->b, n->inputs[1], XCVM_I64);
    xcc_value *axes;
    if (given.count > 0) {
        XCVM_CHECK(n->m->error, x->type.rank < 0 || given.count <= (size_t)x->type.rank, INVALID_MODEL,
                   "attribute 'axes' has %zu entries for %d dimensions", given.count, x->type.rank);
        for (size_t i = 0; i < given.count && x->type.rank >= 0; i++) {
            int64_t resolved;
            XCVM_TRY(xcc_need_axis(n, given.at[i], x->type.rank, &resolved));
        }
        axes = xcc_build_ints(&n->b, given.count, given.at);
    } else {
        axes = xcc_build_axes_from(&n->b, x, 0);
    }
    xcc_value *zero = xcc_scalar_i64(n->b.graph, 0), *two = xcc_scalar_i64(n->b.graph, 2);
    xcc_value *size = xcc_build_gather(&n->b, xcc_build_shape_of(&n->b, x), axes, 0);
    xcc_value *less = xcc_build_binary(&n->b, XCVM_OP_Max, xcc_build_sub(&n->b, size, shape), zero);
    xcc_value *more = xcc_build_binary(&n->b, XCVM_OP_Max, xcc_build_sub(&n->b, shape, size), zero);
    xcc_value *start = xcc_build_div(&n->b, less, two);
    xcc_value *end = xcc_build_add(&n->b, start, xcc_build_binary(&n->b, XCVM_OP_Min, shape, size));
    xcc_value *cut = xcc_build_call(&n->b, XCVM_OP_Slice, 4, (xcc_value *[]){x, start, end, axes});
    xcc_value *before = xcc_build_div(&n->b, more, two);
    xcc_value *pads = xcc_build_concat(&n->b, 2, (xcc_value *[]){before, xcc_build_sub(&n->b, more, before)}, 0);
    if (cut == NULL || pads == NULL)
        return xcc_failure(n);
    return xcc_bind(n, 0, xcc_apply(&n->b, Pad, y, .x = XCC_IN(cut), .pads = XCC_IN(pads), .axes = XCC_IN(axes)));
}
