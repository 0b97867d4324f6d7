/* TfIdfVectorizer: counting n-grams of a pool. */
#include "ops/kernel.h"

/* Number of n-grams in the pool. */
static size_t gram_count(const xcvm_TfIdfVectorizer_args *a) { return a->ngram_indexes.count; }

XCVM_SHAPE_RULE_OF(TfIdfVectorizer)
{
    const size_t pool = a->pool_strings.count != 0 ? a->pool_strings.count : a->pool_int64s.count;
    XCVM_CHECK(t->error, (a->pool_strings.count == 0) != (a->pool_int64s.count == 0), INVALID_ARGUMENT,
               "exactly one of pool_strings and pool_int64s must be given");
    XCVM_CHECK(t->error, (a->x->dtype == XCVM_STRING) == (a->pool_strings.count != 0) || a->x->dtype == XCVM_NO_DTYPE,
               TYPE_MISMATCH, "x is %s, the pool is not", xcvm_dtype_name((xcvm_dtype)a->x->dtype));
    XCVM_CHECK(t->error,
               a->min_gram_length <= a->max_gram_length && (size_t)a->max_gram_length <= a->ngram_counts.count,
               INVALID_ARGUMENT, "gram lengths %lld to %lld do not fit ngram_counts of %zu entries",
               (long long)a->min_gram_length, (long long)a->max_gram_length, a->ngram_counts.count);
    XCVM_CHECK(t->error, a->weights.count == 0 || a->weights.count == gram_count(a), INVALID_ARGUMENT,
               "weights has %zu entries, ngram_indexes %zu", a->weights.count, gram_count(a));
    size_t grams = 0;
    for (size_t n = 0; n < a->ngram_counts.count; n++) {
        const size_t begin = (size_t)a->ngram_counts.at[n];
        const size_t end = n + 1 < a->ngram_counts.count ? (size_t)a->ngram_counts.at[n + 1] : pool;
        XCVM_CHECK(t->error, begin <= end && end <= pool && (end - begin) % (n + 1) == 0, INVALID_ARGUMENT,
                   "ngram_counts[%zu] does not fit the pool of %zu", n, pool);
        grams += (end - begin) / (n + 1);
    }
    XCVM_CHECK(t->error, grams == gram_count(a), INVALID_ARGUMENT,
               "ngram_indexes has %zu entries, the pool %zu n-grams", gram_count(a), grams);
    int64_t width = 0;
    for (size_t i = 0; i < a->ngram_indexes.count; i++)
        width = a->ngram_indexes.at[i] >= width ? a->ngram_indexes.at[i] + 1 : width;
    XCVM_CHECK(t->error, a->x->rank <= 2 && a->x->rank != 0, SHAPE_MISMATCH, "x has rank %d, 1 or 2 is needed",
               a->x->rank);
    if (a->x->rank == 2)
        xcvm_value_set_tensor(a->y, XCVM_F32, 2, (const int64_t[]){a->x->dims[0], width});
    else
        xcvm_value_set_tensor(a->y, XCVM_F32, a->x->rank, &width);
    return XCVM_OK;
}

/* A run of tokens, `stride` apart, of x or of the pool. */
typedef struct gram {
    const xcvm_TfIdfVectorizer_args *args;
    xcvm_poller *poller; /* of who looks it up */
    bool of_pool;
    size_t first, stride, length;
} gram;

static const char *token_bytes(const gram *g, size_t i, size_t *length)
{
    const size_t at = g->first + i * g->stride;
    if (!g->of_pool)
        return xcvm_string_at(g->args->x, at, length);
    *length = g->args->pool_strings.at[at].length;
    return g->args->pool_strings.at[at].at;
}

/* FNV-1a of the bytes of strings. */
static uint64_t hash(const gram *g)
{
    uint64_t h = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < g->length; i++) {
        size_t length;
        const char *bytes = token_bytes(g, i, &length);
        h *= UINT64_C(1099511628211);
        if (xcvm_poll_after(g->poller, 1 + length) != XCVM_OK)
            break;
        for (size_t j = 0; j < length; j++)
            h = (h ^ (uint64_t)(unsigned char)bytes[j]) * UINT64_C(1099511628211);
    }
    return h ^ h >> 29;
}

static bool same(const gram *p, const gram *q)
{
    if (p->length != q->length)
        return false;
    for (size_t i = 0; i < p->length; i++) {
        size_t n, m;
        if (xcvm_poll_after(p->poller, 1) != XCVM_OK)
            return true;
        const char *a = token_bytes(p, i, &n), *b = token_bytes(q, i, &m);
        if (n != m || (n != 0 && memcmp(a, b, n) != 0))
            return false;
    }
    return true;
}

/* Entry of the table: a gram of the pool, by where it begins; length 0 is free. */
typedef struct entry {
    size_t first, length, index;
} entry;

