/* TfIdfVectorizer: counts the n-grams of a pool. */
#include "ops/util/keys.h"

/* Number of n-grams and of tokens in the pool. */
static size_t gram_count(const xcvm_TfIdfVectorizer_args *a) { return a->ngram_indexes.count; }
static size_t pool_count(const xcvm_TfIdfVectorizer_args *a)
{
    return a->pool_strings.count != 0 ? a->pool_strings.count : a->pool_int64s.count;
}

XCVM_SHAPE_RULE_OF(TfIdfVectorizer)
{
    const size_t pool = pool_count(a);
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
    XCVM_CHECK(t->error, a->x->rank <= 2 && a->x->rank != 0, SHAPE_MISMATCH,
               "x has the wrong rank (%d; expected 1 or 2)", a->x->rank);
    if (a->x->rank == 2)
        xcvm_value_set_tensor(a->y, XCVM_F32, 2, (const int64_t[]){a->x->dims[0], width});
    else
        xcvm_value_set_tensor(a->y, XCVM_F32, a->x->rank, &width);
    return XCVM_OK;
}

/* ---- The pool ---- */

/* An edge from a node to one with one more token; child 0: none. */
typedef struct edge {
    uint32_t parent, token, child;
} edge;

/* The n-grams of the pool as a trie. Nodes are prefixes of n-grams; 0 is the empty one. A token is identified by its
 * first position in the pool. */
typedef struct tree {
    const xcvm_TfIdfVectorizer_args *args;
    xcvm_poller *poller;
    xcvm_value pool;      /* its tokens as a tensor */
    xcvm_key_table table; /* of these tokens */
    bool made;            /* the table exists */
    int64_t *places;      /* tokens of the pool, then of a row of x, by position; negative: not in the pool */
    uint32_t *first;      /* child of the root for each token */
    uint32_t *columns;    /* 1 + the column of y that counts a node; 0: not an n-gram */
    edge *edges;          /* other edges, a hash table */
    int shift;            /* shift that reduces a 64-bit hash to an edge number */
    uint32_t nodes;
} tree;

/* places[i] = the position of element first + i of x in the pool. */
static xcvm_status find_places(const tree *t, const xcvm_value *x, size_t first, size_t count)
{
    const size_t pool = (size_t)t->pool.dims[0];
    if (t->made)
        return xcvm_key_table_find(&t->table, t->poller, x, first, count, t->places);
    for (size_t i = 0; i < count; i++) {
        t->places[i] = -1;
        for (size_t at = 0; at < pool && t->places[i] < 0; at++) {
            XCVM_TRY(xcvm_poll_after(t->poller, xcvm_keys_steps(x, first + i)));
            if (xcvm_keys_compare(x, first + i, &t->pool, at) == 0)
                t->places[i] = (int64_t)at;
        }
    }
    return XCVM_OK;
}

/* Finds the edge from a node by a token, or a free one. *probes counts the other edges visited. */
static edge *edge_of(const tree *t, uint32_t parent, uint32_t token, size_t *probes)
{
    const size_t mask = (size_t)(UINT64_MAX >> t->shift);
    const uint64_t hash = ((uint64_t)parent << 32 | token) * UINT64_C(0x9e3779b97f4a7c15);
    for (size_t at = (size_t)(hash >> t->shift);; at = (at + 1) & mask, ++*probes) {
        edge *e = &t->edges[at];
        if ((e->child == 0) | ((e->parent == parent) & (e->token == token)))
            return e;
    }
}

/* Adds the n-gram `index`, whose tokens are places[0], places[1] ... The first of equal ones counts. */
static xcvm_status add_gram(tree *t, const int64_t *places, size_t length, size_t index)
{
    uint32_t node = 0;
    for (size_t i = 0; i < length; i++) {
        const uint32_t token = (uint32_t)places[i];
        size_t probes = 1;
        edge *e = i > 0 ? edge_of(t, node, token, &probes) : NULL;
        uint32_t *child = e != NULL ? &e->child : &t->first[token];
        if (*child == 0) {
            *child = ++t->nodes;
            if (e != NULL)
                *e = (edge){node, token, t->nodes};
        }
        node = *child;
        XCVM_TRY(xcvm_poll_after(t->poller, probes));
    }
    if (t->columns[node] == 0)
        t->columns[node] = 1 + (uint32_t)t->args->ngram_indexes.at[index];
    return XCVM_OK;
}

