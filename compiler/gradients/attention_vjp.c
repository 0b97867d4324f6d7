/* Gradients of Attention and related instructions, mostly by differentiating a formula. Probabilities are recomputed
 * from queries and keys. */
#include "compiler/gradients/rule.h"

#include <math.h>

/* Score of masked keys. It is finite, so that rows without keys have probabilities, which are then not selected, and
 * gradients of 0. */
#define UNSEEN (-1e30)

typedef struct attention {
    xcc_vjp *d;
    const xcvm_Attention_args *a;
    int64_t heads, kv_heads;
    xcc_value *queries, *keys; /* their numbers, as lists of one element */
    xcc_value *past;           /* number of keys before the first one of k, likewise */
} attention;

/* Reshapes [batch, rows, heads * width] to [batch, heads, rows, width]; rank 4 is already in that form. */
static xcc_value *split_heads(xcc_vjp *d, xcc_value *x, int64_t heads)
{
    if (x == NULL || x->type.rank == 4)
        return x;
    xcc_value *shape = XCC_BUILD_INTS(d->b, 0, 0, heads, -1);
    return xcc_build_transpose(d->b, xcc_build_reshape(d->b, x, shape), 4, (const int64_t[]){0, 2, 1, 3});
}

static xcc_value *join_heads(xcc_vjp *d, xcc_value *x)
{
    return xcc_build_reshape(d->b, xcc_build_transpose(d->b, x, 4, (const int64_t[]){0, 2, 1, 3}),
                             XCC_BUILD_INTS(d->b, 0, 0, -1));
}

/* Converts to the computation type. */
static xcc_value *wide(const attention *t, xcc_value *v)
{
    const xcvm_value *all[] = {t->a->q, t->a->k, t->a->v, t->a->mask};
    xcvm_dtype dtype = t->a->softmax_precision == XCVM_F64 ? XCVM_F64 : XCVM_F32;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i] != NULL && all[i]->dtype == XCVM_F64)
            dtype = XCVM_F64;
    return xcc_build_cast(t->d->b, v, dtype);
}

/* Repeats each head of keys or values for all query heads that share it. */
static xcc_value *repeat(const attention *t, xcc_value *x)
{
    xcc_builder *b = t->d->b;
    const int64_t group = t->heads / t->kv_heads, after[] = {2};
    if (group == 1)
        return x;
    xcc_value *copies = xcc_build_expand(b, xcc_build_unsqueeze(b, x, 1, after), XCC_BUILD_INTS(b, 1, 1, group, 1, 1));
    xcc_value *parts[] = {xcc_build_dim_of(b, x, 0), XCC_BUILD_INTS(b, t->heads), xcc_build_dim_of(b, x, 2),
                          xcc_build_dim_of(b, x, 3)};
    return xcc_build_reshape_to(b, copies, xcc_build_concat(b, 4, parts, 0));
}

/* 0 ... count - 1 */
static xcc_value *numbers(const attention *t, xcc_value *count)
{
    xcc_graph *g = t->d->b->graph;
    xcc_value *limit = xcc_build_reshape(t->d->b, count, xcc_build_ints(t->d->b, 0, NULL));
    return xcc_build_call(t->d->b, XCVM_OP_Range, 3,
                          (xcc_value *[]){xcc_scalar_i64(g, 0), limit, xcc_scalar_i64(g, 1)});
}

static xcc_value *both(xcc_vjp *d, xcc_value *p, xcc_value *q) { return p == NULL ? q : xcc_op2(d, XCVM_OP_And, p, q); }

/* Keys that a query may see by position; NULL: all. */
static xcc_value *seen_by_place(const attention *t)
{
    xcc_vjp *d = t->d;
    const xcvm_Attention_args *a = t->a;
    xcc_value *seen = NULL, *key = numbers(t, t->keys), *limit = NULL;
    xcc_value *place = xcc_build_unsqueeze(d->b, numbers(t, t->queries), 1, (const int64_t[]){1}), *first = t->past;
    if (a->nonpad_kv_seqlen != NULL) {
        limit = xcc_build_reshape(d->b, xcc_value_of(a->nonpad_kv_seqlen), XCC_BUILD_INTS(d->b, -1, 1, 1, 1));
        seen = xcc_op2(d, XCVM_OP_Less, key, limit);
        if (a->past_key == NULL)
            first = xcc_sub(d, limit, t->queries);
    }
    place = xcc_add(d, place, first);
    if (a->is_causal)
        seen = both(d, seen, xcc_op2(d, XCVM_OP_LessOrEqual, key, place));
    if (a->right_window_size >= 0)
        seen =
            both(d, seen,
                 xcc_op2(d, XCVM_OP_LessOrEqual, key, xcc_add(d, place, XCC_BUILD_INTS(d->b, a->right_window_size))));
    if (a->left_window_size >= 0)
        seen =
            both(d, seen,
                 xcc_op2(d, XCVM_OP_GreaterOrEqual, key, xcc_sub(d, place, XCC_BUILD_INTS(d->b, a->left_window_size))));
    return seen;
}

