/* Contributed operators: rotated positions, and attention to caches of keys and values that heads share. */
#include "compiler/import_onnx/contrib/contrib.h"

#include <math.h>

/* ---- Positions ---- */

static xcc_value *range(xcc_lowering *n, xcc_value *count)
{
    xcc_value *limit = xcc_build_squeeze(&n->b, count, 1, (const int64_t[]){0});
    return xcc_build_call(&n->b, XCVM_OP_Range, 3,
                          (xcc_value *[]){xcc_scalar_i64(n->b.graph, 0), limit, xcc_scalar_i64(n->b.graph, 1)});
}

/* Positions [batch, length] from `first`, a tensor of [1] or [batch, 1], on. */
static xcc_value *positions_from(xcc_lowering *n, xcc_value *first, xcc_value *batch, xcc_value *length)
{
    xcc_value *all = xcc_build_add(&n->b, first, range(n, length));
    return xcc_build_expand(&n->b, all, xcc_build_concat(&n->b, 2, (xcc_value *[]){batch, length}, 0));
}

xcvm_status xcc_lower_contrib_rotary_embedding(xcc_lowering *n)
{
    xcvm_RotaryEmbedding_args args = {.y = NULL};
    int64_t packed_batch;
    double scale;
    XCVM_TRY(xcc_need_inputs(n, 4, 4));
    xcc_value *x = n->inputs[0], *ids = n->inputs[1], *cos = n->inputs[2], *sin = n->inputs[3];
    XCVM_TRY(xcc_attribute_int(n, "interleaved", 0, &args.interleaved));
    XCVM_TRY(xcc_attribute_int(n, "num_heads", 0, &args.num_heads));
    XCVM_TRY(xcc_attribute_int(n, "rotary_embedding_dim", 0, &args.rotary_embedding_dim));
    XCVM_TRY(xcc_attribute_int(n, "is_packed_batching", 0, &packed_batch));
    XCVM_TRY(xcc_attribute_float(n, "scale", 1, &scale));
    XCVM_CHECK(n->m->error, args.interleaved == 0 || args.interleaved == 1, OUT_OF_RANGE,
               "attribute 'interleaved' is %lld, 0 or 1 is expected", (long long)args.interleaved);
    XCVM_CHECK(n->m->error,
               args.num_heads >= 0 && args.num_heads <= INT32_MAX && args.rotary_embedding_dim >= 0 &&
                   args.rotary_embedding_dim <= INT32_MAX,
               OUT_OF_RANGE, "num_heads is %lld, rotary_embedding_dim %lld", (long long)args.num_heads,
               (long long)args.rotary_embedding_dim);
    XCVM_CHECK(n->m->error, packed_batch == 0, UNSUPPORTED, "attribute 'is_packed_batching' is not supported");
    XCVM_CHECK(n->m->error, args.rotary_embedding_dim == 0 || args.num_heads > 0, INVALID_MODEL,
               "rotary_embedding_dim needs num_heads");
    XCVM_TRY(xcc_need_rank(n, x, "the input"));
    XCVM_TRY(xcc_need_rank(n, ids, "position_ids"));
    XCVM_TRY(xcc_contrib_need_ranks(n, x, "the input", 3, 4));
    XCVM_TRY(xcc_contrib_need_ranks(n, cos, "cos_cache", 2, 2));
    XCVM_TRY(xcc_contrib_need_ranks(n, sin, "sin_cache", 2, 2));
    const bool flat = x->type.rank == 3;
    if (flat && args.num_heads == 0) {
        const int64_t width = x->type.dims[2], half = cos->type.rank == 2 ? cos->type.dims[1] : -1;
        XCVM_CHECK(n->m->error, width > 0 && half > 0 && width % (2 * half) == 0, UNSUPPORTED,
                   "without num_heads the shapes of the input and of cos_cache have to be known, and to fit");
        args.num_heads = width / (2 * half);
    }
    if (!flat)
        args.num_heads = 0;
    ids = xcc_build_cast(&n->b, ids, XCVM_I64);
    if (ids != NULL && ids->type.rank < 2) {
        xcc_value *first = xcc_build_reshape(&n->b, ids, XCC_BUILD_INTS(&n->b, 1));
        ids = positions_from(n, first, xcc_build_dim_of(&n->b, x, 0), xcc_build_dim_of(&n->b, x, flat ? 1 : 2));
    }
    if (ids == NULL)
        return xcc_failure(n);
    args.x = XCC_IN(x);
    args.cos = XCC_IN(cos);
    args.sin = XCC_IN(sin);
    args.position_ids = XCC_IN(ids);
    return xcc_bind(n, 0, xcc_apply_at(&n->b, XCVM_OP_RotaryEmbedding, &args, offsetof(xcvm_RotaryEmbedding_args, y)));
}

