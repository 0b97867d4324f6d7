/* Recognizes Attention in exported graphs: softmax(q * transpose(k) * scale + mask) * v, including the transpositions
 * between heads and tokens. */
#include "compiler/passes/fuse_ops.h"
#include "ops/table/table.h"
#include "proto/arguments.h"

#include <math.h>
#include <string.h>

typedef struct pattern {
    xcc_value *q, *k, *v; /* k as multiplied, i.e. transposed */
    xcc_value *mask;      /* NULL: none */
    double scale;
} pattern;

/* The operand of a multiplication by a number, whose factor is applied to *scale. */
static xcc_value *unscaled(xcc_value *v, double *scale)
{
    xcc_value *other;
    double number;
    const xcc_node *mul = xcc_sole_producer(v, XCVM_OP_Mul), *div = xcc_sole_producer(v, XCVM_OP_Div);
    if (mul != NULL && xcc_split_number(xcc_node_input(mul, 0), xcc_node_input(mul, 1), &other, &number) &&
        xcc_same_type(other, v)) {
        *scale *= number;
        return other;
    }
    if (div != NULL && xcc_number(xcc_node_input(div, 1), &number) && xcc_same_type(xcc_node_input(div, 0), v)) {
        *scale /= number;
        return xcc_node_input(div, 0);
    }
    return v;
}

/* Returns true if all dimensions except the last two are certainly equal. */
static bool same_batch(const xcc_value *a, const xcc_value *b)
{
    if (a->type.rank != b->type.rank)
        return false;
    for (int i = 0; i < a->type.rank - 2; i++)
        if (a->type.dims[i] != b->type.dims[i] || a->type.dims[i] == XCVM_ANY_DIM)
            return false;
    return true;
}

/* A mask with a number for every key that broadcasts to the scores without changing their shape. */
static bool is_mask(const xcc_value *mask, const xcc_value *scores)
{
    const int rank = mask->type.rank, shift = scores->type.rank - rank;
    if (!xcc_is_float(mask) || mask->type.dtype != scores->type.dtype || rank < 1 || shift < 0)
        return false;
    for (int i = 0; i < rank; i++) {
        const int64_t dim = mask->type.dims[i];
        if (dim == XCVM_ANY_DIM || (dim != scores->type.dims[i + shift] && (dim != 1 || i == rank - 1)))
            return false;
    }
    return true;
}

/* Matches scores as a product; factors are multiplied into p->scale. */
static bool find_product(xcc_value *scores, pattern *p)
{
    const xcc_node *n = xcc_sole_producer(unscaled(scores, &p->scale), XCVM_OP_MatMul);
    if (n == NULL)
        return false;
    p->q = xcc_node_input(n, 0);
    p->k = xcc_node_input(n, 1);
    return true;
}

static bool find_pattern(const xcc_node *n, pattern *p)
{
    const xcc_node *softmax = xcc_sole_producer(xcc_node_input(n, 0), XCVM_OP_Softmax);
    *p = (pattern){.v = xcc_node_input(n, 1), .scale = 1};
    if (softmax == NULL || !xcc_is_float(p->v))
        return false;
    xcc_value *scores = xcc_node_input(softmax, 0);
    const int64_t axis = XCC_ARGS(Softmax, softmax)->axis;
    const int rank = scores->type.rank;
    if ((rank != 3 && rank != 4) || (axis != -1 && axis != rank - 1))
        return false;
    const xcc_node *add = xcc_sole_producer(scores, XCVM_OP_Add);
    bool found = add == NULL && find_product(scores, p);
    for (size_t i = 0; i < 2 && add != NULL && !found; i++) {
        p->mask = xcc_node_input(add, 1 - i);
        p->scale = 1;
        found = xcc_same_type(xcc_node_input(add, i), scores) && is_mask(p->mask, scores) &&
                find_product(xcc_node_input(add, i), p);
    }
    return found && same_batch(p->q, p->k) && same_batch(p->q, p->v) && p->q->type.rank == rank;
}