/* The mask extended to all keys; keys without entries are masked. */
static xcc_value *whole_mask(const attention *t, xcc_value *mask, xcc_value **seen)
{
    xcc_vjp *d = t->d;
    xcc_value *has = xcc_build_dim_of(d->b, mask, -1), *missing = xcc_sub(d, t->keys, has),
              *zero = XCC_BUILD_INTS(d->b, 0);
    xcc_value *pads = xcc_build_concat(d->b, 2, (xcc_value *[]){zero, missing}, 0), *last = XCC_BUILD_INTS(d->b, -1);
    if (pads == NULL || last == NULL)
        return NULL;
    *seen = both(d, *seen, xcc_op2(d, XCVM_OP_Less, numbers(t, t->keys), has));
    return xcc_apply(d->b, Pad, y, .x = XCC_IN(mask), .pads = XCC_IN(pads), .axes = XCC_IN(last));
}

/* Queries, keys and values, [batch, heads, rows, width]. */
typedef struct operands {
    xcc_value *q, *k, *v;
} operands;

/* Without k, q includes them; past keys and values come first. */
static operands read_operands(attention *t, const xcc_formula *f)
{
    xcc_vjp *d = t->d;
    operands o = {f->operands[0], f->operands[1], f->operands[2]};
    if (o.k == NULL) {
        const int64_t all = t->heads + 2 * t->kv_heads, width = t->a->q->dims[2] / all, q_end = t->heads * width,
                      k_end = q_end + t->kv_heads * width;
        o.k = xcc_build_slice(d->b, o.q, 2, q_end, k_end, 1);
        o.v = xcc_build_slice(d->b, o.q, 2, k_end, INT64_MAX, 1);
        o.q = xcc_build_slice(d->b, o.q, 2, 0, q_end, 1);
    }
    o.q = split_heads(d, o.q, t->heads);
    o.k = split_heads(d, o.k, t->kv_heads);
    o.v = split_heads(d, o.v, t->kv_heads);
    t->past = XCC_BUILD_INTS(d->b, 0);
    if (f->operands[4] != NULL) {
        t->past = xcc_build_dim_of(d->b, f->operands[4], 2);
        o.k = xcc_build_concat(d->b, 2, (xcc_value *[]){f->operands[4], o.k}, 2);
    }
    if (f->operands[5] != NULL)
        o.v = xcc_build_concat(d->b, 2, (xcc_value *[]){f->operands[5], o.v}, 2);
    t->queries = xcc_build_dim_of(d->b, o.q, 2);
    t->keys = xcc_build_dim_of(d->b, o.k, 2);
    return o;
}

/* Scaled products of queries and keys. */
static xcc_value *scaled_products(const attention *t, const operands *o)
{
    xcc_vjp *d = t->d;
    xcc_value *root = xcc_build_cast(d->b, xcc_build_dim_of(d->b, o->q, 3),
                                     wide(t, o->q) != NULL ? (xcvm_dtype)wide(t, o->q)->type.dtype : XCVM_F32);
    xcc_value *kt = xcc_build_transpose(d->b, repeat(t, wide(t, o->k)), 4, (const int64_t[]){0, 1, 3, 2});
    xcc_value *scores = xcc_op2(d, XCVM_OP_MatMul, wide(t, o->q), kt);
    return t->a->scale != 0 ? xcc_scale(d, scores, t->a->scale) : xcc_div(d, scores, xcc_op1(d, XCVM_OP_Sqrt, root));
}

/* The scores plus a numeric mask. A boolean mask is combined into *seen, the keys visible by position. */
static xcc_value *apply_mask(const attention *t, xcc_value *mask, xcc_value *scores, xcc_value **seen)
{
    xcc_vjp *d = t->d;
    const int last = mask->type.rank - 1;
    const bool fits =
        last >= 0 && xcc_is_constant(t->keys) && mask->type.dims[last] == XCVM_CDATA(int64_t, &t->keys->type)[0];
    if (!fits)
        mask = whole_mask(t, mask, seen);
    if (mask != NULL && mask->type.dtype == XCVM_BOOL) {
        *seen = both(d, *seen, mask);
    } else if (mask != NULL) {
        mask = wide(t, mask);
        *seen = both(d, *seen, xcc_op2(d, XCVM_OP_Greater, mask, xcc_num(d, scores, -(double)INFINITY)));
        scores = xcc_add(d, scores, mask);
    }
    d->failed = d->failed || mask == NULL;
    return scores;
}