static xcvm_status add_grams(tree *t)
{
    const xcvm_TfIdfVectorizer_args *a = t->args;
    size_t index = 0;
    XCVM_TRY(find_places(t, &t->pool, 0, (size_t)t->pool.dims[0]));
    for (size_t n = 1; n <= a->ngram_counts.count; n++) {
        const size_t end = n < a->ngram_counts.count ? (size_t)a->ngram_counts.at[n] : (size_t)t->pool.dims[0];
        for (size_t at = (size_t)a->ngram_counts.at[n - 1]; at < end; at += n, index++)
            XCVM_TRY(add_gram(t, t->places + at, n, index));
    }
    return XCVM_OK;
}

/* ---- Memory ---- */

enum { TOKENS, SLOTS, PLACES, FIRST, COLUMNS, EDGES, PARTS };

/* Makes the pool a tensor in memory at `to`. */
static xcvm_status lay_out_pool(const xcvm_kernel *k, tree *t, size_t count, void *to)
{
    const xcvm_TfIdfVectorizer_args *a = t->args;
    xcvm_string *spans = to;
    uint64_t offset = count * sizeof *spans;
    t->pool.data = to;
    xcvm_value_set_tensor(&t->pool, a->pool_strings.count != 0 ? XCVM_STRING : XCVM_I64, 1,
                          (const int64_t[]){(int64_t)count});
    if (a->pool_strings.count == 0)
        return xcvm_kernel_copy(k, to, a->pool_int64s.at, count * sizeof *a->pool_int64s.at);
    for (size_t i = 0; i < count; i++) {
        const xcvm_text *text = &a->pool_strings.at[i];
        spans[i] = (xcvm_string){offset, text->length};
        XCVM_TRY(xcvm_poll_after(t->poller, 1 + text->length / XCVM_STEP_BYTES));
        memcpy((char *)to + offset, text->at, text->length);
        offset += text->length;
    }
    return XCVM_OK;
}

/* Computes the bytes of the parts of a tree with `count` tokens, for rows of x with `tokens` tokens. */
static bool measure(tree *t, size_t count, size_t tokens, size_t bytes[PARTS])
{
    enum { FEW = 4096 };
    const xcvm_texts *strings = &t->args->pool_strings;
    /* An n-gram of n tokens adds at most n - 1 edges. In small tables, most lookups of absent edges should hit a free
     * one immediately. */
    const size_t edges = count - gram_count(t->args), slots = edges <= FEW ? 8 * edges : 2 * edges;
    int bits = 4;
    while ((size_t)1 << bits < slots)
        bits++;
    t->shift = 64 - bits;
    bytes[TOKENS] = count * (strings->count != 0 ? sizeof(xcvm_string) : sizeof(int64_t));
    for (size_t i = 0; i < strings->count; i++)
        bytes[TOKENS] += strings->at[i].length;
    const bool fits = xcvm_size_mul(count > tokens ? count : tokens, sizeof *t->places, &bytes[PLACES]) &&
                      bytes[PLACES] <= SIZE_MAX / 2;
    bytes[FIRST] = count * sizeof *t->first;
    bytes[COLUMNS] = (count + 1) * sizeof *t->columns;
    bytes[EDGES] = sizeof *t->edges << bits;
    return fits;
}