/* ---- Caches ---- */

/* Grouped-query attention with a cache: new rows follow the existing ones. */
typedef struct cached {
    xcc_value *q, *k, *v; /* [batch, heads or key heads, length, size] */
    xcc_value *past_key, *past_value, *present_key, *present_value;
    xcc_value *batch, *length; /* as tensors of shape [1] */
    xcc_value *total;          /* length of the longest sequence including new tokens, [1] */
    xcc_value *before;         /* keys of each sequence that are there already, [batch, 1]; NULL: none of any */
    int64_t heads, key_heads;
} cached;

/* Queries, keys and values from operands 0 to 2, or from operand 0, which has all three side by side. */
static xcvm_status read_cached(xcc_lowering *n, cached *c)
{
    XCVM_TRY(xcc_contrib_need_int(n, "num_heads", 1, INT32_MAX, &c->heads));
    XCVM_TRY(xcc_contrib_need_int(n, "kv_num_heads", 1, INT32_MAX, &c->key_heads));
    XCVM_CHECK(n->m->error, c->heads % c->key_heads == 0, INVALID_MODEL,
               "%lld heads of keys do not divide %lld heads of queries", (long long)c->key_heads, (long long)c->heads);
    xcc_value *q = n->inputs[0], *k = xcc_input(n, 1), *v = xcc_input(n, 2);
    XCVM_TRY(xcc_contrib_need_ranks(n, q, "the query", 3, 3));
    XCVM_CHECK(n->m->error, (k == NULL) == (v == NULL), INVALID_MODEL,
               "key and value have to be given both, or neither");
    if (k == NULL) {
        const int64_t all = q->type.rank == 3 ? q->type.dims[2] : -1, groups = c->heads + 2 * c->key_heads;
        XCVM_CHECK(n->m->error, all > 0 && all % groups == 0, UNSUPPORTED,
                   "the columns of queries, keys and values have to be known, and %lld heads to divide them",
                   (long long)groups);
        const int64_t size = all / groups, first = c->heads * size, second = first + c->key_heads * size;
        k = xcc_build_slice(&n->b, q, 2, first, second, 1);
        v = xcc_build_slice(&n->b, q, 2, second, all, 1);
        q = xcc_build_slice(&n->b, q, 2, 0, first, 1);
    } else {
        XCVM_TRY(xcc_contrib_need_ranks(n, k, "the key", 3, 3));
        XCVM_TRY(xcc_contrib_need_ranks(n, v, "the value", 3, 3));
    }
    c->batch = xcc_build_dim_of(&n->b, q, 0);
    c->length = xcc_build_dim_of(&n->b, q, 1);
    c->q = xcc_build_heads_apart(&n->b, q, c->heads);
    c->k = xcc_build_heads_apart(&n->b, k, c->key_heads);
    c->v = xcc_build_heads_apart(&n->b, v, c->key_heads);
    return c->q != NULL && c->k != NULL && c->v != NULL ? XCVM_OK : xcc_failure(n);
}