/* Returns x if v is the transpose of x by this permutation. */
static xcc_value *transposed(const xcc_value *v, const int64_t *perm)
{
    const xcc_node *n = xcc_producer(v, XCVM_OP_Transpose);
    if (n == NULL)
        return NULL;
    const xcvm_Transpose_args *a = XCC_ARGS(Transpose, n);
    const size_t rank = (size_t)v->type.rank;
    return a->perm.count == rank && memcmp(a->perm.at, perm, rank * sizeof *perm) == 0 ? xcc_value_of(a->x) : NULL;
}

static const int64_t heads_first[] = {0, 2, 1, 3}, last_two[] = {0, 1, 3, 2}, keys_last[] = {0, 2, 3, 1},
                     last_two_of_3[] = {0, 2, 1};

/* Reshapes [batch, tokens, heads, width] to [batch, tokens, heads * width]; NULL if these are unknown. */
static xcc_value *flattened(xcc_builder *b, xcc_value *v)
{
    const int64_t width = xcc_dim_of(v, 2) >= 0 && xcc_dim_of(v, 3) >= 0 ? xcc_dim_of(v, 2) * xcc_dim_of(v, 3) : -1;
    const xcc_node *reshape = xcc_producer(v, XCVM_OP_Reshape);
    xcc_value *x = reshape != NULL ? xcc_node_input(reshape, 0) : NULL;
    if (x != NULL && x->type.rank == 3 && x->type.dims[0] == v->type.dims[0] && x->type.dims[1] == v->type.dims[1] &&
        x->type.dims[1] != XCVM_ANY_DIM && x->type.dims[0] != XCVM_ANY_DIM && x->type.dims[2] == width)
        return x;
    const xcc_value *shape = xcc_constant_i64(b->graph, 3, (const int64_t[]){0, 0, width});
    return shape != NULL ? xcc_apply(b, Reshape, y, .x = XCC_IN(v), .shape = XCC_IN(shape)) : NULL;
}

/* Returns the tensor if q, k and v are its only parts, in order. */
static xcc_value *joined(const xcc_value *q, const xcc_value *k, const xcc_value *v)
{
    const xcc_node *split = xcc_producer(q, XCVM_OP_Split);
    if (split == NULL || xcc_node_output_count(split) != 3 || xcc_node_output(split, 0) != q ||
        xcc_node_output(split, 1) != k || xcc_node_output(split, 2) != v || xcc_dim_of(q, 2) != xcc_dim_of(v, 2) ||
        (XCC_ARGS(Split, split)->axis != 2 && XCC_ARGS(Split, split)->axis != -1))
        return NULL;
    return xcc_node_input(split, 0);
}

/* Attention on operands with heads after tokens, as in the adjacent products. Returns NULL with *fits false if the
 * pattern differs. */
static xcc_value *with_rows(xcc_builder *b, const pattern *p, xcvm_Attention_args *a, bool *fits)
{
    xcc_value *q = transposed(p->q, heads_first), *v = transposed(p->v, heads_first), *k = transposed(p->k, keys_last);
    if (k == NULL) {
        const xcc_value *straight = transposed(p->k, last_two);
        k = straight != NULL ? transposed(straight, heads_first) : NULL;
    }
    *fits = q != NULL && k != NULL && v != NULL && xcc_dim_of(q, 2) > 0 && xcc_dim_of(q, 3) > 0 &&
            xcc_dim_of(v, 3) > 0 && xcc_dim_of(k, 2) == xcc_dim_of(q, 2) && xcc_dim_of(v, 2) == xcc_dim_of(q, 2) &&
            xcc_dim_of(k, 3) == xcc_dim_of(q, 3) && xcc_dim_of(q, 2) < INT32_MAX / 2 &&
            xcc_dim_of(q, 3) < INT32_MAX / 2 && xcc_dim_of(v, 3) < INT32_MAX / 2;
    if (!*fits)
        return NULL;
    const int64_t heads = xcc_dim_of(q, 2), width = xcc_dim_of(v, 3);
    a->q_num_heads = a->kv_num_heads = heads;
    q = flattened(b, q);
    k = flattened(b, k);
    v = flattened(b, v);
    if (q == NULL || k == NULL || v == NULL)
        return NULL;
    xcc_value *all = joined(q, k, v);
    a->q = XCC_IN(all != NULL ? all : q);
    a->k = all != NULL ? NULL : XCC_IN(k);
    a->v = all != NULL ? NULL : XCC_IN(v);
    const xcc_value *y = xcc_apply_at(b, XCVM_OP_Attention, a, offsetof(xcvm_Attention_args, y));
    const xcc_value *shape = xcc_constant_i64(b->graph, 4, (const int64_t[]){0, 0, heads, width});
    if (y == NULL || shape == NULL)
        return NULL;
    const xcc_value *rows = xcc_apply(b, Reshape, y, .x = XCC_IN(y), .shape = XCC_IN(shape));
    return rows != NULL ? xcc_apply(b, Transpose, y, .x = XCC_IN(rows), .perm = {heads_first, 4}) : NULL;
}