static xcvm_status make_tree(xcvm_kernel *k, tree *t, size_t tokens)
{
    const size_t count = pool_count(t->args);
    size_t bytes[PARTS], all = 0;
    void *parts[PARTS];
    XCVM_CHECK(k->error, count < UINT32_MAX && xcvm_key_table_bytes(count, &bytes[SLOTS]), OUT_OF_RANGE,
               "a pool of %zu is too large", count);
    XCVM_CHECK(k->error, measure(t, count, tokens, bytes), OUT_OF_RANGE, "%zu tokens are too many", tokens);
    for (int i = 0; i < PARTS; i++)
        all += xcvm_round_up(bytes[i], XCVM_ALIGNMENT);
    char *at = xcvm_kernel_scratch(k, all);
    if (at == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (int i = 0; i < PARTS; i++) {
        parts[i] = at;
        at += xcvm_round_up(bytes[i], XCVM_ALIGNMENT);
        if (i >= FIRST)
            XCVM_TRY(xcvm_kernel_fill(k, parts[i], 0, bytes[i]));
    }
    t->places = parts[PLACES];
    t->first = parts[FIRST];
    t->columns = parts[COLUMNS];
    t->edges = parts[EDGES];
    XCVM_TRY(lay_out_pool(k, t, count, parts[TOKENS]));
    XCVM_TRY(xcvm_key_table_make(k, &t->pool, parts[SLOTS], &t->table, &t->made));
    return add_grams(t);
}

/* ---- Rows ---- */

/* Polls after a number of steps. */
static inline xcvm_status poll_some(const tree *t, size_t *steps)
{
    enum { SOME = 1024 };
    if (*steps < SOME)
        return XCVM_OK;
    XCVM_TRY(xcvm_poll_after(t->poller, *steps));
    *steps = 0;
    return XCVM_OK;
}

/* Adds to y the number of occurrences of each n-gram among the tokens at t->places, with `skip` tokens omitted between
 * two. */
static xcvm_status count_grams(const tree *t, size_t tokens, size_t skip, float *y)
{
    const size_t stride = skip + 1, longest = (size_t)t->args->max_gram_length;
    /* Skipping does not affect single tokens, so they are counted once. */
    const size_t least = t->args->min_gram_length == 1 && skip > 0 ? 2 : (size_t)t->args->min_gram_length;
    const int64_t *places = t->places;
    const uint32_t *columns = t->columns;
    size_t steps = 0;
    for (size_t begin = 0; begin + (least - 1) * stride < tokens; begin++, steps++) {
        uint32_t node = places[begin] >= 0 ? t->first[places[begin]] : 0;
        XCVM_TRY(poll_some(t, &steps));
        for (size_t n = 1, at = begin; node != 0; n++, steps++) {
            if (n >= least && columns[node] != 0)
                y[columns[node] - 1] += 1;
            at += stride;
            if (n == longest || at >= tokens || places[at] < 0)
                break;
            node = edge_of(t, node, (uint32_t)places[at], &steps)->child;
            XCVM_TRY(poll_some(t, &steps));
        }
    }
    return xcvm_poll_after(t->poller, steps);
}

static xcvm_status weigh(const tree *t, float *y)
{
    const xcvm_TfIdfVectorizer_args *a = t->args;
    for (size_t i = 0; a->mode != XCVM_WEIGHTING_TF && i < gram_count(a); i++) {
        float *cell = &y[a->ngram_indexes.at[i]];
        XCVM_TRY(xcvm_poll_after(t->poller, 1));
        const float weight = a->weights.count != 0 ? (float)a->weights.at[i] : 1;
        if (*cell > 0)
            *cell = a->mode == XCVM_WEIGHTING_IDF ? weight : *cell * weight;
    }
    return XCVM_OK;
}

XCVM_KERNEL(TfIdfVectorizer)
{
    const size_t rows = a->x->rank == 2 ? (size_t)a->x->dims[0] : 1;
    const size_t tokens = (size_t)a->x->dims[a->x->rank - 1], width = (size_t)a->y->dims[a->y->rank - 1];
    xcvm_poller poller = xcvm_poller_of(k);
    tree t = {.args = a, .poller = &poller};
    float *y = a->y->data;
    XCVM_TRY(xcvm_kernel_fill(k, y, 0, a->y->bytes));
    if (xcvm_element_count(a->x) == 0)
        return XCVM_OK;
    XCVM_TRY(make_tree(k, &t, tokens));
    for (size_t row = 0; row < rows; row++, y += width) {
        XCVM_TRY(find_places(&t, a->x, row * tokens, tokens));
        for (size_t skip = 0; skip <= (size_t)a->max_skip_count && skip < tokens; skip++) {
            XCVM_TRY(xcvm_poll_after(&poller, 1));
            XCVM_TRY(count_grams(&t, tokens, skip, y));
        }
        XCVM_TRY(weigh(&t, y));
    }
    return xcvm_kernel_poll(k);
}