/* Number of existing keys of each sequence, from its number including new ones; 0 if all are new. */
static xcvm_status count_before(xcc_lowering *n, cached *c, xcc_value *totals)
{
    if (c->past_key == NULL)
        return XCVM_OK;
    xcc_value *before = xcc_build_sub(&n->b, xcc_build_cast(&n->b, totals, XCVM_I64), c->length);
    xcc_value *prompt = xcc_build_binary(&n->b, XCVM_OP_Equal, c->total, c->length);
    before = xcc_build_call(&n->b, XCVM_OP_Where, 3, (xcc_value *[]){prompt, xcc_scalar_i64(n->b.graph, 0), before});
    c->before = xcc_build_unsqueeze(&n->b, before, 1, (const int64_t[]){1});
    return c->before != NULL ? XCVM_OK : xcc_failure(n);
}

/* The cache with `fresh` after the rows of each sequence. It grows if necessary. */
static xcc_value *extended(xcc_lowering *n, const cached *c, xcc_value *past, xcc_value *fresh)
{
    if (past == NULL)
        return fresh;
    xcc_value *zero = XCC_BUILD_INTS(&n->b, 0), *axis = XCC_BUILD_INTS(&n->b, 2);
    xcc_value *missing = xcc_build_sub(&n->b, c->total, xcc_build_dim_of(&n->b, past, 2));
    missing = xcc_build_binary(&n->b, XCVM_OP_Max, missing, zero);
    xcc_value *pads = xcc_build_concat(&n->b, 2, (xcc_value *[]){zero, missing}, 0);
    xcc_value *at = xcc_build_squeeze(&n->b, c->before, 1, (const int64_t[]){1});
    if (pads == NULL || at == NULL)
        return NULL;
    xcc_value *room = xcc_apply(&n->b, Pad, y, .x = XCC_IN(past), .pads = XCC_IN(pads), .axes = XCC_IN(axis));
    if (room == NULL)
        return NULL;
    return xcc_apply(&n->b, TensorScatter, y, .past_cache = XCC_IN(room), .update = XCC_IN(fresh),
                     .write_indices = XCC_IN(at), .axis = -2);
}

static xcvm_status extend_caches(xcc_lowering *n, cached *c)
{
    c->present_key = extended(n, c, c->past_key, c->k);
    c->present_value = extended(n, c, c->past_value, c->v);
    return c->present_key != NULL && c->present_value != NULL ? XCVM_OK : xcc_failure(n);
}

/* The operator's results: the attention output [batch, heads, length, size] (NULL: failure), and the caches. */
static xcvm_status bind_attended(xcc_lowering *n, const cached *c, xcc_value *attended)
{
    XCVM_TRY(xcc_bind(n, 0, xcc_build_heads_together(&n->b, attended)));
    XCVM_TRY(xcc_bind(n, 1, c->present_key));
    return xcc_bind(n, 2, c->present_value);
}

/* Which keys [.., keys] each query sees, [batch, 1, length, keys]: those up to its own place, and of these the last
 * `window`, if that is above 0. */
static xcc_value *visible_keys(xcc_lowering *n, const cached *c, bool causal, int64_t window)
{
    const int64_t queries[] = {1, 3}, keys[] = {0, 1, 2};
    xcc_value *before = c->before != NULL ? c->before : xcc_build_unsqueeze(&n->b, XCC_BUILD_INTS(&n->b, 0), 1, keys);
    xcc_value *place = xcc_build_add(&n->b, before, range(n, c->length)); /* [batch, length] */
    xcc_value *key = range(n, xcc_build_dim_of(&n->b, c->present_key, 2));
    key = xcc_build_unsqueeze(&n->b, key, 3, keys);
    xcc_value *row = xcc_build_unsqueeze(&n->b, place, 2, queries);
    xcc_value *last = xcc_build_add(&n->b, before, xcc_build_sub(&n->b, c->length, XCC_BUILD_INTS(&n->b, 1)));
    if (!causal)
        return xcc_build_binary(&n->b, XCVM_OP_LessOrEqual, key,
                                xcc_build_unsqueeze(&n->b, last, 2, (const int64_t[]){1, 2}));
    xcc_value *seen = xcc_build_binary(&n->b, XCVM_OP_LessOrEqual, key, row);
    if (window <= 0)
        return seen;
    xcc_value *first = xcc_build_sub(&n->b, row, XCC_BUILD_INTS(&n->b, window));
    return xcc_build_binary(&n->b, XCVM_OP_And, seen, xcc_build_binary(&n->b, XCVM_OP_Greater, key, first));
}

