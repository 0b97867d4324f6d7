/* Contributed operators: attention whose masks are numbers, lengths or positions, added to the scores before the
 * softmax. */
#include "compiler/import_onnx/contrib/contrib.h"

/* ---- Heads ---- */

static bool is_flat(const xcc_value *x) { return x->type.rank == 3; }

/* [batch, length, heads * size] as [batch, heads, length, size], and back. */
static xcc_value *apart(xcc_lowering *n, xcc_value *x, int64_t heads)
{
    xcc_value *y = xcc_build_reshape(&n->b, x, XCC_BUILD_INTS(&n->b, 0, 0, heads, -1));
    return xcc_build_transpose(&n->b, y, 4, (const int64_t[]){0, 2, 1, 3});
}

static xcc_value *together(xcc_lowering *n, xcc_value *x)
{
    xcc_value *y = xcc_build_transpose(&n->b, x, 4, (const int64_t[]){0, 2, 1, 3});
    return xcc_build_reshape(&n->b, y, XCC_BUILD_INTS(&n->b, 0, 0, -1));
}

/* ---- Masks ---- */

static xcc_value *filtered(xcc_lowering *n, const xcc_contrib_attention *a, xcc_value *visible)
{
    return xcc_build_call(
        &n->b, XCVM_OP_Where, 3,
        (xcc_value *[]){visible, xcc_build_number(&n->b, a->q, 0), xcc_build_number(&n->b, a->q, a->mask_filter)});
}

/* Number of keys including those of the past, as i32 of rank 0. */
static xcc_value *key_count(xcc_lowering *n, const xcc_contrib_attention *a)
{
    xcc_value *count = xcc_build_dim_of(&n->b, a->k, is_flat(a->k) ? 1 : 2);
    if (a->past_key != NULL)
        count = xcc_build_add(&n->b, count, xcc_build_dim_of(&n->b, a->past_key, 2));
    return xcc_build_cast(&n->b, xcc_build_squeeze(&n->b, count, 1, (const int64_t[]){0}), XCVM_I32);
}

/* Ends of the sequences, [batch], or ends and then beginnings, [2 * batch]. */
static xcvm_status mask_positions(xcc_lowering *n, const xcc_contrib_attention *a, xcc_value **visible)
{
    const int64_t entries = a->mask->type.dims[0], batch = a->q->type.dims[0];
    const bool both = entries > 0 && batch > 0 && entries == 2 * batch;
    XCVM_CHECK(n->m->error, entries == batch || both || (entries < 0 && batch < 0), UNSUPPORTED,
               "the mask has one dimension of %lld entries; expected the batch size or twice the batch size, known at "
               "compile time",
               (long long)entries);
    xcc_value *place = xcc_build_call(
        &n->b, XCVM_OP_Range, 3,
        (xcc_value *[]){xcc_scalar(n->b.graph, XCVM_I32, 0), key_count(n, a), xcc_scalar(n->b.graph, XCVM_I32, 1)});
    xcc_value *ends = both ? xcc_build_slice(&n->b, a->mask, 0, 0, batch, 1) : a->mask;
    xcc_value *column = xcc_build_unsqueeze(&n->b, ends, 1, (const int64_t[]){1});
    *visible = xcc_build_binary(&n->b, XCVM_OP_Less, place, column);
    if (both) {
        xcc_value *begins = xcc_build_slice(&n->b, a->mask, 0, batch, entries, 1);
        begins = xcc_build_unsqueeze(&n->b, begins, 1, (const int64_t[]){1});
        *visible = xcc_build_binary(&n->b, XCVM_OP_And, *visible,
                                    xcc_build_binary(&n->b, XCVM_OP_GreaterOrEqual, place, begins));
    }
    return *visible != NULL ? XCVM_OK : xcc_failure(n);
}