XCC_GRADIENT(Attention)
{
    const xcvm_Attention_args *a = XCC_ARGS(Attention, d->node);
    attention t = {.d = d, .a = a, .heads = a->q_num_heads, .kv_heads = a->kv_num_heads};
    if (!xcc_vjp_need_rank(d, 0))
        return;
    const bool rows = a->q->rank == 3;
    if (!rows) {
        t.heads = a->q->dims[1];
        t.kv_heads = a->k->rank == 4 ? a->k->dims[1] : -1;
    }
    if (t.heads < 1 || t.kv_heads < 1 || (a->k == NULL && a->q->dims[2] < 0)) {
        xcc_refuse(d, "has a gradient that needs the number of heads and their sizes, which are not known");
        return;
    }
    xcc_formula f;
    if (!xcc_formula_begin(d, &f))
        return;
    const operands o = read_operands(&t, &f);
    xcc_value *results[4] = {NULL, o.k, o.v, NULL}, *stages[4];
    xcc_value *scores = scaled_products(&t, &o);
    stages[0] = scores;
    if (a->softcap > 0)
        scores = xcc_scale(d, xcc_op1(d, XCVM_OP_Tanh, xcc_scale(d, scores, 1 / a->softcap)), a->softcap);
    stages[1] = scores;
    xcc_value *seen = seen_by_place(&t);
    if (f.operands[3] != NULL)
        scores = apply_mask(&t, f.operands[3], scores, &seen);
    xcc_value *usable = seen != NULL ? xcc_where(d, seen, scores, xcc_num(d, scores, UNSEEN)) : scores;
    stages[2] = usable;
    xcc_value *shares = usable != NULL ? xcc_apply(d->b, Softmax, y, .x = XCC_IN(usable), .axis = -1) : NULL;
    if (seen != NULL)
        shares = xcc_where(d, seen, shares, xcc_num(d, shares, 0));
    stages[3] = shares;
    xcc_value *y = xcc_op2(d, XCVM_OP_MatMul, shares, repeat(&t, wide(&t, o.v)));
    results[0] = xcc_build_cast(d->b, rows ? join_heads(d, y) : y, (xcvm_dtype)a->q->dtype);
    results[3] = xcc_build_cast(d->b, stages[a->qk_matmul_output_mode], (xcvm_dtype)a->q->dtype);
    xcc_formula_end(d, &f, results);
}

/* ---- Rotary embedding ---- */

/* Elements [first, last) of the last axis with step `step`. */
static xcc_value *part(xcc_vjp *d, xcc_value *x, int64_t first, int64_t last, int64_t step)
{
    return xcc_build_slice(d->b, x, -1, first, last, step);
}

/* Rotates x by the angles, [batch, heads, rows, width]. */
static xcc_value *turned(xcc_vjp *d, const xcvm_RotaryEmbedding_args *a, xcc_value *x, xcc_value *cosine,
                         xcc_value *sine, int64_t pairs)
{
    const int64_t two = 2 * pairs;
    xcc_value *p = a->interleaved ? part(d, x, 0, two, 2) : part(d, x, 0, pairs, 1);
    xcc_value *q = a->interleaved ? part(d, x, 1, two, 2) : part(d, x, pairs, two, 1);
    xcc_value *first = xcc_sub(d, xcc_mul(d, p, cosine), xcc_mul(d, q, sine));
    xcc_value *second = xcc_add(d, xcc_mul(d, p, sine), xcc_mul(d, q, cosine));
    xcc_value *rest = part(d, x, two, INT64_MAX, 1);
    if (!a->interleaved)
        return xcc_build_concat(d->b, 3, (xcc_value *[]){first, second, rest}, -1);
    const int64_t behind[] = {-1};
    xcc_value *sides[] = {xcc_build_unsqueeze(d->b, first, 1, behind), xcc_build_unsqueeze(d->b, second, 1, behind)};
    xcc_value *woven =
        xcc_build_reshape(d->b, xcc_build_concat(d->b, 2, sides, -1), XCC_BUILD_INTS(d->b, 0, 0, 0, two));
    return xcc_build_concat(d->b, 2, (xcc_value *[]){woven, rest}, -1);
}