/* 0 where true, else minus infinity. */
static xcc_value *added(xcc_lowering *n, const cached *c, xcc_value *visible)
{
    return xcc_build_call(
        &n->b, XCVM_OP_Where, 3,
        (xcc_value *[]){visible, xcc_build_number(&n->b, c->q, 0), xcc_build_number(&n->b, c->q, -INFINITY)});
}

/* One more key for all queries, of zeros, whose value is 0 and whose score is `sink` for each head (NULL: 0). */
static xcvm_status add_sink(xcc_lowering *n, const cached *c, xcc_value *sink, xcc_value **k, xcc_value **v,
                            xcc_value **mask)
{
    xcc_value *one = XCC_BUILD_INTS(&n->b, 1), *heads = XCC_BUILD_INTS(&n->b, c->heads);
    xcc_value *none[2], *const both[2] = {*k, *v};
    for (size_t i = 0; i < 2; i++) {
        xcc_value *shape = xcc_build_concat(
            &n->b, 4,
            (xcc_value *[]){c->batch, xcc_build_dim_of(&n->b, both[i], 1), one, xcc_build_dim_of(&n->b, both[i], 3)},
            0);
        none[i] = xcc_build_expand(&n->b, xcc_build_number(&n->b, both[i], 0), shape);
        none[i] = xcc_build_concat(&n->b, 2, (xcc_value *[]){both[i], none[i]}, 2);
    }
    xcc_value *score = sink != NULL ? xcc_build_reshape(&n->b, sink, XCC_BUILD_INTS(&n->b, 1, -1, 1, 1))
                                    : xcc_build_number(&n->b, c->q, 0);
    xcc_value *rows = xcc_build_concat(&n->b, 3, (xcc_value *[]){c->batch, heads, c->length}, 0);
    xcc_value *keys = xcc_build_dim_of(&n->b, *mask, 3);
    xcc_value *wide = xcc_build_expand(&n->b, *mask, xcc_build_concat(&n->b, 2, (xcc_value *[]){rows, keys}, 0));
    xcc_value *column = xcc_build_expand(&n->b, score, xcc_build_concat(&n->b, 2, (xcc_value *[]){rows, one}, 0));
    *mask = xcc_build_concat(&n->b, 2, (xcc_value *[]){wide, column}, 3);
    *k = none[0];
    *v = none[1];
    return *mask != NULL && *k != NULL && *v != NULL ? XCVM_OK : xcc_failure(n);
}

static xcc_value *rotated(xcc_lowering *n, xcc_value *x, xcc_value *cos, xcc_value *sin, xcc_value *ids,
                          bool interleaved)
{
    const int64_t half = cos->type.dims[1];
    return xcc_apply(&n->b, RotaryEmbedding, y, .x = XCC_IN(x), .cos = XCC_IN(cos), .sin = XCC_IN(sin),
                     .position_ids = XCC_IN(ids), .interleaved = interleaved, .rotary_embedding_dim = 2 * half);
}