/* Tensor added to the scores, [batch, heads or 1, length or 1, keys]; *sum NULL: none. */
static xcvm_status mask_scores(xcc_lowering *n, const xcc_contrib_attention *a, xcc_value **sum)
{
    xcc_value *visible;
    *sum = a->bias;
    if (a->mask == NULL)
        return XCVM_OK;
    XCVM_TRY(xcc_need_rank(n, a->mask, "the mask"));
    XCVM_CHECK(n->m->error, a->mask->type.dtype == XCVM_I32, TYPE_MISMATCH, "the mask is %s, i32 is expected",
               xcvm_dtype_name((xcvm_dtype)a->mask->type.dtype));
    switch (a->mask->type.rank) {
    case 1:
        XCVM_TRY(mask_positions(n, a, &visible));
        break;
    case 2:
    case 3:
        visible = xcc_build_binary(&n->b, XCVM_OP_Greater, a->mask, xcc_build_number(&n->b, a->mask, 0));
        break;
    default:
        XCVM_FAIL(n->m->error, UNSUPPORTED, "the mask has %d dimensions, 1 to 3 are expected", a->mask->type.rank);
    }
    const int rank = a->mask->type.rank;
    xcc_value *mask = filtered(n, a, visible);
    mask = rank == 3 ? xcc_build_unsqueeze(&n->b, mask, 1, (const int64_t[]){1})
                     : xcc_build_unsqueeze(&n->b, mask, 2, (const int64_t[]){1, 2});
    *sum = a->bias != NULL ? xcc_build_add(&n->b, mask, a->bias) : mask;
    return *sum != NULL ? XCVM_OK : xcc_failure(n);
}

/* ---- The product itself ---- */

xcvm_status xcc_contrib_read_attention(xcc_lowering *n, xcc_contrib_attention *a)
{
    bool causal;
    XCVM_TRY(xcc_contrib_need_int(n, "num_heads", 1, INT32_MAX, &a->heads));
    XCVM_TRY(xcc_attribute_float(n, "scale", 0, &a->scale));
    XCVM_TRY(xcc_attribute_float(n, "mask_filter_value", -10000, &a->mask_filter));
    XCVM_TRY(xcc_attribute_bool(n, "unidirectional", false, &causal));
    a->causal = causal;
    return XCVM_OK;
}

xcvm_status xcc_contrib_attend(xcc_lowering *n, xcc_contrib_attention *a)
{
    xcc_value *mask;
    if (a->q == NULL || a->k == NULL || a->v == NULL)
        return xcc_failure(n);
    XCVM_TRY(xcc_need_rank(n, a->q, "the query"));
    XCVM_TRY(xcc_contrib_need_ranks(n, a->q, "the query", 3, 4));
    XCVM_TRY(xcc_need_rank(n, a->k, "the key"));
    XCVM_TRY(xcc_contrib_need_ranks(n, a->k, "the key", 3, 4));
    XCVM_TRY(xcc_need_rank(n, a->v, "the value"));
    XCVM_TRY(xcc_contrib_need_ranks(n, a->v, "the value", 3, 4));
    XCVM_CHECK(n->m->error, a->k->type.rank == a->v->type.rank, SHAPE_MISMATCH,
               "the key has %d dimensions, the value %d", a->k->type.rank, a->v->type.rank);
    const int64_t width = a->q->type.dims[a->q->type.rank - 1];
    XCVM_CHECK(n->m->error, !is_flat(a->q) || width < 0 || width % a->heads == 0, SHAPE_MISMATCH,
               "the query has %lld columns, which %lld heads do not divide", (long long)width, (long long)a->heads);
    XCVM_TRY(mask_scores(n, a, &mask));
    const bool parted = is_flat(a->q) && !is_flat(a->k);
    /* One query attends to all keys, whatever its position. */
    const int64_t queries = a->q->type.dims[is_flat(a->q) ? 1 : 2];
    xcc_value *q = parted ? apart(n, a->q, a->heads) : a->q;
    xcc_value *y = xcc_value_create(n->b.graph, NULL);
    a->present_key = xcc_value_create(n->b.graph, NULL);
    a->present_value = xcc_value_create(n->b.graph, NULL);
    a->qk = a->want_qk ? xcc_value_create(n->b.graph, NULL) : NULL;
    if (q == NULL || y == NULL || a->present_key == NULL || a->present_value == NULL || (a->want_qk && a->qk == NULL))
        return xcc_failure(n);
    if (xcc_emit(&n->b, Attention, .y = XCC_OUT(y), .present_key = XCC_OUT(a->present_key),
                 .present_value = XCC_OUT(a->present_value), .qk = XCC_OUT(a->qk), .q = XCC_IN(q), .k = XCC_IN(a->k),
                 .v = XCC_IN(a->v), .mask = XCC_IN(mask), .past_key = XCC_IN(a->past_key),
                 .past_value = XCC_IN(a->past_value), .q_num_heads = is_flat(q) ? a->heads : 0,
                 .kv_num_heads = is_flat(q) ? a->heads : 0, .is_causal = a->causal && queries != 1,
                 .left_window_size = -1, .right_window_size = -1, .scale = a->scale,
                 .qk_matmul_output_mode = a->want_qk ? 2 : 0) == NULL)
        return xcc_failure(n);
    a->y = parted ? together(n, y) : y;
    return a->y != NULL ? XCVM_OK : xcc_failure(n);
}

