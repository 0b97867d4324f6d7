/* Shape rule of Attention. */
#include "ops/attention/attention_operands.h"

/* Checks a dimension; fails with a message that names both sizes. */
static xcvm_status same_dim(const xcvm_inference *t, const xcvm_value *v, int axis, const char *what, int64_t wanted)
{
    XCVM_CHECK(t->error, v->rank < 0 || !xcvm_dims_differ(v->dims[axis], wanted), SHAPE_MISMATCH,
               "dimension %d of %s has the wrong size (%lld; expected %lld)", axis, what, (long long)v->dims[axis],
               (long long)wanted);
    return XCVM_OK;
}

static int64_t dim(const xcvm_value *v, int axis) { return v == NULL || v->rank < 0 ? XCVM_ANY_DIM : v->dims[axis]; }

/* Size of each of `heads` equal parts of a dimension; XCVM_ANY_DIM if unknown. */
static xcvm_status divided(const xcvm_inference *t, int64_t all, int64_t heads, const char *what, int64_t *each)
{
    *each = XCVM_ANY_DIM;
    if (all < 0)
        return XCVM_OK;
    XCVM_CHECK(t->error, all % heads == 0, SHAPE_MISMATCH,
               "rows of %s have %lld elements, which do not divide into %lld heads", what, (long long)all,
               (long long)heads);
    *each = all / heads;
    return XCVM_OK;
}

static int64_t product(int64_t a, int64_t b)
{
    int64_t all;
    return a < 0 || b < 0 || __builtin_mul_overflow(a, b, &all) ? XCVM_ANY_DIM : all;
}

typedef struct sizes {
    int64_t batch, heads, kv_heads, queries, keys, width, v_width;
} sizes;

/* For q, k and v of rank 4. */
static xcvm_status sizes_of_heads(const xcvm_inference *t, const xcvm_Attention_args *a, sizes *s)
{
    s->heads = dim(a->q, 1);
    s->queries = dim(a->q, 2);
    s->width = dim(a->q, 3);
    s->kv_heads = dim(a->k, 1);
    s->keys = dim(a->k, 2);
    s->v_width = dim(a->v, 3);
    XCVM_TRY(same_dim(t, a->k, 3, "k", s->width));
    XCVM_TRY(same_dim(t, a->v, 1, "v", s->kv_heads));
    return same_dim(t, a->v, 2, "v", s->keys);
}

/* For q, k and v of rank 3, or a packed q that contains all of them. */
static xcvm_status sizes_of_rows(const xcvm_inference *t, const xcvm_Attention_args *a, sizes *s)
{
    XCVM_CHECK(t->error, a->q_num_heads > 0 && a->kv_num_heads > 0, INVALID_ARGUMENT,
               "q_num_heads is %lld and kv_num_heads %lld, both must be given for operands of rank 3",
               (long long)a->q_num_heads, (long long)a->kv_num_heads);
    s->heads = a->q_num_heads;
    s->kv_heads = a->kv_num_heads;
    s->queries = dim(a->q, 1);
    if (a->k == NULL) {
        XCVM_TRY(divided(t, dim(a->q, 2), s->heads + 2 * s->kv_heads, "q", &s->width));
        s->keys = s->queries;
        s->v_width = s->width;
        return XCVM_OK;
    }
    XCVM_TRY(divided(t, dim(a->q, 2), s->heads, "q", &s->width));
    XCVM_TRY(divided(t, dim(a->v, 2), s->kv_heads, "v", &s->v_width));
    s->keys = dim(a->k, 1);
    XCVM_TRY(same_dim(t, a->k, 2, "k", product(s->kv_heads, s->width)));
    return same_dim(t, a->v, 1, "v", s->keys);
}

static xcvm_status check_rank(const xcvm_inference *t, const xcvm_value *v, int rank, const char *what)
{
    XCVM_CHECK(t->error, v == NULL || v->rank < 0 || rank < 0 || v->rank == rank, SHAPE_MISMATCH,
               "%s has the wrong rank (%d; expected %d)", what, v->rank, rank);
    return XCVM_OK;
}

