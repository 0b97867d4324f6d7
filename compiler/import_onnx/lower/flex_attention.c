/* FlexAttention: attention whose scores and probabilities pass through graphs of the model. */
#include "compiler/import_onnx/lower/lower.h"

#include <math.h>

/* Applies the graph attribute to `value`, whose type must not change. Returns the value itself if there is no such
 * attribute. */
static xcvm_status modify(xcc_lowering *n, const char *name, xcc_value **value)
{
    const Onnx__GraphProto *graph;
    xcc_value **outputs;
    if (xcc_attribute_find(n, name) == NULL)
        return XCVM_OK;
    const int dtype = (int)(*value)->type.dtype;
    XCVM_TRY(xcc_attribute_graph(n, name, &graph));
    XCVM_CHECK(n->m->error, graph->n_output == 1, INVALID_MODEL, "the graph '%s' has %zu results; expected 1", name,
               graph->n_output);
    XCVM_TRY(xcc_lower_body(n, graph, n->b.graph, 1, value, &outputs));
    *value = outputs[0];
    XCVM_CHECK(n->m->error, (int)(*value)->type.dtype == dtype, TYPE_MISMATCH,
               "the result of the graph '%s' is %s; expected %s", name,
               xcvm_dtype_name((xcvm_dtype)(*value)->type.dtype), xcvm_dtype_name((xcvm_dtype)dtype));
    return XCVM_OK;
}

/* Queries of the heads that share keys, one after another: [batch, heads, length, size] as [batch, key heads, -1,
 * size].
 */
static xcc_value *grouped(xcc_lowering *n, xcc_value *x, xcc_value *k)
{
    xcc_value *dims[4] = {xcc_build_dim_of(&n->b, x, 0), xcc_build_dim_of(&n->b, k, 1), XCC_BUILD_INTS(&n->b, -1),
                          xcc_build_dim_of(&n->b, x, 3)};
    return xcc_build_reshape(&n->b, x, xcc_build_concat(&n->b, 4, dims, 0));
}

/* Back, with the batches, heads and lengths of q. */
static xcc_value *ungrouped(xcc_lowering *n, xcc_value *x, xcc_value *q)
{
    xcc_value *dims[4] = {xcc_build_dim_of(&n->b, q, 0), xcc_build_dim_of(&n->b, q, 1), xcc_build_dim_of(&n->b, q, 2),
                          XCC_BUILD_INTS(&n->b, -1)};
    return xcc_build_reshape(&n->b, x, xcc_build_concat(&n->b, 4, dims, 0));
}

/* x by the square root of the scale, as the definition has it for both q and k. */
static xcc_value *scaled(xcc_lowering *n, xcc_value *x, xcc_value *root) { return xcc_build_mul(&n->b, x, root); }

static xcc_value *root_of_scale(xcc_lowering *n, xcc_value *q, double scale)
{
    if (!isnan(scale))
        return xcc_build_number(&n->b, q, sqrt(scale));
    if (q->type.rank == 4 && q->type.dims[3] > 0)
        return xcc_build_number(&n->b, q, pow((double)q->type.dims[3], -0.25));
    xcc_value *size = xcc_build_cast(&n->b, xcc_build_dim_of(&n->b, q, 3), (xcvm_dtype)q->type.dtype);
    return xcc_build_binary(&n->b, XCVM_OP_Pow, size, xcc_build_number(&n->b, q, -0.25));
}

xcvm_status xcc_lower_flex_attention(xcc_lowering *n)
{
    XCVM_TRY(xcc_need_inputs(n, 3, 3));
    xcc_value *q = n->inputs[0], *k = n->inputs[1], *v = n->inputs[2];
    const xcvm_dtype dtype = (xcvm_dtype)q->type.dtype;
    XCVM_CHECK(n->m->error, xcvm_dtype_in(dtype, XCVM_TYPES_FLOAT), TYPE_MISMATCH, "Q is %s, a float is needed",
               xcvm_dtype_name(dtype));
    if (xcc_attribute_find(n, "score_mod") == NULL && xcc_attribute_find(n, "prob_mod") == NULL)
        return xcc_lower_attention(n);
    xcvm_dtype precision;
    double scale;
    XCVM_TRY(xcc_attribute_dtype(n, "softmax_precision", dtype == XCVM_F64 ? XCVM_F64 : XCVM_F32, &precision));
    XCVM_TRY(xcc_attribute_float(n, "scale", NAN, &scale));
    const xcvm_dtype wide = dtype == XCVM_F64 ? XCVM_F64 : XCVM_F32;
    const bool shared =
        q->type.rank != 4 || k->type.rank != 4 || q->type.dims[1] < 0 || q->type.dims[1] != k->type.dims[1];
    q = xcc_build_cast(&n->b, q, wide);
    k = xcc_build_cast(&n->b, k, wide);
    if (q == NULL || k == NULL)
        return xcc_failure(n);
    xcc_value *root = root_of_scale(n, q, scale), *queries = scaled(n, shared ? grouped(n, q, k) : q, root);
    xcc_value *keys = xcc_build_transpose(&n->b, scaled(n, k, root), 4, (const int64_t[]){0, 1, 3, 2});
    xcc_value *scores = xcc_build_binary(&n->b, XCVM_OP_MatMul, queries, keys);
    if (shared)
        scores = ungrouped(n, scores, q);
    if ((scores = xcc_build_cast(&n->b, scores, precision)) == NULL)
        return xcc_failure(n);
    XCVM_TRY(modify(n, "score_mod", &scores));
    xcc_value *probabilities = xcc_apply(&n->b, Softmax, y, .x = XCC_IN(scores), .axis = 3);
    if (probabilities == NULL)
        return xcc_failure(n);
    XCVM_TRY(modify(n, "prob_mod", &probabilities));
    if (shared)
        probabilities = grouped(n, probabilities, k);
    xcc_value *y = xcc_build_binary(&n->b, XCVM_OP_MatMul, probabilities, xcc_build_cast(&n->b, v, precision));
    return xcc_bind(n, 0, xcc_build_cast(&n->b, shared ? ungrouped(n, y, q) : y, dtype));
}