xcvm_status xcc_contrib_split_columns(xcc_lowering *n, xcc_value *product, xcc_contrib_attention *a)
{
    xcvm_ints sizes;
    int64_t widths[3];
    if (product == NULL)
        return xcc_failure(n);
    XCVM_TRY(xcc_contrib_need_ranks(n, product, "the input", 3, 3));
    XCVM_TRY(xcc_attribute_ints(n, "qkv_hidden_sizes", &sizes));
    const int64_t all = product->type.rank == 3 ? product->type.dims[2] : -1;
    XCVM_CHECK(n->m->error, sizes.count == 0 || sizes.count == 3, INVALID_MODEL,
               "attribute 'qkv_hidden_sizes' has %zu entries, 3 are expected", sizes.count);
    XCVM_CHECK(n->m->error, sizes.count == 3 || all > 0, UNSUPPORTED,
               "the number of columns of the weights is not known");
    for (size_t i = 0; i < 3; i++) {
        widths[i] = sizes.count == 3 ? sizes.at[i] : all / 3;
        XCVM_CHECK(n->m->error, widths[i] > 0 && widths[i] <= INT32_MAX && widths[i] % a->heads == 0, SHAPE_MISMATCH,
                   "%lld columns of queries, keys or values cannot be divided among %lld heads", (long long)widths[i],
                   (long long)a->heads);
    }
    XCVM_CHECK(n->m->error, all < 0 || widths[0] + widths[1] + widths[2] == all, SHAPE_MISMATCH,
               "the weights have %lld columns, queries, keys and values %lld", (long long)all,
               (long long)(widths[0] + widths[1] + widths[2]));
    XCVM_CHECK(n->m->error, widths[0] == widths[1], SHAPE_MISMATCH, "queries have %lld columns, keys %lld",
               (long long)widths[0], (long long)widths[1]);
    a->q = xcc_build_slice(&n->b, product, 2, 0, widths[0], 1);
    a->k = xcc_build_slice(&n->b, product, 2, widths[0], widths[0] + widths[1], 1);
    a->v = xcc_build_slice(&n->b, product, 2, widths[0] + widths[1], widths[0] + widths[1] + widths[2], 1);
    return a->v != NULL ? XCVM_OK : xcc_failure(n);
}

xcvm_status xcc_contrib_split_past(xcc_lowering *n, xcc_value *past, xcc_contrib_attention *a)
{
    if (past == NULL)
        return XCVM_OK;
    XCVM_TRY(xcc_contrib_need_ranks(n, past, "past", 5, 5));
    a->past_key = xcc_build_gather(&n->b, past, xcc_scalar_i64(n->b.graph, 0), 0);
    a->past_value = xcc_build_gather(&n->b, past, xcc_scalar_i64(n->b.graph, 1), 0);
    return a->past_key != NULL && a->past_value != NULL ? XCVM_OK : xcc_failure(n);
}

xcvm_status xcc_contrib_bind_present(xcc_lowering *n, const xcc_contrib_attention *a)
{
    if (!xcc_wants(n, 1))
        return XCVM_OK;
    xcc_value *key = xcc_build_unsqueeze(&n->b, a->present_key, 1, (const int64_t[]){0});
    xcc_value *value = xcc_build_unsqueeze(&n->b, a->present_value, 1, (const int64_t[]){0});
    return xcc_bind(n, 1, xcc_build_concat(&n->b, 2, (xcc_value *[]){key, value}, 0));
}

/* ---- Operators ---- */