/* Queries and keys turned by their positions. */
static xcvm_status rotate(xcc_lowering *n, cached *c, xcc_value *cos, xcc_value *sin, xcc_value *ids)
{
    bool rotary, interleaved;
    XCVM_TRY(xcc_attribute_bool(n, "do_rotary", false, &rotary));
    XCVM_TRY(xcc_attribute_bool(n, "rotary_interleaved", false, &interleaved));
    if (!rotary)
        return XCVM_OK;
    XCVM_CHECK(n->m->error, cos != NULL && sin != NULL, INVALID_MODEL, "do_rotary needs cos_cache and sin_cache");
    XCVM_CHECK(n->m->error, cos->type.rank == 2 && cos->type.dims[1] > 0 && sin->type.rank == 2, UNSUPPORTED,
               "cos_cache and sin_cache have to have 2 dimensions, the second known");
    if (ids == NULL)
        ids = positions_from(n, c->before != NULL ? c->before : XCC_BUILD_INTS(&n->b, 0), c->batch, c->length);
    if (ids == NULL)
        return xcc_failure(n);
    c->q = rotated(n, c->q, cos, sin, ids, interleaved);
    c->k = rotated(n, c->k, cos, sin, ids, interleaved);
    return c->q != NULL && c->k != NULL ? XCVM_OK : xcc_failure(n);
}

/* Attributes of GroupQueryAttention. */
typedef struct grouped {
    int64_t window;
    double scale, softcap;
    bool causal, smooth;
    xcc_value *bias, *sink;
} grouped;

/* The attributes of forms that there is no lowering for. */
static xcvm_status refuse_unsupported(xcc_lowering *n)
{
    static const char *const kinds[] = {"k_quant_type", "v_quant_type"};
    int64_t bits;
    double epsilon;
    bool sliding, scores;
    XCVM_TRY(xcc_attribute_int(n, "kv_cache_bit_width", 8, &bits));
    XCVM_TRY(xcc_attribute_float(n, "qk_norm_epsilon", 1e-6, &epsilon));
    XCVM_TRY(xcc_attribute_bool(n, "sliding_window_cache", false, &sliding));
    XCVM_TRY(xcc_attribute_bool(n, "qk_output", false, &scores));
    for (size_t i = 0; i < 2; i++) {
        xcvm_text kind;
        XCVM_TRY(xcc_attribute_text(n, kinds[i], "NONE", &kind));
        XCVM_CHECK(n->m->error, xcc_text_is(kind, "NONE"), UNSUPPORTED, "caches that are quantized are not supported");
    }
    XCVM_CHECK(n->m->error, xcc_input(n, 12) == NULL && xcc_input(n, 13) == NULL, UNSUPPORTED,
               "caches that are quantized are not supported");
    XCVM_CHECK(n->m->error, !sliding, UNSUPPORTED, "attribute 'sliding_window_cache' is not supported");
    XCVM_CHECK(n->m->error, !scores && !xcc_wants(n, 3), UNSUPPORTED, "attribute 'qk_output' is not supported");
    return XCVM_OK;
}

static xcvm_status read_grouped(xcc_lowering *n, grouped *g)
{
    g->bias = xcc_input(n, 10);
    g->sink = xcc_input(n, 11);
    XCVM_TRY(xcc_attribute_int(n, "local_window_size", -1, &g->window));
    XCVM_TRY(xcc_attribute_float(n, "scale", 0, &g->scale));
    XCVM_TRY(xcc_attribute_float(n, "softcap", 0, &g->softcap));
    XCVM_TRY(xcc_attribute_bool(n, "causal", true, &g->causal));
    XCVM_TRY(xcc_attribute_bool(n, "smooth_softmax", false, &g->smooth));
    XCVM_CHECK(n->m->error, g->window >= -1 && g->window <= INT32_MAX, OUT_OF_RANGE,
               "attribute 'local_window_size' is %lld, -1 or more is expected", (long long)g->window);
    return XCVM_OK;
}

/* CachedAttention is of f32, and has neither a gradient nor a place for a sink or a smooth softmax. */
static bool is_read_in_place(const xcc_lowering *n, const cached *c, const grouped *g)
{
    const xcc_value *const all[] = {c->q, c->k, c->v, c->past_key, c->past_value, g->bias};
    const size_t count = g->bias != NULL ? 6 : 5;
    bool fits = c->past_key != NULL && n->m->options->train == NULL && !n->m->options->backprop && g->causal &&
                !g->smooth && g->sink == NULL;
    for (size_t i = 0; fits && i < count; i++)
        fits = all[i]->type.dtype == XCVM_F32 && all[i]->type.rank == 4;
    return fits;
}

