/* Gradient of LinearAttention by a formula: one token after another updates and reads a matrix per head. */
#include "compiler/gradients/rule.h"

#include <math.h>

enum { MOST_TOKENS = 1024 };

typedef struct tokens {
    xcc_vjp *d;
    const xcvm_LinearAttention_args *a;
    int64_t count, heads, kv_heads;
    xcvm_dtype dtype; /* computation type */
} tokens;

/* Splits an operand [batch, tokens, heads * width] into [batch, heads, width, 1] per token, or into columns. It uses
 * one Split instead of item accesses, so that the gradient is assembled once. NULL for NULL. */
static xcc_value **split(const tokens *t, xcc_value *x, int64_t heads)
{
    xcc_vjp *d = t->d;
    xcc_module *m = d->b->graph->module;
    xcc_value **pieces = xcc_alloc(m, (size_t)t->count * sizeof *pieces);
    xcvm_value **outs = xcc_alloc(m, (size_t)t->count * sizeof *outs);
    x = xcc_build_cast(d->b, x, t->dtype);
    if (pieces == NULL || outs == NULL || x == NULL) {
        d->failed = true;
        return NULL;
    }
    if (t->count == 0)
        return pieces;
    for (int64_t i = 0; i < t->count; i++)
        outs[i] = XCC_OUT(xcc_value_create(d->b->graph, NULL));
    xcc_value *ones = xcc_build_expand(d->b, xcc_scalar_i64(d->b->graph, 1), XCC_BUILD_INTS(d->b, t->count));
    if (ones == NULL || xcc_emit(d->b, Split, .ys = {outs, (size_t)t->count}, .x = XCC_IN(x), .split = XCC_IN(ones),
                                 .axis = 1) == NULL) {
        d->failed = true;
        return NULL;
    }
    xcc_value *batch = xcc_build_dim_of(d->b, x, 0), *each = XCC_BUILD_INTS(d->b, heads),
              *one = XCC_BUILD_INTS(d->b, 1);
    xcc_value *width = xcc_div(d, xcc_build_dim_of(d->b, x, 2), each);
    xcc_value *shape = xcc_build_concat(d->b, 4, (xcc_value *[]){batch, each, width, one}, 0);
    for (int64_t i = 0; i < t->count; i++)
        pieces[i] = xcc_build_reshape_to(d->b, xcc_value_of(outs[i]), shape);
    return pieces;
}

/* Transposes [.., width, 1] to [.., 1, width]. */
static xcc_value *row(xcc_vjp *d, xcc_value *column)
{
    return xcc_build_transpose(d->b, column, 4, (const int64_t[]){0, 1, 3, 2});
}

/* The state read by the queries, [batch, query heads, width, 1]: [batch, 1, heads * value width]. */
static xcc_value *read_state(const tokens *t, xcc_value *query, xcc_value *state, xcc_value *shape)
{
    xcc_vjp *d = t->d;
    xcc_value *rows = xcc_build_reshape(d->b, query, XCC_BUILD_INTS(d->b, 0, t->kv_heads, t->heads / t->kv_heads, -1));
    return xcc_build_reshape_to(d->b, xcc_op2(d, XCVM_OP_MatMul, rows, state), shape);
}

XCC_GRADIENT(LinearAttention)
{
    const xcvm_LinearAttention_args *a = XCC_ARGS(LinearAttention, d->node);
    tokens t = {.d = d,
                .a = a,
                .count = a->q->rank == 3 ? a->q->dims[1] : XCVM_ANY_DIM,
                .heads = a->q_num_heads,
                .kv_heads = a->kv_num_heads,
                .dtype = a->q->dtype == XCVM_F64 ? XCVM_F64 : XCVM_F32};
    if (!xcc_vjp_need_count(d, t.count, MOST_TOKENS, "tokens"))
        return;
    xcc_formula f;
    if (!xcc_formula_begin(d, &f))
        return;
    xcc_builder *b = d->b;
    xcc_value **ys = xcc_alloc(b->graph->module, (size_t)t.count * sizeof *ys), **pieces[7] = {NULL};
    const int64_t beta_heads = a->beta != NULL && a->beta->dims[2] == 1 ? 1 : t.kv_heads;
    const int64_t heads[7] = {t.heads, t.kv_heads, t.kv_heads, 0, t.kv_heads, beta_heads, t.kv_heads};
    for (size_t i = 0; i < 7; i++)
        if (i != 3 && f.operands[i] != NULL)
            pieces[i] = split(&t, f.operands[i], heads[i]);
    if (d->failed || (d->failed = ys == NULL))
        return;
    xcc_value *batch = xcc_build_dim_of(b, f.operands[0], 0), *each = XCC_BUILD_INTS(b, t.kv_heads);
    xcc_value *width = xcc_div(d, xcc_build_dim_of(b, f.operands[1], 2), each);
    xcc_value *v_width = xcc_div(d, xcc_build_dim_of(b, f.operands[2], 2), each), *state;
    if (f.operands[3] != NULL)
        state = xcc_build_cast(b, f.operands[3], t.dtype);
    else
        state = xcc_build_expand(b, xcc_build_cast(b, xcc_scalar(b->graph, XCVM_F32, 0), t.dtype),
                                 xcc_build_concat(b, 4, (xcc_value *[]){batch, each, width, v_width}, 0));
    xcc_value *all = xcc_mul(d, v_width, XCC_BUILD_INTS(b, t.heads));
    xcc_value *line = xcc_build_concat(b, 3, (xcc_value *[]){batch, XCC_BUILD_INTS(b, 1), all}, 0);
    for (int64_t i = 0; i < t.count; i++) {
        xcc_value *key = pieces[1][i], *value = row(d, pieces[2][i]);
        if (pieces[4] != NULL)
            state = xcc_mul(d, state, xcc_op1(d, XCVM_OP_Exp, pieces[4][i]));
        if (pieces[5] != NULL) {
            xcc_value *eraser = pieces[6] != NULL ? xcc_mul(d, key, pieces[6][i]) : key;
            xcc_value *known = xcc_op2(d, XCVM_OP_MatMul, row(d, eraser), state);
            value = xcc_mul(d, pieces[5][i], xcc_sub(d, value, known));
        }
        state = xcc_add(d, state, xcc_op2(d, XCVM_OP_MatMul, key, value));
        ys[i] = read_state(&t, pieces[0][i], state, line);
    }
    xcc_value *results[2] = {NULL};
    if (d->results[0] != NULL) {
        xcc_value *y = t.count > 0 ? xcc_build_concat(b, (size_t)t.count, ys, 1) : xcc_zeros_like(b, xcc_out(d, 0));
        xcc_value *root = xcc_op1(d, XCVM_OP_Sqrt, xcc_build_cast(b, width, t.dtype));
        if (t.count > 0)
            y = a->scale != 0 ? xcc_scale(d, y, a->scale) : xcc_div(d, y, root);
        results[0] = xcc_build_cast(b, y, (xcvm_dtype)a->q->dtype);
    }
    if (d->results[1] != NULL)
        results[1] = xcc_build_cast(b, state, (xcvm_dtype)a->present_state->dtype);
    xcc_formula_end(d, &f, results);
}