/* Buffers that are written in place, and rotations that come from elsewhere. */
static xcvm_status refuse_variants(xcc_lowering *n)
{
    bool rotary, shared;
    XCVM_TRY(xcc_attribute_bool(n, "do_rotary", false, &rotary));
    XCVM_TRY(xcc_attribute_bool(n, "past_present_share_buffer", false, &shared));
    xcc_attribute_ignore(n, "rotary_embedding_dim");
    XCVM_CHECK(n->m->error, !rotary, UNSUPPORTED, "attribute 'do_rotary' is not supported for %s", n->op->info.name);
    XCVM_CHECK(n->m->error, !shared, UNSUPPORTED, "attribute 'past_present_share_buffer' is not supported for %s",
               n->op->info.name);
    return XCVM_OK;
}

xcvm_status xcc_lower_contrib_attention(xcc_lowering *n)
{
    xcc_contrib_attention a = {.mask = xcc_input(n, 3), .bias = xcc_input(n, 5)};
    XCVM_TRY(xcc_need_inputs(n, 2, 6));
    XCVM_TRY(refuse_variants(n));
    XCVM_TRY(xcc_contrib_read_attention(n, &a));
    xcc_value *product = xcc_build_binary(&n->b, XCVM_OP_MatMul, n->inputs[0], n->inputs[1]);
    XCVM_TRY(xcc_contrib_split_columns(n, xcc_contrib_biased(n, product, xcc_input(n, 2)), &a));
    XCVM_TRY(xcc_contrib_split_past(n, xcc_input(n, 4), &a));
    XCVM_TRY(xcc_contrib_attend(n, &a));
    XCVM_TRY(xcc_bind(n, 0, a.y));
    return xcc_contrib_bind_present(n, &a);
}

/* The product of bytes is one of integers, as ONNX Runtime computes it. */
xcvm_status xcc_lower_contrib_qattention(xcc_lowering *n)
{
    xcc_contrib_attention a = {.mask = xcc_input(n, 5)};
    XCVM_TRY(xcc_need_inputs(n, 5, 9));
    XCVM_TRY(refuse_variants(n));
    XCVM_TRY(xcc_contrib_read_attention(n, &a));
    xcc_value *product = xcc_build_call(&n->b, XCVM_OP_MatMulInteger,
                                        xcc_input(n, 7) != NULL   ? 4
                                        : xcc_input(n, 6) != NULL ? 3
                                                                  : 2,
                                        (xcc_value *[]){n->inputs[0], n->inputs[1],
                                                        xcc_input(n, 6) != NULL || xcc_input(n, 7) == NULL
                                                            ? xcc_input(n, 6)
                                                            : xcc_build_number(&n->b, n->inputs[0], 0),
                                                        xcc_input(n, 7)});
    xcc_value *scale = xcc_build_mul(&n->b, n->inputs[3], n->inputs[4]);
    product = scale != NULL ? xcc_build_cast(&n->b, product, (xcvm_dtype)scale->type.dtype) : NULL;
    product = xcc_build_add(&n->b, xcc_build_mul(&n->b, product, scale), n->inputs[2]);
    XCVM_TRY(xcc_contrib_split_columns(n, product, &a));
    XCVM_TRY(xcc_contrib_split_past(n, xcc_input(n, 8), &a));
    XCVM_TRY(xcc_contrib_attend(n, &a));
    XCVM_TRY(xcc_bind(n, 0, a.y));
    return xcc_contrib_bind_present(n, &a);
}

/* Columns first ... first + width of the bias that queries, keys and values have in common, added to x. */
static xcc_value *add_columns(xcc_lowering *n, xcc_value *x, xcc_value *bias, int64_t first, int64_t width)
{
    return bias == NULL ? x : xcc_build_add(&n->b, x, xcc_build_slice(&n->b, bias, 0, first, first + width, 1));
}

/* One of several values packed side by side for each head: x [batch, length, heads, count, size]. */
static xcc_value *packed(xcc_lowering *n, xcc_value *x, int64_t index)
{
    xcc_value *y = xcc_build_gather(&n->b, x, xcc_scalar_i64(n->b.graph, index), 3);
    return xcc_build_reshape(&n->b, y, XCC_BUILD_INTS(&n->b, 0, 0, -1));
}