static int64_t token_at(const gram *g, size_t i)
{
    const size_t at = g->first + i * g->stride;
    if (g->of_pool)
        return g->args->pool_int64s.at[at];
    return g->args->x->dtype == XCVM_I64 ? XCVM_CDATA(int64_t, g->args->x)[at] : xcvm_element_as_int(g->args->x, at);
}

/* As look_up, for integers: FNV-1a over their words. */
static entry *look_up_integers(entry *table, size_t mask, const gram *g)
{
    uint64_t h = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < g->length && xcvm_poll_after(g->poller, 1) == XCVM_OK; i++)
        h = (h ^ (uint64_t)token_at(g, i)) * UINT64_C(1099511628211);
    h ^= h >> 29;
    for (size_t i = (size_t)h & mask;; i = (i + 1) & mask) {
        entry *e = &table[i];
        if (e->length == 0 || xcvm_poll_after(g->poller, 1) != XCVM_OK)
            return e;
        size_t equal = 0;
        while (e->length == g->length && equal < g->length && xcvm_poll_after(g->poller, 1) == XCVM_OK &&
               g->args->pool_int64s.at[e->first + equal] == token_at(g, equal))
            equal++;
        if (equal == g->length)
            return e;
    }
}

/* Any entry if the run is stopped. */
static entry *look_up(entry *table, size_t mask, const gram *g)
{
    if (g->args->x->dtype != XCVM_STRING)
        return look_up_integers(table, mask, g);
    for (size_t i = (size_t)hash(g) & mask;; i = (i + 1) & mask) {
        entry *e = &table[i];
        const gram other = {g->args, g->poller, true, e->first, 1, e->length};
        if (e->length == 0 || xcvm_poll_after(g->poller, 1) != XCVM_OK || same(&other, g))
            return e;
    }
}

XCVM_KERNEL(TfIdfVectorizer)
{
    const size_t pool = a->pool_strings.count != 0 ? a->pool_strings.count : a->pool_int64s.count;
    size_t capacity = 16;
    while (capacity < 2 * gram_count(a))
        capacity *= 2;
    entry *table = xcvm_kernel_scratch(k, capacity * sizeof *table);
    if (table == NULL)
        return XCVM_OUT_OF_MEMORY;
    XCVM_TRY(xcvm_kernel_fill(k, table, 0, capacity * sizeof *table));
    xcvm_poller poller = xcvm_poller_of(k);
    size_t index = 0;
    for (size_t n = 1; n <= a->ngram_counts.count; n++) {
        const size_t end = n < a->ngram_counts.count ? (size_t)a->ngram_counts.at[n] : pool;
        for (size_t first = (size_t)a->ngram_counts.at[n - 1]; first < end; first += n, index++) {
            const gram g = {a, &poller, true, first, 1, n};
            XCVM_TRY(xcvm_poll_after(&poller, 1));
            entry *e = look_up(table, capacity - 1, &g);
            if (e->length == 0)
                *e = (entry){first, n, index};
        }
    }

    const size_t rows = a->x->rank == 2 ? (size_t)a->x->dims[0] : 1;
    const size_t tokens = (size_t)a->x->dims[a->x->rank - 1], width = (size_t)a->y->dims[a->y->rank - 1];
    float *y = a->y->data;
    XCVM_TRY(xcvm_kernel_fill(k, y, 0, a->y->bytes));
    for (size_t row = 0; row < rows; row++, y += width) {
        for (int64_t skip = 0; skip <= a->max_skip_count && (size_t)skip < tokens + 1; skip++)
            for (int64_t n = a->min_gram_length; n <= a->max_gram_length; n++) {
                XCVM_TRY(xcvm_poll_after(&poller, 1));
                /* Skipping makes no difference to single tokens: they count once. */
                const size_t stride = (size_t)skip + 1, reach = (size_t)(n - 1) * stride;
                if ((n == 1 && skip > 0) || reach >= tokens)
                    continue;
                for (size_t first = 0; first + reach < tokens; first++) {
                    const gram g = {a, &poller, false, row * tokens + first, stride, (size_t)n};
                    XCVM_TRY(xcvm_poll_after(&poller, 1));
                    const entry *e = look_up(table, capacity - 1, &g);
                    if (e->length != 0)
                        y[a->ngram_indexes.at[e->index]] += 1;
                }
            }
        if (a->mode != XCVM_WEIGHTING_TF)
            for (size_t i = 0; i < gram_count(a); i++) {
                float *cell = &y[a->ngram_indexes.at[i]];
                XCVM_TRY(xcvm_poll_after(&poller, 1));
                const float weight = a->weights.count != 0 ? (float)a->weights.at[i] : 1;
                if (*cell > 0)
                    *cell = a->mode == XCVM_WEIGHTING_IDF ? weight : *cell * weight;
            }
    }
    return xcvm_kernel_poll(k);
}