/* The cache is read in place, so `present` is not needed before the end of the run. */
static xcc_value *attend_in_place(xcc_lowering *n, const cached *c, const grouped *g)
{
    xcc_value *before = xcc_build_squeeze(&n->b, c->before, 1, (const int64_t[]){1});
    if (before == NULL)
        return NULL;
    return xcc_apply(&n->b, CachedAttention, y, .q = XCC_IN(c->q), .k = XCC_IN(c->k), .v = XCC_IN(c->v),
                     .past_key = XCC_IN(c->past_key), .past_value = XCC_IN(c->past_value), .before = XCC_IN(before),
                     .mask = XCC_IN(g->bias), .left_window_size = g->window > 0 ? g->window - 1 : -1, .scale = g->scale,
                     .softcap = g->softcap, .is_causal = 1);
}

/* The mask with the bias. A bias has the length of the longest sequence, and the cache may be longer. Rows beyond are
 * masked, and dropped from keys and values. */
static xcc_value *add_bias(xcc_lowering *n, xcc_value *bias, xcc_value *mask, xcc_value **k, xcc_value **v)
{
    xcc_value *zero = XCC_BUILD_INTS(&n->b, 0), *axis = XCC_BUILD_INTS(&n->b, 3);
    mask = xcc_build_call(&n->b, XCVM_OP_Slice, 4, (xcc_value *[]){mask, zero, xcc_build_dim_of(&n->b, bias, 3), axis});
    mask = xcc_build_add(&n->b, mask, bias);
    *k = xcc_build_call(&n->b, XCVM_OP_Slice, 4,
                        (xcc_value *[]){*k, zero, xcc_build_dim_of(&n->b, bias, 3), XCC_BUILD_INTS(&n->b, 2)});
    *v = xcc_build_call(&n->b, XCVM_OP_Slice, 4,
                        (xcc_value *[]){*v, zero, xcc_build_dim_of(&n->b, bias, 3), XCC_BUILD_INTS(&n->b, 2)});
    return mask;
}

/* Attention to the whole cache, with a mask where causality and window do not say all. */
static xcvm_status attend(xcc_lowering *n, const cached *c, const grouped *g, xcc_value **y)
{
    xcc_value *k = c->present_key, *v = c->present_value, *mask = NULL;
    const bool explicit_mask = c->past_key != NULL || g->bias != NULL || g->sink != NULL || g->smooth;
    if (explicit_mask) {
        mask = added(n, c, visible_keys(n, c, g->causal, g->window));
        if (g->bias != NULL)
            mask = add_bias(n, g->bias, mask, &k, &v);
        if (mask == NULL || k == NULL || v == NULL)
            return xcc_failure(n);
        if (g->sink != NULL || g->smooth)
            XCVM_TRY(add_sink(n, c, g->sink, &k, &v, &mask));
    }
    *y = xcc_apply(&n->b, Attention, y, .q = XCC_IN(c->q), .k = XCC_IN(k), .v = XCC_IN(v), .mask = XCC_IN(mask),
                   .is_causal = g->causal && !explicit_mask,
                   .left_window_size = !explicit_mask && g->window > 0 ? g->window - 1 : -1, .right_window_size = -1,
                   .scale = g->scale, .softcap = g->softcap);
    return XCVM_OK;
}