static xcvm_status unpack(xcc_lowering *n, xcc_value *query, xcc_value *key, xcc_value *value, xcc_contrib_attention *a)
{
    XCVM_TRY(xcc_need_rank(n, query, "the query"));
    if (query->type.rank == 5) {
        XCVM_CHECK(n->m->error, key == NULL && value == NULL, INVALID_MODEL,
                   "the query is packed with keys and values, which are given, too");
        a->q = packed(n, query, 0);
        a->k = packed(n, query, 1);
        a->v = packed(n, query, 2);
    } else if (key == NULL) {
        XCVM_CHECK(n->m->error, value == NULL, INVALID_MODEL, "the operand value is present without key");
        return xcc_contrib_split_columns(n, query, a);
    } else {
        XCVM_TRY(xcc_need_rank(n, key, "the key"));
        const bool both = key->type.rank == 5;
        XCVM_CHECK(n->m->error, both == (value == NULL), INVALID_MODEL,
                   both ? "the key is packed with the value, but the operand value is present"
                        : "the operand key is present without value");
        a->q = query;
        a->k = both ? packed(n, key, 0) : key;
        a->v = both ? packed(n, key, 1) : value;
    }
    return a->q != NULL && a->k != NULL && a->v != NULL ? XCVM_OK : xcc_failure(n);
}

static xcvm_status add_bias(xcc_lowering *n, xcc_value *bias, xcc_contrib_attention *a)
{
    if (bias == NULL)
        return XCVM_OK;
    XCVM_TRY(xcc_contrib_need_ranks(n, bias, "the bias", 1, 1));
    const int64_t all = bias->type.rank == 1 ? bias->type.dims[0] : -1, width = is_flat(a->q) ? a->q->type.dims[2] : -1;
    XCVM_CHECK(n->m->error, width > 0 && all > 2 * width, UNSUPPORTED,
               "the bias and the query have to be of known, fitting shapes");
    a->q = add_columns(n, a->q, bias, 0, width);
    /* Keys of the past have theirs already. */
    if (is_flat(a->k)) {
        a->k = add_columns(n, a->k, bias, width, width);
        a->v = add_columns(n, a->v, bias, 2 * width, all - 2 * width);
    }
    return a->q != NULL && a->k != NULL && a->v != NULL ? XCVM_OK : xcc_failure(n);
}

static xcvm_status bind_attention(xcc_lowering *n, const xcc_contrib_attention *a)
{
    XCVM_TRY(xcc_bind(n, 0, a->y));
    XCVM_TRY(xcc_bind(n, 1, a->present_key));
    XCVM_TRY(xcc_bind(n, 2, a->present_value));
    return xcc_wants(n, 3) ? xcc_bind(n, 3, a->qk) : XCVM_OK;
}

xcvm_status xcc_lower_contrib_multi_head_attention(xcc_lowering *n)
{
    xcc_contrib_attention a = {.mask = xcc_input(n, 4),
                               .bias = xcc_input(n, 5),
                               .past_key = xcc_input(n, 6),
                               .past_value = xcc_input(n, 7),
                               .want_qk = xcc_wants(n, 3)};
    XCVM_TRY(xcc_need_inputs(n, 1, 8));
    XCVM_TRY(xcc_contrib_read_attention(n, &a));
    XCVM_CHECK(n->m->error, (a.past_key == NULL) == (a.past_value == NULL), INVALID_MODEL,
               "past_key and past_value have to be given both, or neither");
    XCVM_TRY(unpack(n, n->inputs[0], xcc_input(n, 1), xcc_input(n, 2), &a));
    XCVM_TRY(add_bias(n, xcc_input(n, 3), &a));
    XCVM_TRY(xcc_contrib_attend(n, &a));
    return bind_attention(n, &a);
}

/* One token, whose key and value are written into buffers after those of the past, or cross-attention to existing
 * keys. */
