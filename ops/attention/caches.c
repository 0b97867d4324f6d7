/* Shape rules of CachedAttention, CachedMatMul and CacheAppend, and the kernel of CacheAppend. */
#include "ops/attention/attention_operands.h"

/* Checks the known dimensions of a cache [batch, heads, rows, width] and of the rows appended to it. */
static xcvm_status check_cache(xcvm_error *error, const xcvm_value *cache, const xcvm_value *fresh, const char *what)
{
    char text[96];
    XCVM_CHECK(error, cache->rank < 0 || cache->rank == 4, SHAPE_MISMATCH,
               "%s has the wrong shape (%s; expected [batch, heads, rows, width])", what,
               xcvm_dims_describe(cache->rank, cache->dims, text, sizeof text));
    XCVM_CHECK(error, fresh->rank < 0 || fresh->rank == 4, SHAPE_MISMATCH,
               "the rows to append to %s have the wrong shape (%s; expected [batch, heads, rows, width])", what,
               xcvm_dims_describe(fresh->rank, fresh->dims, text, sizeof text));
    for (int i = 0; cache->rank == 4 && fresh->rank == 4 && i < 4; i++)
        XCVM_CHECK(error, i == 2 || !xcvm_dims_differ(cache->dims[i], fresh->dims[i]), SHAPE_MISMATCH,
                   "dimension %d of %s differs from that of the rows to append (%lld; expected %lld)", i, what,
                   (long long)cache->dims[i], (long long)fresh->dims[i]);
    return XCVM_OK;
}

/* Checks the row counts of all batch entries, after which `fresh` rows must fit in the cache. Unknown counts are
 * skipped; `fresh` < 0 is unknown. */
static xcvm_status check_places(xcvm_error *error, const xcvm_value *at, const char *what, const xcvm_value *cache,
                                int64_t fresh)
{
    XCVM_CHECK(error, at->rank < 0 || at->rank == 1, SHAPE_MISMATCH, "%s has the wrong rank (%d; expected 1)", what,
               at->rank);
    if (cache->rank != 4 || at->rank != 1)
        return XCVM_OK;
    const int64_t rows = cache->dims[2];
    XCVM_CHECK(error, !xcvm_dims_differ(at->dims[0], cache->dims[0]), SHAPE_MISMATCH,
               "%s has %lld elements, but there are %lld batch entries", what, (long long)at->dims[0],
               (long long)cache->dims[0]);
    for (int64_t i = 0; at->data != NULL && rows >= 0 && fresh >= 0 && i < at->dims[0]; i++) {
        const int64_t place = XCVM_CDATA(int64_t, at)[i];
        XCVM_CHECK(error, place >= 0 && place <= rows, OUT_OF_RANGE,
                   "%s[%lld] is out of range (%lld): the cache holds %lld rows", what, (long long)i, (long long)place,
                   (long long)rows);
        XCVM_CHECK(error, fresh <= rows - place, OUT_OF_RANGE,
                   "the cache holds %lld rows: %lld more do not fit behind the first %lld (%s[%lld])", (long long)rows,
                   (long long)fresh, (long long)place, what, (long long)i);
    }
    return XCVM_OK;
}

/* Groups of query heads share a key head. */
static xcvm_status check_heads(xcvm_error *error, int64_t heads, int64_t shared)
{
    XCVM_CHECK(error, heads < 0 || shared < 0 || (shared == 0 ? heads == 0 : heads % shared == 0), SHAPE_MISMATCH,
               "%lld heads of keys do not divide %lld heads of queries", (long long)shared, (long long)heads);
    return XCVM_OK;
}

XCVM_SHAPE_RULE_OF(CachedAttention)
{
    const xcvm_value *q = a->q, *k = a->k, *v = a->v;
    XCVM_TRY(check_cache(t->error, a->past_key, k, "past_key"));
    XCVM_TRY(check_cache(t->error, a->past_value, v, "past_value"));
    XCVM_CHECK(t->error, q->rank < 0 || q->rank == 4, SHAPE_MISMATCH, "q has the wrong rank (%d; expected 4)", q->rank);
    XCVM_TRY(check_places(t->error, a->before, "before", a->past_key, 0));
    XCVM_TRY(check_places(t->error, a->before, "before", a->past_value, 0));
    if (q->rank != 4 || k->rank != 4 || v->rank != 4) {
        xcvm_set_unknown(a->y, XCVM_F32, 4);
        return XCVM_OK;
    }
    XCVM_CHECK(t->error,
               !xcvm_dims_differ(q->dims[0], k->dims[0]) && !xcvm_dims_differ(k->dims[0], v->dims[0]) &&
                   !xcvm_dims_differ(k->dims[1], v->dims[1]) && !xcvm_dims_differ(q->dims[2], k->dims[2]) &&
                   !xcvm_dims_differ(k->dims[2], v->dims[2]) && !xcvm_dims_differ(q->dims[3], k->dims[3]),
               SHAPE_MISMATCH, "q, k and v differ in batch, heads, length or width");
    XCVM_TRY(check_heads(t->error, q->dims[1], k->dims[1]));
    int64_t keys = XCVM_ANY_DIM;
    if (a->past_key->rank == 4 && a->past_key->dims[2] >= 0 && k->dims[2] >= 0 &&
        __builtin_add_overflow(a->past_key->dims[2], k->dims[2], &keys))
        keys = XCVM_ANY_DIM;
    XCVM_TRY(xcvm_attention_check_mask(t->error, a->mask, q->dims, keys));
    const int64_t dims[] = {q->dims[0], q->dims[1], q->dims[2], v->dims[3]};
    xcvm_value_set_tensor(a->y, XCVM_F32, 4, dims);
    return XCVM_OK;
}