xcvm_status xcc_lower_contrib_group_query_attention(xcc_lowering *n)
{
    cached c = {.past_key = xcc_input(n, 3), .past_value = xcc_input(n, 4)};
    grouped g;
    xcc_value *y = NULL;
    XCVM_TRY(xcc_need_inputs(n, 1, 14));
    XCVM_CHECK(n->m->error, xcc_input(n, 5) != NULL && xcc_input(n, 6) != NULL, INVALID_MODEL,
               "operand 5 (seqlens_k) or 6 (total_sequence_length) is missing");
    XCVM_TRY(refuse_unsupported(n));
    XCVM_TRY(read_grouped(n, &g));
    XCVM_CHECK(n->m->error, (c.past_key == NULL) == (c.past_value == NULL), INVALID_MODEL,
               "past_key and past_value have to be given both, or neither");
    XCVM_TRY(read_cached(n, &c));
    c.total = xcc_build_reshape(&n->b, xcc_build_cast(&n->b, n->inputs[6], XCVM_I64), XCC_BUILD_INTS(&n->b, 1));
    xcc_value *last =
        xcc_build_reshape(&n->b, xcc_build_cast(&n->b, n->inputs[5], XCVM_I64), XCC_BUILD_INTS(&n->b, -1));
    XCVM_TRY(count_before(n, &c, xcc_build_add(&n->b, last, XCC_BUILD_INTS(&n->b, 1))));
    XCVM_TRY(rotate(n, &c, xcc_input(n, 7), xcc_input(n, 8), xcc_input(n, 9)));
    XCVM_TRY(extend_caches(n, &c));
    if (is_read_in_place(n, &c, &g))
        y = attend_in_place(n, &c, &g);
    else
        XCVM_TRY(attend(n, &c, &g, &y));
    return bind_attended(n, &c, y);
}

/* ---- Attention to blocks of keys ---- */

/* Blocks of one layout along a side, and cells of all, that are written down one by one. */
enum { MOST_BLOCKS = 1 << 12, MOST_CELLS = 1 << 24 };

/* Which blocks each layout sees, as 1 and 0 in f32 [layouts, blocks, blocks], from lists of columns for each row. */
static xcvm_status read_layouts(xcc_lowering *n, const xcc_value *rows, const xcc_value *columns, xcc_value **seen)
{
    XCVM_CHECK(n->m->error, xcc_is_constant(rows) && xcc_is_constant(columns), UNSUPPORTED,
               "the blocks that are seen have to be known at compile time");
    XCVM_CHECK(n->m->error,
               rows->type.rank == 2 && columns->type.rank == 2 && rows->type.dtype == XCVM_I32 &&
                   columns->type.dtype == XCVM_I32 && rows->type.dims[0] == columns->type.dims[0] &&
                   rows->type.dims[0] > 0 && rows->type.dims[1] > 1,
               SHAPE_MISMATCH,
               "block_row_indices and block_col_indices have to be i32 of 2 dimensions, the first equal");
    const int64_t layouts = rows->type.dims[0], blocks = rows->type.dims[1] - 1, entries = columns->type.dims[1];
    XCVM_CHECK(n->m->error, blocks <= MOST_BLOCKS && layouts <= MOST_CELLS / (blocks * blocks), UNSUPPORTED,
               "%lld layouts of %lld x %lld blocks are more than are supported", (long long)layouts, (long long)blocks,
               (long long)blocks);
    xcc_value *table = xcc_constant_blank(n->b.graph, XCVM_F32, 3, (const int64_t[]){layouts, blocks, blocks});
    if (table == NULL)
        return xcc_failure(n);
    float *to = XCVM_DATA(float, &table->type);
    memset(to, 0, (size_t)(layouts * blocks * blocks) * sizeof *to);
    const int32_t *starts = XCVM_CDATA(int32_t, &rows->type), *lists = XCVM_CDATA(int32_t, &columns->type);
    for (int64_t i = 0; i < layouts; i++)
        for (int64_t row = 0; row < blocks; row++) {
            XCVM_TRY(xcc_poll(n->m));
            const int32_t begin = starts[i * (blocks + 1) + row], end = starts[i * (blocks + 1) + row + 1];
            XCVM_CHECK(n->m->error, begin >= 0 && begin <= end && end <= entries && end - begin <= blocks, OUT_OF_RANGE,
                       "row %lld of layout %lld has columns %d to %d of %lld, at most %lld are there", (long long)row,
                       (long long)i, begin, end, (long long)entries, (long long)blocks);
            for (int32_t j = begin; j < end; j++) {
                const int32_t column = lists[i * entries + j];
                XCVM_CHECK(n->m->error, column >= 0 && column < blocks, OUT_OF_RANGE,
                           "the attention mask selects block %d, of %lld", column, (long long)blocks);
                to[(i * blocks + row) * blocks + column] = 1;
            }
        }
    *seen = table;
    return XCVM_OK;
}