xcvm_status xcc_lower_contrib_decoder_masked_attention(xcc_lowering *n)
{
    xcc_contrib_attention a = {.mask = xcc_input(n, 3), .bias = xcc_input(n, 4)};
    bool shared, output;
    xcc_value *caches[2] = {xcc_input(n, 5), xcc_input(n, 6)}, *past = xcc_input(n, 7);
    XCVM_TRY(xcc_need_inputs(n, 1, 11));
    XCVM_TRY(xcc_contrib_read_attention(n, &a));
    XCVM_TRY(xcc_attribute_bool(n, "past_present_share_buffer", false, &shared));
    XCVM_TRY(xcc_attribute_bool(n, "output_qk", false, &output));
    XCVM_CHECK(n->m->error, xcc_input(n, 9) == NULL, UNSUPPORTED,
               "operand cache_indirection belongs to a beam search, which is not supported");
    a.want_qk = xcc_wants(n, 3);
    XCVM_TRY(unpack(n, n->inputs[0], xcc_input(n, 1), xcc_input(n, 2), &a));
    XCVM_TRY(add_bias(n, xcc_input(n, 10), &a));
    if (caches[0] == NULL) {
        XCVM_TRY(xcc_contrib_attend(n, &a));
        return bind_attention(n, &a);
    }
    XCVM_CHECK(n->m->error, caches[1] != NULL, INVALID_MODEL, "the operand past_key is present without past_value");
    if (!shared) {
        a.past_key = caches[0];
        a.past_value = caches[1];
        XCVM_TRY(xcc_contrib_attend(n, &a));
        return bind_attention(n, &a);
    }
    XCVM_CHECK(n->m->error, past != NULL, INVALID_MODEL, "operand 7 (past_sequence_length) is missing");
    XCVM_CHECK(n->m->error, a.mask == NULL && a.bias == NULL && !a.want_qk, UNSUPPORTED,
               "masks, biases and scores are not supported with buffers that are shared");
    XCVM_CHECK(n->m->error, is_flat(a.k), SHAPE_MISMATCH, "the key has %d dimensions, 3 are expected", a.k->type.rank);
    xcc_value *one = XCC_BUILD_INTS(&n->b, 1), *batch = xcc_build_dim_of(&n->b, a.q, 0), *present[2];
    past = xcc_build_reshape(&n->b, xcc_build_cast(&n->b, past, XCVM_I64), one);
    xcc_value *at = xcc_build_expand(&n->b, past, batch);
    xcc_value *count = xcc_build_expand(&n->b, xcc_build_add(&n->b, past, one), batch);
    xcc_value *fresh[2] = {apart(n, a.k, a.heads), apart(n, a.v, a.heads)}, *q = apart(n, a.q, a.heads);
    if (at == NULL || count == NULL || fresh[0] == NULL || fresh[1] == NULL || q == NULL)
        return xcc_failure(n);
    for (size_t i = 0; i < 2; i++) {
        present[i] = xcc_apply(&n->b, TensorScatter, y, .past_cache = XCC_IN(caches[i]), .update = XCC_IN(fresh[i]),
                               .write_indices = XCC_IN(at), .axis = -2);
        if (present[i] == NULL)
            return xcc_failure(n);
    }
    xcc_value *y =
        xcc_apply(&n->b, Attention, y, .q = XCC_IN(q), .k = XCC_IN(present[0]), .v = XCC_IN(present[1]),
                  .nonpad_kv_seqlen = XCC_IN(count), .left_window_size = -1, .right_window_size = -1, .scale = a.scale);
    XCVM_TRY(xcc_bind(n, 0, together(n, y)));
    XCVM_TRY(xcc_bind(n, 1, present[0]));
    return xcc_bind(n, 2, present[1]);
}

/* ---- Without padding ---- */

/* Rows of a batch without its padding. token_offset lists the positions of the tokens, then those of the padding. */
typedef struct unpadded {
    xcc_value *batch, *length; /* as tensors of shape [1] */
    xcc_value *places;         /* of the tokens, i64 [tokens, 1] */
    xcc_value *lengths;        /* of the sequences, i32 [batch] */
} unpadded;

static xcvm_status read_unpadded(xcc_lowering *n, xcc_value *tokens, xcc_value *offset, xcc_value *cumulative,
                                 unpadded *u)
{
    XCVM_CHECK(n->m->error, offset != NULL && cumulative != NULL, INVALID_MODEL,
               "token_offset or cumulative_sequence_length is missing");
    XCVM_TRY(xcc_contrib_need_ranks(n, offset, "token_offset", 2, 2));
    XCVM_TRY(xcc_contrib_need_ranks(n, cumulative, "cumulative_sequence_length", 1, 1));
    u->batch = xcc_build_dim_of(&n->b, offset, 0);
    u->length = xcc_build_dim_of(&n->b, offset, 1);
    xcc_value *list = xcc_build_reshape(&n->b, xcc_build_cast(&n->b, offset, XCVM_I64), XCC_BUILD_INTS(&n->b, -1));
    xcc_value *zero = XCC_BUILD_INTS(&n->b, 0);
    list =
        xcc_build_call(&n->b, XCVM_OP_Slice, 4, (xcc_value *[]){list, zero, xcc_build_dim_of(&n->b, tokens, 0), zero});
    u->places = xcc_build_unsqueeze(&n->b, list, 1, (const int64_t[]){1});
    u->lengths = xcc_build_sub(&n->b, xcc_build_slice(&n->b, cumulative, 0, 1, INT64_MAX, 1),
                               xcc_build_slice(&n->b, cumulative, 0, 0, -1, 1));
    return u->places != NULL && u->lengths != NULL ? XCVM_OK : xcc_failure(n);
}