/* Number of rows including the fresh ones, if known. Without batch entries, only the fresh ones count. */
static xcvm_status count_rows(xcvm_error *error, const xcvm_CachedMatMul_args *a, int64_t *rows)
{
    const int64_t *before = a->before->data, fresh = a->fresh->dims[2];
    const bool none = a->before->rank == 1 && a->before->dims[0] == 0;
    *rows = none ? fresh : XCVM_ANY_DIM;
    if (before == NULL || none || a->before->rank != 1 || a->past->rank != 4)
        return XCVM_OK;
    for (int64_t i = 1; i < a->before->dims[0]; i++)
        XCVM_CHECK(error, before[i] == before[0], SHAPE_MISMATCH,
                   "before[%lld] is %lld, before[0] %lld; batch entries need as many rows each", (long long)i,
                   (long long)before[i], (long long)before[0]);
    XCVM_CHECK(error, before[0] >= 0 && fresh < INT64_MAX - before[0], OUT_OF_RANGE,
               "there cannot be %lld and %lld rows", (long long)before[0], (long long)fresh);
    if (fresh >= 0)
        *rows = before[0] + fresh;
    return XCVM_OK;
}

XCVM_SHAPE_RULE_OF(CachedMatMul)
{
    const xcvm_value *x = a->a, *fresh = a->fresh;
    XCVM_TRY(check_cache(t->error, a->past, fresh, "past"));
    XCVM_CHECK(t->error, x->rank < 0 || x->rank == 4, SHAPE_MISMATCH, "a has the wrong rank (%d; expected 4)", x->rank);
    XCVM_TRY(check_places(t->error, a->before, "before", a->past, 0));
    xcvm_set_unknown(a->y, XCVM_F32, 4);
    if (x->rank != 4 || fresh->rank != 4)
        return XCVM_OK;
    int64_t rows;
    XCVM_TRY(count_rows(t->error, a, &rows));
    /* A single batch entry broadcasts, as in MatMul. */
    const int64_t batch = x->dims[0] == 1 ? fresh->dims[0] : x->dims[0];
    XCVM_CHECK(t->error, fresh->dims[0] == 1 || !xcvm_dims_differ(batch, fresh->dims[0]), SHAPE_MISMATCH,
               "a has %lld batch entries, fresh %lld", (long long)x->dims[0], (long long)fresh->dims[0]);
    XCVM_TRY(check_heads(t->error, x->dims[1], fresh->dims[1]));
    const int64_t summed = a->transB ? fresh->dims[3] : rows;
    XCVM_CHECK(t->error, !xcvm_dims_differ(x->dims[3], summed), SHAPE_MISMATCH,
               "rows of a have the wrong number of elements (%lld; expected %lld)", (long long)x->dims[3],
               (long long)summed);
    const int64_t dims[] = {batch < 0 && fresh->dims[0] > 1 ? fresh->dims[0] : batch, x->dims[1], x->dims[2],
                            a->transB ? rows : fresh->dims[3]};
    xcvm_value_set_tensor(a->y, XCVM_F32, 4, dims);
    return XCVM_OK;
}

XCVM_SHAPE_RULE_OF(CacheAppend)
{
    XCVM_TRY(check_cache(t->error, a->cache, a->update, "cache"));
    return check_places(t->error, a->at, "at", a->cache, a->update->rank == 4 ? a->update->dims[2] : -1);
}

XCVM_KERNEL(CacheAppend)
{
    (void)k;
    const int64_t *c = a->cache->dims;
    const size_t heads = (size_t)c[1], rows = (size_t)c[2], fresh = (size_t)a->update->dims[2];
    const size_t row = (size_t)c[3] * xcvm_dtype_size((xcvm_dtype)a->cache->dtype), bytes = fresh * row;
    for (size_t i = 0; bytes != 0 && i < (size_t)c[0] * heads; i++)
        memcpy((char *)a->cache->data + (i * rows + (size_t)XCVM_CDATA(int64_t, a->at)[i / heads]) * row,
               (const char *)a->update->data + i * bytes, bytes);
    return XCVM_OK;
}