xcvm_status xcvm_attention_check_mask(xcvm_error *error, const xcvm_value *mask, const int64_t around[3], int64_t keys)
{
    if (mask == NULL || mask->rank < 0)
        return XCVM_OK;
    XCVM_CHECK(error, mask->rank >= 1 && mask->rank <= 4, SHAPE_MISMATCH,
               "mask has the wrong rank (%d; expected 1 to 4)", mask->rank);
    for (int i = 0; i < mask->rank - 1; i++) {
        const int64_t wanted = around[3 - (mask->rank - 1) + i];
        XCVM_CHECK(error, mask->dims[i] == 1 || !xcvm_dims_differ(mask->dims[i], wanted), SHAPE_MISMATCH,
                   "dimension %d of mask has the wrong size (%lld; expected 1 or %lld)", i, (long long)mask->dims[i],
                   (long long)wanted);
    }
    const int64_t last = mask->dims[mask->rank - 1];
    XCVM_CHECK(error, last < 0 || keys < 0 || last <= keys, SHAPE_MISMATCH, "mask is for %lld keys, but there are %lld",
               (long long)last, (long long)keys);
    return XCVM_OK;
}

/* The past has the shape of k or v split into heads, except for the number of keys. */
static xcvm_status check_past(const xcvm_inference *t, const xcvm_value *past, const char *what, const sizes *s,
                              int64_t width)
{
    XCVM_TRY(check_rank(t, past, 4, what));
    XCVM_TRY(same_dim(t, past, 0, what, s->batch));
    XCVM_TRY(same_dim(t, past, 1, what, s->kv_heads));
    return same_dim(t, past, 3, what, width);
}

XCVM_SHAPE_RULE_OF(Attention)
{
    const int rank = a->q->rank;
    XCVM_CHECK(t->error, (a->k == NULL) == (a->v == NULL), INVALID_ARGUMENT, "one of k and v is missing");
    XCVM_CHECK(t->error, (a->past_key == NULL) == (a->past_value == NULL), INVALID_ARGUMENT,
               "one of past_key and past_value is missing");
    XCVM_CHECK(t->error, rank < 0 || rank == 3 || (rank == 4 && a->k != NULL), SHAPE_MISMATCH,
               "q has the wrong rank (%d; expected %s)", rank, a->k != NULL ? "3 or 4" : "3");
    sizes s = {.batch = dim(a->q, 0)};
    XCVM_TRY(check_rank(t, a->k, rank, "k"));
    XCVM_TRY(check_rank(t, a->v, rank, "v"));
    if (rank < 0) {
        xcvm_set_unknown(a->y, a->y->dtype, -1);
        if (a->present_key != NULL)
            xcvm_set_unknown(a->present_key, a->present_key->dtype, 4);
        if (a->present_value != NULL)
            xcvm_set_unknown(a->present_value, a->present_value->dtype, 4);
        if (a->qk != NULL)
            xcvm_set_unknown(a->qk, a->qk->dtype, 4);
        return XCVM_OK;
    }
    XCVM_TRY(rank == 4 ? sizes_of_heads(t, a, &s) : sizes_of_rows(t, a, &s));
    if (a->k != NULL) {
        XCVM_TRY(same_dim(t, a->k, 0, "k", s.batch));
        XCVM_TRY(same_dim(t, a->v, 0, "v", s.batch));
    }
    XCVM_CHECK(t->error, s.heads < 0 || s.kv_heads < 0 || (s.kv_heads == 0 ? s.heads == 0 : s.heads % s.kv_heads == 0),
               SHAPE_MISMATCH, "the %lld heads of q do not divide into the %lld of k", (long long)s.heads,
               (long long)s.kv_heads);
    int64_t keys = s.keys;
    if (a->past_key != NULL) {
        XCVM_TRY(check_past(t, a->past_key, "past_key", &s, s.width));
        XCVM_TRY(check_past(t, a->past_value, "past_value", &s, s.v_width));
        const int64_t past = dim(a->past_key, 2);
        XCVM_TRY(same_dim(t, a->past_value, 2, "past_value", past));
        if (past < 0 || s.keys < 0 || __builtin_add_overflow(past, s.keys, &keys))
            keys = past == 0 ? s.keys : XCVM_ANY_DIM;
    }
    XCVM_TRY(xcvm_attention_check_mask(t->error, a->mask, (const int64_t[]){s.batch, s.heads, s.queries}, keys));
    if (a->nonpad_kv_seqlen != NULL) {
        XCVM_TRY(check_rank(t, a->nonpad_kv_seqlen, 1, "nonpad_kv_seqlen"));
        XCVM_TRY(same_dim(t, a->nonpad_kv_seqlen, 0, "nonpad_kv_seqlen", s.batch));
    }
    if (rank == 4)
        xcvm_value_set_tensor(a->y, a->y->dtype, 4, (const int64_t[]){s.batch, s.heads, s.queries, s.v_width});
    else
        xcvm_value_set_tensor(a->y, a->y->dtype, 3, (const int64_t[]){s.batch, s.queries, product(s.heads, s.v_width)});
    if (a->present_key != NULL)
        xcvm_value_set_tensor(a->present_key, a->present_key->dtype, 4,
                              (const int64_t[]){s.batch, s.kv_heads, keys, s.width});
    if (a->present_value != NULL)
        xcvm_value_set_tensor(a->present_value, a->present_value->dtype, 4,
                              (const int64_t[]){s.batch, s.kv_heads, keys, s.v_width});
    if (a->qk != NULL)
        xcvm_value_set_tensor(a->qk, a->qk->dtype, 4, (const int64_t[]){s.batch, s.heads, s.queries, keys});
    return XCVM_OK;
}