/* [tokens, width] as [batch, length, width], zero where there is no token. */
static xcc_value *padded(xcc_lowering *n, const unpadded *u, xcc_value *x)
{
    xcc_value *width = xcc_build_dim_of(&n->b, x, 1), *rows = xcc_build_mul(&n->b, u->batch, u->length);
    xcc_value *none = xcc_build_expand(&n->b, xcc_build_number(&n->b, x, 0),
                                       xcc_build_concat(&n->b, 2, (xcc_value *[]){rows, width}, 0));
    xcc_value *all = xcc_build_call(&n->b, XCVM_OP_ScatterND, 3, (xcc_value *[]){none, u->places, x});
    return xcc_build_reshape(&n->b, all, xcc_build_concat(&n->b, 3, (xcc_value *[]){u->batch, u->length, width}, 0));
}

static xcc_value *without_padding(xcc_lowering *n, const unpadded *u, xcc_value *x)
{
    xcc_value *width = xcc_build_dim_of(&n->b, x, 2);
    xcc_value *rows =
        xcc_build_reshape(&n->b, x, xcc_build_concat(&n->b, 2, (xcc_value *[]){XCC_BUILD_INTS(&n->b, -1), width}, 0));
    return xcc_build_gather(&n->b, rows, xcc_build_squeeze(&n->b, u->places, 1, (const int64_t[]){1}), 0);
}

static xcvm_status attend_unpadded(xcc_lowering *n, const unpadded *u, xcc_contrib_attention *a)
{
    a->mask_filter = -10000;
    a->mask = u->lengths;
    XCVM_TRY(xcc_contrib_attend(n, a));
    return xcc_bind(n, 0, without_padding(n, u, a->y));
}

xcvm_status xcc_lower_contrib_packed_attention(xcc_lowering *n)
{
    xcc_contrib_attention a = {.bias = xcc_input(n, 5)};
    unpadded u;
    XCVM_TRY(xcc_need_inputs(n, 5, 6));
    XCVM_TRY(xcc_contrib_read_attention(n, &a));
    XCVM_TRY(xcc_contrib_need_ranks(n, n->inputs[0], "the input", 2, 2));
    XCVM_TRY(read_unpadded(n, n->inputs[0], n->inputs[3], n->inputs[4], &u));
    xcc_value *product = xcc_build_binary(&n->b, XCVM_OP_MatMul, n->inputs[0], n->inputs[1]);
    product = padded(n, &u, xcc_build_add(&n->b, product, n->inputs[2]));
    XCVM_TRY(xcc_contrib_split_columns(n, product, &a));
    return attend_unpadded(n, &u, &a);
}

xcvm_status xcc_lower_contrib_packed_multi_head_attention(xcc_lowering *n)
{
    xcc_contrib_attention a = {.bias = xcc_input(n, 6)};
    unpadded u;
    xcc_value *x[3] = {xcc_input(n, 0), xcc_input(n, 1), xcc_input(n, 2)};
    XCVM_TRY(xcc_need_inputs(n, 1, 7));
    XCVM_TRY(xcc_contrib_read_attention(n, &a));
    XCVM_TRY(xcc_contrib_need_ranks(n, x[0], "the query", 2, 4));
    if (x[0]->type.rank == 4) {
        xcc_value *all = x[0];
        for (int64_t i = 0; i < 3; i++) {
            x[i] = xcc_build_gather(&n->b, all, xcc_scalar_i64(n->b.graph, i), 2);
            x[i] = xcc_build_reshape(&n->b, x[i], XCC_BUILD_INTS(&n->b, 0, -1));
        }
    }
    XCVM_CHECK(n->m->error, x[1] != NULL && x[2] != NULL, INVALID_MODEL, "the key or the value is missing");
    XCVM_TRY(read_unpadded(n, x[0], xcc_input(n, 4), xcc_input(n, 5), &u));
    a.q = padded(n, &u, x[0]);
    a.k = padded(n, &u, x[1]);
    a.v = padded(n, &u, x[2]);
    if (a.q == NULL || a.k == NULL || a.v == NULL)
        return xcc_failure(n);
    XCVM_TRY(add_bias(n, xcc_input(n, 3), &a));
    return attend_unpadded(n, &u, &a);
}

