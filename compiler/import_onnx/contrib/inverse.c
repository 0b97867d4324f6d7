/* Inverse: matrices inverted by elimination with pivots, all of a batch at once, one column after the other. */
#include "compiler/import_onnx/contrib/contrib.h"
#include "compiler/import_onnx/lower/loop.h"

/* The matrices [batch, n, 2 * n], augmented by the unit matrix, some of whose columns are already reduced. */
typedef struct elimination {
    xcc_value *rows; /* 0 ... n - 1 */
} elimination;

/* Returns which rows are selected by `row` [batch or 1, 1], as [batch or 1, n, 1]. */
static xcc_value *marked(xcc_lowering *n, const elimination *e, xcc_value *row)
{
    return xcc_build_unsqueeze(&n->b, xcc_build_binary(&n->b, XCVM_OP_Equal, e->rows, row), 1, (const int64_t[]){2});
}

static xcc_value *chosen(xcc_lowering *n, xcc_value *condition, xcc_value *x, xcc_value *y)
{
    return xcc_build_call(&n->b, XCVM_OP_Where, 3, (xcc_value *[]){condition, x, y});
}

static xcvm_status fill_step(xcc_lowering *n, xcc_node *loop, void *context)
{
    const elimination *e = context;
    xcc_value *const *parameters = loop->bodies[0]->inputs;
    xcc_value *k = xcc_build_reshape(&n->b, parameters[0], XCC_BUILD_INTS(&n->b, 1)), *m = parameters[2];
    /* The greatest element of the column, from its own row on. */
    xcc_value *column = xcc_build_gather(&n->b, m, k, 2);
    xcc_value *size = xcc_build_squeeze(&n->b, xcc_build_unary(&n->b, XCVM_OP_Abs, column), 1, (const int64_t[]){2});
    xcc_value *late = xcc_build_binary(&n->b, XCVM_OP_GreaterOrEqual, e->rows, k);
    size = chosen(n, late, size, xcc_build_number(&n->b, m, -1));
    if (size == NULL)
        return xcc_failure(n);
    xcc_value *pivot = xcc_apply(&n->b, ArgMax, y, .x = XCC_IN(size), .axis = 1, .keepdims = 1);
    xcc_value *at_pivot = marked(n, e, pivot),
              *at_k = marked(n, e, xcc_build_unsqueeze(&n->b, k, 1, (const int64_t[]){0})),
              *axis = XCC_BUILD_INTS(&n->b, 1);
    xcc_value *only = chosen(n, at_pivot, m, xcc_build_number(&n->b, m, 0));
    xcc_value *row = xcc_build_reduce(&n->b, XCVM_OP_ReduceSum, only, axis, true);
    xcc_value *swapped = chosen(n, at_k, row, chosen(n, at_pivot, xcc_build_gather(&n->b, m, k, 1), m));
    xcc_value *unit = xcc_build_div(&n->b, row, xcc_build_gather(&n->b, row, k, 2));
    xcc_value *multiple = xcc_build_mul(&n->b, xcc_build_gather(&n->b, swapped, k, 2), unit);
    xcc_value *next = chosen(n, at_k, unit, xcc_build_sub(&n->b, swapped, multiple));
    return next != NULL ? xcc_build_loop_outputs(n, loop, 1, &next) : xcc_failure(n);
}

xcvm_status xcc_lower_contrib_inverse(xcc_lowering *n)
{
    XCVM_TRY(xcc_need_inputs(n, 1, 1));
    XCVM_TRY(xcc_contrib_need_ranks(n, n->inputs[0], "X", 2, XCVM_MAX_RANK));
    xcc_value *x = n->inputs[0], *rows = xcc_build_dim_of(&n->b, x, -2), *columns = xcc_build_dim_of(&n->b, x, -1);
    XCVM_CHECK(n->m->error, xcvm_dtype_in((xcvm_dtype)x->type.dtype, XCVM_TYPES_FLOAT), TYPE_MISMATCH,
               "X is %s, a float is needed", xcvm_dtype_name((xcvm_dtype)x->type.dtype));
    if (x->type.rank >= 0) {
        const int64_t *dims = x->type.dims + x->type.rank - 2;
        XCVM_CHECK(n->m->error, dims[0] < 0 || dims[1] < 0 || dims[0] == dims[1], SHAPE_MISMATCH,
                   "matrices of %lld x %lld have no inverse", (long long)dims[0], (long long)dims[1]);
    }
    const xcvm_dtype dtype = x->type.dtype == XCVM_F64 ? XCVM_F64 : XCVM_F32;
    xcc_value *batch =
        xcc_build_reshape(&n->b, xcc_build_cast(&n->b, x, dtype),
                          xcc_build_concat(&n->b, 3, (xcc_value *[]){XCC_BUILD_INTS(&n->b, -1), rows, columns}, 0));
    xcc_value *count = xcc_build_squeeze(&n->b, rows, 1, (const int64_t[]){0}), *one = xcc_scalar_i64(n->b.graph, 1);
    elimination e = {
        xcc_build_call(&n->b, XCVM_OP_Range, 3, (xcc_value *[]){xcc_scalar_i64(n->b.graph, 0), count, one})};
    xcc_value *across = xcc_build_unsqueeze(&n->b, e.rows, 1, (const int64_t[]){1});
    xcc_value *unit = xcc_build_cast(&n->b, xcc_build_binary(&n->b, XCVM_OP_Equal, across, e.rows), dtype);
    unit = xcc_build_expand(&n->b, unit, xcc_build_shape_of(&n->b, batch));
    xcc_value *inputs[3] = {count, NULL, xcc_build_concat(&n->b, 2, (xcc_value *[]){batch, unit}, 2)};
    xcc_value **results = xcc_build_values(n, 1);
    const xcc_loop_body body = {fill_step, &e};
    if (count == NULL || inputs[2] == NULL || results == NULL)
        return xcc_failure(n);
    XCVM_TRY(xcc_build_loop(n, 3, inputs, 1, results, &body));
    xcc_value *all = XCC_BUILD_INTS(&n->b, INT64_MAX), *last = XCC_BUILD_INTS(&n->b, 2);
    xcc_value *y = xcc_build_call(&n->b, XCVM_OP_Slice, 4, (xcc_value *[]){results[0], columns, all, last});
    y = xcc_build_cast(&n->b, y, (xcvm_dtype)x->type.dtype);
    return xcc_bind(n, 0, xcc_build_reshape_to(&n->b, y, xcc_build_shape_of(&n->b, x)));
}
