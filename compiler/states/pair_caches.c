/* Key/value caches of Attention as states. Attention that appends rows, by its own past and present or after
 * TensorScatter, becomes CachedAttention. It reads the caches in place, so nothing reads the stored values. */
#include "compiler/ir/compose.h"
#include "compiler/ir/shape_data.h"
#include "compiler/passes/rewrite.h"
#include "compiler/states/growing_cache.h"
#include "compiler/states/states.h"

/* An f32 Attention and the caches that it appends to. */
typedef struct extension {
    xcc_node *node;
    const xcvm_Attention_args *a;
    xcc_value *past[2], *fresh[2]; /* keys and values: the caches, and the appended rows */
    xcc_value *before;             /* number of rows of each batch entry; NULL: the number that previous runs have
                                    * added */
    size_t pairs[2];               /* pairs that make states of keys and values; SIZE_MAX: none */
} extension;

static bool is_cache(const xcc_value *v)
{
    bool known = v != NULL && v->kind == XCC_INPUT && v->type.dtype == XCVM_F32 && v->type.rank == 4;
    for (int i = 0; known && i < 4; i++)
        known = v->type.dims[i] >= 0;
    return known;
}

/* Returns true if there may be as many queries as new keys, which CachedAttention requires. If sizes are unknown, the
 * run checks it. */
static bool are_as_many(const xcvm_value *queries, const xcvm_value *keys)
{
    const int64_t a = queries->dims[queries->rank - 2], b = keys->dims[keys->rank - 2];
    return a == b || a == XCVM_ANY_DIM || b == XCVM_ANY_DIM;
}

/* Returns why CachedAttention cannot replace the Attention; NULL: it can. */
static const char *why_not_cached(const xcvm_Attention_args *a)
{
    const xcvm_value *const operands[] = {a->q, a->k, a->v};
    for (size_t i = 0; i < 3; i++)
        if (operands[i] == NULL || operands[i]->dtype != XCVM_F32 || operands[i]->rank < 3 ||
            operands[i]->rank != a->q->rank)
            return "queries, keys and values are not all f32 of one rank";
    return a->mask != NULL && a->mask->dtype == XCVM_F64
               ? "the mask of its Attention is f64, so that it computes in f64"
           : a->qk != NULL             ? "its Attention also returns the scores"
           : a->right_window_size >= 0 ? "its Attention has a window after the query"
           : a->nan_rows != 0          ? "its Attention returns NaN for a query that sees no key"
           : a->softmax_precision != XCVM_NO_DTYPE && a->softmax_precision != XCVM_F32
               ? "its Attention does not compute the softmax in f32"
               : NULL;
}

/* Returns true if each element of the shape data of `v` is the dimension `dim`. */
static bool is_size(const xcc_value *v, int64_t dim)
{
    xcc_shape_datum sizes[XCC_SHAPE_DATA_LIMIT];
    const int count = xcc_shape_data(v, sizes);
    for (int i = 0; i < count; i++)
        if (dim == XCVM_ANY_DIM || sizes[i].value != dim ||
            sizes[i].kind != (dim >= 0 ? XCC_SIZE_NUMBER : XCC_SIZE_SYMBOL))
            return false;
    return count > 0;
}

/* Returns true if `total` is certainly `before` plus `length`. */
static bool is_total(const xcc_value *total, const xcc_value *before, int64_t length)
{
    const xcc_node *add = xcc_producer(total, XCVM_OP_Add), *sub = xcc_producer(before, XCVM_OP_Sub);
    for (size_t i = 0; add != NULL && i < 2; i++)
        if (xcc_node_input(add, i) == before && is_size(xcc_node_input(add, 1 - i), length))
            return true;
    return sub != NULL && xcc_node_input(sub, 0) == total && is_size(xcc_node_input(sub, 1), length);
}

/* Finds past and present of the Attention. Rows must be reserved, and no other node may read them. Sets the reason
 * otherwise. */