XCVM_SHAPE_RULE_OF(RotaryEmbedding)
{
    const xcvm_value *x = a->x, *positions = a->position_ids;
    const int rank = positions != NULL ? 2 : 3;
    xcvm_value_set_tensor(a->y, x->dtype, x->rank, x->dims);
    XCVM_CHECK(t->error, x->rank < 0 || x->rank == 3 || x->rank == 4, SHAPE_MISMATCH,
               "x has the wrong rank (%d; expected 3 or 4)", x->rank);
    XCVM_TRY(check_rank(t, a->cos, rank, "cos"));
    XCVM_TRY(check_rank(t, a->sin, rank, "sin"));
    if (positions != NULL)
        XCVM_TRY(check_rank(t, positions, 2, "position_ids"));
    for (int i = 0; i < rank && a->cos->rank >= 0; i++)
        XCVM_TRY(same_dim(t, a->sin, i, "sin", a->cos->dims[i]));
    if (x->rank < 0)
        return XCVM_OK;
    int64_t width = x->dims[x->rank - 1];
    if (x->rank == 3) {
        XCVM_CHECK(t->error, a->num_heads > 0, INVALID_ARGUMENT, "num_heads must be given for an x of rank 3");
        XCVM_TRY(divided(t, width, a->num_heads, "x", &width));
    }
    const int64_t turned = a->rotary_embedding_dim > 0 ? a->rotary_embedding_dim : width;
    XCVM_CHECK(t->error, width < 0 || turned <= width, OUT_OF_RANGE, "%lld elements are turned, but heads have %lld",
               (long long)turned, (long long)width);
    XCVM_CHECK(t->error, turned < 0 || turned % 2 == 0, SHAPE_MISMATCH, "%lld elements do not make pairs",
               (long long)turned);
    const int64_t rows = x->dims[x->rank == 3 ? 1 : 2];
    const xcvm_value *by_row = positions != NULL ? positions : a->cos;
    XCVM_TRY(same_dim(t, by_row, 0, positions != NULL ? "position_ids" : "cos", x->dims[0]));
    XCVM_TRY(same_dim(t, by_row, 1, positions != NULL ? "position_ids" : "cos", rows));
    const int64_t angles = dim(a->cos, rank - 1);
    XCVM_CHECK(t->error, angles < 0 || turned < 0 || angles >= turned / 2, SHAPE_MISMATCH,
               "cos is for %lld pairs, but %lld are turned", (long long)angles, (long long)(turned / 2));
    return XCVM_OK;
}