/* Tokens without the padding at their end, their positions, and their number. */
xcvm_status xcc_lower_contrib_remove_padding(xcc_lowering *n)
{
    XCVM_TRY(xcc_need_inputs(n, 2, 2));
    XCVM_TRY(xcc_contrib_need_ranks(n, n->inputs[0], "the input", 3, 3));
    XCVM_TRY(xcc_contrib_need_ranks(n, n->inputs[1], "sequence_token_count", 1, 1));
    xcc_value *x = n->inputs[0], *counts = n->inputs[1], *one = XCC_BUILD_INTS(&n->b, 1);
    xcc_value *length = xcc_build_squeeze(&n->b, xcc_build_dim_of(&n->b, x, 1), 1, (const int64_t[]){0});
    xcc_value *place =
        xcc_build_call(&n->b, XCVM_OP_Range, 3,
                       (xcc_value *[]){xcc_scalar(n->b.graph, XCVM_I32, 0), xcc_build_cast(&n->b, length, XCVM_I32),
                                       xcc_scalar(n->b.graph, XCVM_I32, 1)});
    xcc_value *there =
        xcc_build_binary(&n->b, XCVM_OP_Less, place, xcc_build_unsqueeze(&n->b, counts, 1, (const int64_t[]){1}));
    xcc_value *flat = xcc_build_reshape(&n->b, there, XCC_BUILD_INTS(&n->b, -1));
    xcc_value *tokens =
        xcc_build_reshape(&n->b, xcc_build_unary(&n->b, XCVM_OP_NonZero, flat), XCC_BUILD_INTS(&n->b, -1));
    xcc_value *others = xcc_build_unary(&n->b, XCVM_OP_NonZero, xcc_build_unary(&n->b, XCVM_OP_Not, flat));
    others = xcc_build_reshape(&n->b, others, XCC_BUILD_INTS(&n->b, -1));
    xcc_value *offset = xcc_build_cast(&n->b, xcc_build_concat(&n->b, 2, (xcc_value *[]){tokens, others}, 0), XCVM_I32);
    xcc_value *size =
        xcc_build_concat(&n->b, 2, (xcc_value *[]){xcc_build_dim_of(&n->b, x, 0), xcc_build_dim_of(&n->b, x, 1)}, 0);
    xcc_value *sums = xcc_build_binary(&n->b, XCVM_OP_CumSum, counts, xcc_scalar_i64(n->b.graph, 0));
    xcc_value *none = xcc_build_expand(&n->b, xcc_scalar(n->b.graph, XCVM_I32, 0), one);
    xcc_value *rows = xcc_build_reshape(
        &n->b, x,
        xcc_build_concat(&n->b, 2, (xcc_value *[]){XCC_BUILD_INTS(&n->b, -1), xcc_build_dim_of(&n->b, x, 2)}, 0));
    XCVM_TRY(xcc_bind(n, 0, xcc_build_gather(&n->b, rows, tokens, 0)));
    XCVM_TRY(xcc_bind(n, 1, xcc_build_reshape(&n->b, offset, size)));
    XCVM_TRY(xcc_bind(n, 2, xcc_build_concat(&n->b, 2, (xcc_value *[]){none, sums}, 0)));
    return xcc_bind(n, 3,
                    xcc_build_reshape(&n->b, xcc_build_reduce(&n->b, XCVM_OP_ReduceMax, counts, NULL, false), one));
}

xcvm_status xcc_lower_contrib_restore_padding(xcc_lowering *n)
{
    unpadded u;
    XCVM_TRY(xcc_need_inputs(n, 2, 2));
    XCVM_TRY(xcc_contrib_need_ranks(n, n->inputs[0], "the input", 2, 2));
    /* The lengths are not needed. */
    XCVM_TRY(read_unpadded(n, n->inputs[0], n->inputs[1], XCC_BUILD_INTS(&n->b, 0, 0), &u));
    return xcc_bind(n, 0, padded(n, &u, n->inputs[0]));
}