static const char *find_present(const xcc_module *m, const xcc_state_pairs *pairs, extension *e)
{
    xcc_value *const present[] = {xcc_value_of(e->a->present_key), xcc_value_of(e->a->present_value)};
    e->past[0] = xcc_value_of(e->a->past_key);
    e->past[1] = xcc_value_of(e->a->past_value);
    e->fresh[0] = xcc_value_of(e->a->k);
    e->fresh[1] = xcc_value_of(e->a->v);
    for (size_t i = 0; i < 2; i++)
        e->pairs[i] = xcc_state_pair_of(m, pairs, present[i], e->past[i]);
    for (size_t i = 0; i < 2; i++)
        if (e->pairs[i] == SIZE_MAX)
            return "the keys or values of its Attention are not states";
    if (m->options->states.cache_rows == 0)
        return xcc_no_cache_rows;
    for (size_t i = 0; i < 2; i++)
        if (!xcc_is_growing_cache(e->past[i]))
            return "Attention extends it, but it is not f32, or more dimensions than its number of rows are open";
    for (size_t i = 0; i < 2; i++)
        if (!xcc_is_read_by(e->past[i], e->node, 0) || !xcc_is_read_by(present[i], e->node, 1))
            return "an operator other than Attention reads the keys or values";
    return e->a->nonpad_kv_seqlen != NULL   ? "its Attention has an input with the number of keys"
           : !are_as_many(e->a->q, e->a->k) ? "its Attention has another number of queries than of new keys"
                                            : NULL;
}

/* Finds keys and values that TensorScatter has written into caches. Rows after them must be masked. Sets the reason
 * otherwise. */
static const char *find_scattered(const xcc_module *m, const xcc_state_pairs *pairs, extension *e)
{
    const xcvm_TensorScatter_args *scattered[2];
    for (size_t i = 0; i < 2; i++) {
        const xcc_value *full = xcc_value_of(i == 0 ? e->a->k : e->a->v);
        const xcc_node *scatter = xcc_producer(full, XCVM_OP_TensorScatter);
        scattered[i] = scatter != NULL ? XCC_ARGS(TensorScatter, scatter) : NULL;
        e->past[i] = scatter != NULL ? xcc_value_of(scattered[i]->past_cache) : NULL;
        e->fresh[i] = scatter != NULL ? xcc_value_of(scattered[i]->update) : NULL;
        e->pairs[i] = xcc_state_pair_of(m, pairs, full, e->past[i]);
    }
    if (e->pairs[0] == SIZE_MAX || e->pairs[1] == SIZE_MAX)
        return "the keys or values of its Attention are not states";
    if (e->a->nonpad_kv_seqlen == NULL)
        return "its Attention has no input with the number of rows";
    if (e->a->q->rank != 4)
        return "its Attention has rank 3";
    e->before = xcc_value_of(scattered[0]->write_indices);
    for (size_t i = 0; i < 2; i++) {
        const xcvm_TensorScatter_args *s = scattered[i];
        if (!is_cache(e->past[i]))
            return "it is not f32, or has open sizes";
        if (s->mode != XCVM_CACHE_MODE_linear || (s->axis != -2 && s->axis != 2) || s->update->rank != 4)
            return "rows are not appended along axis -2";
        if (s->update->dims[2] != e->a->q->dims[2])
            return "its Attention has another number of queries than of new rows";
        if (s->write_indices == NULL || xcc_value_of(s->write_indices) != e->before)
            return "keys and values are not written at the same rows";
    }
    return is_total(xcc_value_of(e->a->nonpad_kv_seqlen), e->before, e->a->q->dims[2])
               ? NULL
               : "the model does not show that Attention sees the earlier rows and the new ones";
}

/* In rank 3 the heads are moved before the tokens. */
static xcc_value *with_heads(xcc_builder *b, xcc_value *x, int64_t heads)
{
    return x->type.rank == 4 ? x : xcc_build_heads_apart(b, x, heads);
}