static xcvm_status check_gate(const xcvm_inference *t, const xcvm_value *v, const xcvm_value *q, const char *what)
{
    if (v == NULL)
        return XCVM_OK;
    XCVM_TRY(check_rank(t, v, 3, what));
    XCVM_TRY(same_dim(t, v, 0, what, dim(q, 0)));
    return same_dim(t, v, 1, what, dim(q, 1));
}

XCVM_SHAPE_RULE_OF(LinearAttention)
{
    static const struct {
        bool gated, delta;
    } rules[] = {[XCVM_UPDATE_RULE_linear] = {false, false},
                 [XCVM_UPDATE_RULE_gated] = {true, false},
                 [XCVM_UPDATE_RULE_delta] = {false, true},
                 [XCVM_UPDATE_RULE_gated_delta] = {true, true}};
    const xcvm_value *operands[] = {a->k, a->v, a->decay, a->beta, a->erase_gate};
    static const char *const names[] = {"k", "v", "decay", "beta", "erase_gate"};
    XCVM_CHECK(t->error, a->q_num_heads > 0 && a->kv_num_heads > 0 && a->q_num_heads % a->kv_num_heads == 0,
               INVALID_ARGUMENT, "q_num_heads, %lld, is not a multiple of kv_num_heads, %lld",
               (long long)a->q_num_heads, (long long)a->kv_num_heads);
    XCVM_CHECK(t->error, (a->decay != NULL) == rules[a->update_rule].gated, INVALID_ARGUMENT,
               "decay is %s, which the update rule does not allow", a->decay != NULL ? "given" : "missing");
    XCVM_CHECK(t->error, (a->beta != NULL) == rules[a->update_rule].delta, INVALID_ARGUMENT,
               "beta is %s, which the update rule does not allow", a->beta != NULL ? "given" : "missing");
    XCVM_CHECK(t->error, a->erase_gate == NULL || rules[a->update_rule].delta, INVALID_ARGUMENT,
               "erase_gate is given, which the update rule does not allow");
    XCVM_TRY(check_rank(t, a->q, 3, "q"));
    for (size_t i = 0; i < sizeof operands / sizeof *operands; i++)
        XCVM_TRY(check_gate(t, operands[i], a->q, names[i]));
    const int64_t heads = a->kv_num_heads;
    int64_t width, v_width;
    XCVM_TRY(divided(t, dim(a->q, 2), a->q_num_heads, "q", &width));
    XCVM_TRY(divided(t, dim(a->v, 2), heads, "v", &v_width));
    XCVM_TRY(same_dim(t, a->k, 2, "k", product(heads, width)));
    if (a->decay != NULL && dim(a->decay, 2) != heads)
        XCVM_TRY(same_dim(t, a->decay, 2, "decay", product(heads, width)));
    if (a->beta != NULL && dim(a->beta, 2) != 1)
        XCVM_TRY(same_dim(t, a->beta, 2, "beta", heads));
    if (a->erase_gate != NULL)
        XCVM_TRY(same_dim(t, a->erase_gate, 2, "erase_gate", product(heads, width)));
    const int64_t state[] = {dim(a->q, 0), heads, width, v_width};
    if (a->past_state != NULL) {
        XCVM_TRY(check_rank(t, a->past_state, 4, "past_state"));
        for (int i = 0; i < 4; i++)
            XCVM_TRY(same_dim(t, a->past_state, i, "past_state", state[i]));
    }
    xcvm_value_set_tensor(a->y, a->q->dtype, 3,
                          (const int64_t[]){dim(a->q, 0), dim(a->q, 1), product(a->q_num_heads, v_width)});
    if (a->present_state != NULL)
        xcvm_value_set_tensor(a->present_state, a->past_state != NULL ? a->past_state->dtype : a->q->dtype, 4, state);
    return XCVM_OK;
}