/* Attention on operands with heads before tokens and a transposed k. */
static xcc_value *with_heads(xcc_builder *b, const pattern *p, xcvm_Attention_args *a, bool *fits)
{
    const bool flat = p->q->type.rank == 3;
    xcc_value *q = p->q, *v = p->v, *k = transposed(p->k, flat ? last_two_of_3 : last_two);
    xcc_value *rows = k == NULL && !flat ? transposed(p->k, keys_last) : NULL;
    *fits = k != NULL || rows != NULL;
    if (k == NULL && rows != NULL)
        k = xcc_apply(b, Transpose, y, .x = XCC_IN(rows), .perm = {heads_first, 4});
    if (k == NULL)
        return NULL;
    const xcc_value *axis = flat ? xcc_constant_i64(b->graph, 1, (const int64_t[]){0}) : NULL;
    if (flat) {
        q = axis != NULL ? xcc_apply(b, Unsqueeze, y, .x = XCC_IN(q), .axes = XCC_IN(axis)) : NULL;
        k = q != NULL ? xcc_apply(b, Unsqueeze, y, .x = XCC_IN(k), .axes = XCC_IN(axis)) : NULL;
        v = k != NULL ? xcc_apply(b, Unsqueeze, y, .x = XCC_IN(v), .axes = XCC_IN(axis)) : NULL;
        if (v == NULL)
            return NULL;
    }
    a->q = XCC_IN(q);
    a->k = XCC_IN(k);
    a->v = XCC_IN(v);
    xcc_value *y = xcc_apply_at(b, XCVM_OP_Attention, a, offsetof(xcvm_Attention_args, y));
    return y == NULL || !flat ? y : xcc_apply(b, Squeeze, y, .x = XCC_IN(y), .axes = XCC_IN(axis));
}

static bool attention(xcc_rewrite *r, xcc_node *n)
{
    pattern p;
    if (!find_pattern(n, &p))
        return false;
    p.q = unscaled(p.q, &p.scale);
    p.k = unscaled(p.k, &p.scale);
    if (p.scale == 0 || !isfinite(p.scale))
        return false;
    xcvm_Attention_args a;
    xcvm_args_default(xcvm_schema_of(XCVM_OP_Attention), &a);
    a.scale = p.scale;
    a.mask = XCC_IN(p.mask);
    /* Like softmax. */
    a.nan_rows = 1;
    xcc_builder b = xcc_builder_before(n);
    bool fits;
    xcc_value *y = with_rows(&b, &p, &a, &fits);
    if (!fits)
        y = with_heads(&b, &p, &a, &fits);
    return fits && xcc_rewrite_replace(r, xcc_node_output(n, 0), y);
}

const xcc_rule xcc_rules_attention[] = {
    {XCVM_OP_MatMul, attention, "softmax of a product with a transposed operand, times values: Attention"},
};
const size_t xcc_rules_attention_count = sizeof xcc_rules_attention / sizeof *xcc_rules_attention;