static xcvm_status replace(xcc_module *m, xcc_state_pairs *pairs, extension *e, xcc_rows_added *added)
{
    const xcvm_Attention_args *a = e->a;
    xcc_builder b = xcc_builder_before(e->node);
    xcc_value *const present[] = {xcc_value_of(a->present_key), xcc_value_of(a->present_value)};
    xcc_value *q = with_heads(&b, xcc_value_of(a->q), a->q_num_heads);
    for (size_t i = 0; i < 2; i++)
        e->fresh[i] = with_heads(&b, e->fresh[i], a->kv_num_heads);
    if (q == NULL || e->fresh[0] == NULL || e->fresh[1] == NULL)
        return m->error->status;
    for (size_t i = 0; i < 2 && e->before == NULL; i++) {
        xcc_bound_cache(m, e->past[i]);
        pairs->bounded++;
    }
    if (e->before == NULL)
        e->before = xcc_count_rows(&b, e->past[0], e->fresh[0], added);
    if (e->before == NULL)
        return m->error->status;
    xcc_value *mask = a->mask != NULL ? xcc_value_of(a->mask) : NULL;
    if (mask != NULL && mask->type.dtype != XCVM_BOOL && (mask = xcc_build_cast(&b, mask, XCVM_F32)) == NULL)
        return m->error->status;
    xcc_value *y = xcc_apply(&b, CachedAttention, y, .q = XCC_IN(q), .k = XCC_IN(e->fresh[0]), .v = XCC_IN(e->fresh[1]),
                             .past_key = XCC_IN(e->past[0]), .past_value = XCC_IN(e->past[1]),
                             .before = XCC_IN(e->before), .mask = XCC_IN(mask), .left_window_size = a->left_window_size,
                             .scale = a->scale, .softcap = a->softcap, .is_causal = a->is_causal);
    if (y != NULL && a->q->rank == 3)
        y = xcc_build_heads_together(&b, y);
    if (y == NULL)
        return m->error->status;
    for (size_t i = 0; i < 2 && a->present_key != NULL; i++) {
        XCVM_TRY(xcc_replace_cache_shapes(e->past[i], e->past[i], NULL, e->before));
        XCVM_TRY(xcc_replace_cache_shapes(present[i], e->past[i], e->fresh[i], e->before));
        xcc_value *next = xcc_extend_cache(&b, e->past[i], e->fresh[i], e->before);
        if (next == NULL)
            return m->error->status;
        xcc_replace_uses(e->node->graph, present[i], next);
    }
    xcc_replace_uses(e->node->graph, xcc_value_of(a->y), y);
    xcc_node_remove(e->node);
    return XCVM_OK;
}

/* Returns true if the options ask for a state that grows in each run. */
static bool has_growing_cache(const xcc_module *m, const xcc_state_pairs *pairs)
{
    for (size_t i = 0; i < m->graph->input_count; i++)
        if (xcc_table_lookup(&pairs->inputs, m->graph->inputs[i]->name) != NULL &&
            xcc_is_growing_cache(m->graph->inputs[i]))
            return true;
    return false;
}

xcvm_status xcc_pair_caches(xcc_module *m, xcc_state_pairs *pairs)
{
    xcc_rows_added added = {NULL, 0, 0};
    /* CachedAttention has no gradient and no ONNX operator. */
    const bool differentiated = m->options->train != NULL || m->options->backprop;
    if (pairs->count == 0 || m->options->onnx_export.enabled)
        return XCVM_OK;
    /* The size that caches grow by often follows from shapes that the model computes. */
    if (m->options->states.cache_rows > 0 && !differentiated && has_growing_cache(m, pairs))
        XCVM_TRY(xcc_infer_ahead(m));
    for (xcc_node *n = m->graph->first, *next; n != NULL; n = next) {
        next = n->next;
        XCVM_TRY(xcc_poll(m));
        if (!xcc_is(n, XCVM_OP_Attention))
            continue;
        extension e = {.node = n, .a = XCC_ARGS(Attention, n)};
        const bool extends = e.a->past_key != NULL || e.a->present_key != NULL || e.a->present_value != NULL;
        const char *found = (extends ? find_present : find_scattered)(m, pairs, &e), *differs = why_not_cached(e.a);
        const char *why = differentiated ? "gradients go through it" : differs != NULL ? differs : found;
        for (size_t i = 0; i < 2 && why != NULL; i++)
            if (e.pairs[i] != SIZE_MAX)
                pairs->why[e.pairs[i]] = why;
        if (why == NULL)
            XCVM_TRY(replace(m, pairs, &e, &added));
    }
    return differentiated ? XCVM_OK : xcc_pair_products(m, pairs, &added);
}