xcvm_status xcc_lower_contrib_sparse_attention(xcc_lowering *n)
{
    cached c = {.past_key = xcc_input(n, 3), .past_value = xcc_input(n, 4)};
    int64_t block;
    double scale;
    xcc_value *seen = NULL;
    XCVM_TRY(xcc_need_inputs(n, 1, 11));
    for (size_t i = 3; i < 9; i++)
        XCVM_CHECK(n->m->error, xcc_input(n, i) != NULL, INVALID_MODEL, "operand %zu is missing", i);
    XCVM_TRY(xcc_contrib_need_int(n, "sparse_block_size", 1, INT32_MAX, &block));
    XCVM_TRY(xcc_attribute_float(n, "scale", 0, &scale));
    XCVM_TRY(read_cached(n, &c));
    XCVM_TRY(read_layouts(n, n->inputs[5], n->inputs[6], &seen));
    const int64_t layouts = seen->type.dims[0];
    XCVM_CHECK(n->m->error, c.heads % layouts == 0, INVALID_MODEL, "%lld layouts do not divide %lld heads",
               (long long)layouts, (long long)c.heads);
    c.total = xcc_build_reshape(&n->b, xcc_build_cast(&n->b, n->inputs[7], XCVM_I64), XCC_BUILD_INTS(&n->b, 1));
    XCVM_TRY(count_before(n, &c, xcc_build_reshape(&n->b, n->inputs[8], XCC_BUILD_INTS(&n->b, -1))));
    XCVM_TRY(rotate(n, &c, xcc_input(n, 9), xcc_input(n, 10), NULL));
    XCVM_TRY(extend_caches(n, &c));
    /* Rows of the layouts for each query, and of these the columns for each key: [layouts, batch, length, keys]. */
    xcc_value *size = XCC_BUILD_INTS(&n->b, block);
    xcc_value *place = xcc_build_div(&n->b, xcc_build_add(&n->b, c.before, range(n, c.length)), size);
    xcc_value *key = xcc_build_div(&n->b, range(n, xcc_build_dim_of(&n->b, c.present_key, 2)), size);
    xcc_value *blocks = xcc_build_gather(&n->b, xcc_build_gather(&n->b, seen, place, 1), key, 3);
    blocks = xcc_build_transpose(&n->b, blocks, 4, (const int64_t[]){1, 0, 2, 3});
    if (layouts != c.heads)
        blocks = xcc_build_binary(&n->b, XCVM_OP_Tile, blocks, XCC_BUILD_INTS(&n->b, 1, c.heads / layouts, 1, 1));
    xcc_value *chosen = xcc_build_cast(&n->b, blocks, XCVM_BOOL);
    xcc_value *mask = added(n, &c, xcc_build_binary(&n->b, XCVM_OP_And, chosen, visible_keys(n, &c, true, 0)));
    if (mask == NULL)
        return xcc_failure(n);
    xcc_value *y =
        xcc_apply(&n->b, Attention, y, .q = XCC_IN(c.q), .k = XCC_IN(c.present_key), .v = XCC_IN(c.present_value),
                  .mask = XCC_IN(mask), .left_window_size = -1, .right_window_size = -1, .scale = scale);
    return bind_attended(n, &c, y);
}