/* The gradient is rotated back. If cosines and sines need gradients, the formula is differentiated. */
XCC_GRADIENT(RotaryEmbedding)
{
    const xcvm_RotaryEmbedding_args *a = XCC_ARGS(RotaryEmbedding, d->node);
    if (!xcc_wanted(d, 1) && !xcc_wanted(d, 2)) {
        xcc_value *back = xcc_neg(d, xcc_in(d, 2));
        xcvm_RotaryEmbedding_args args = *a;
        args.x = XCC_IN(xcc_g(d));
        args.sin = XCC_IN(back);
        xcc_set_gradient(
            d, 0,
            back != NULL ? xcc_apply_at(d->b, XCVM_OP_RotaryEmbedding, &args, offsetof(xcvm_RotaryEmbedding_args, y))
                         : NULL);
        return;
    }
    const int rank = a->cos->rank;
    const int64_t pairs = rank > 0 ? a->cos->dims[rank - 1] : -1;
    if (!xcc_vjp_need_rank(d, 0))
        return;
    if (pairs < 0) {
        xcc_refuse(d, "has a gradient of the angles that needs their number, which is not known");
        return;
    }
    xcc_formula f;
    if (!xcc_formula_begin(d, &f))
        return;
    xcc_value *angles[2];
    for (size_t i = 0; i < 2; i++) {
        angles[i] = f.operands[i + 1];
        if (a->position_ids != NULL)
            angles[i] = xcc_build_gather(d->b, angles[i], f.operands[3], 0);
        angles[i] = xcc_build_unsqueeze(d->b, angles[i], 1, (const int64_t[]){1});
    }
    const bool rows = a->x->rank == 3;
    xcc_value *y = turned(d, a, split_heads(d, f.operands[0], a->num_heads), angles[0], angles[1], pairs);
    xcc_value *results[] = {rows ? join_heads(d, y) : y};
    xcc_formula_end(d, &f, results);
}

/* ---- Caches ---- */

/* Index on `axis` that each row of the update is written to, in the shape of the update. */
static xcc_value *written_rows(xcc_vjp *d, const xcvm_TensorScatter_args *a, xcc_value *update, int axis)
{
    xcc_builder *b = d->b;
    xcc_value *fresh = xcc_build_reshape(b, xcc_build_dim_of(b, update, axis), xcc_build_ints(b, 0, NULL));
    xcc_value *rows = xcc_build_dim_of(b, xcc_in(d, 0), axis),
              *ends[] = {xcc_scalar_i64(b->graph, 0), fresh, xcc_scalar_i64(b->graph, 1)};
    xcc_value *each = xcc_build_call(b, XCVM_OP_Range, 3, ends), *one = XCC_BUILD_INTS(b, -1, 1);
    if (a->write_indices != NULL)
        each = xcc_add(d, xcc_build_reshape(b, xcc_value_of(a->write_indices), one), each);
    each = xcc_op2(d, XCVM_OP_Mod, each, rows);
    /* [batch or 1, fresh] with surrounding axes of size 1. */
    int64_t shape[XCVM_MAX_RANK] = {a->write_indices != NULL ? -1 : 1};
    for (int i = 1; i < update->type.rank; i++)
        shape[i] = 1;
    xcc_value *sizes = xcc_build_ints(b, (size_t)axis, shape),
              *rest = xcc_build_ints(b, (size_t)(update->type.rank - 1 - axis), shape + axis);
    xcc_value *to = xcc_build_concat(b, 3, (xcc_value *[]){sizes, xcc_build_dim_of(b, update, axis), rest}, 0);
    return xcc_expand_like(b, xcc_build_reshape(b, each, to), update);
}

XCC_GRADIENT(TensorScatter)
{
    const xcvm_TensorScatter_args *a = XCC_ARGS(TensorScatter, d->node);
    xcc_value *update = xcc_in(d, 1), *g = xcc_g(d);
    if (!xcc_vjp_need_rank(d, 0) || !xcc_vjp_need_rank(d, 1))
        return;
    const int axis = (int)(a->axis < 0 ? a->axis + a->past_cache->rank : a->axis);
    xcc_value *at = written_rows(d, a, update, axis), *zeros = xcc_zeros_like(d->b, update);
    if (at == NULL || zeros == NULL) {
        d->failed = true;
        return;
    }
    if (xcc_wanted(d, 0))
        xcc_set_gradient(d, 0,
                         xcc_apply(d->b, ScatterElements, y, .x = XCC_IN(g), .indices = XCC_IN(at),
                                   .updates = XCC_IN(zeros), .axis = axis, .reduction = XCVM_REDUCTION_none));
    if (xcc_wanted(d, 1))
        xcc_set_gradient(d, 1, xcc_apply(d->b, GatherElements, y, .x = XCC_IN(g), .indices = XCC_IN(at), .axis = axis));
}
