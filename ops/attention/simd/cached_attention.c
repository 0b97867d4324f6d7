/* CachedAttention: reads keys and values in place, the past ones in the cache and the new ones in their operands, so
 * that a generation step copies none of them. With many queries it uses Attention. */
#include "ops/attention/attention_operands.h"
#include "ops/attention/simd/weights.h"
#include "ops/util/grain.h"
#include "ops/matmul/simd/dot.h"
#include "ops/simd/halves.h"

#include <math.h>

enum {
    /* With more queries, packing the keys pays off. */
    FEW_QUERIES = 4,
    /* Minimum multiply-adds per thread. */
    THREAD_WORK = 200 * 1000,
    /* Queries of a unit that share one pass over keys and values, the queries whose value sums are in registers
     * together, and the vectors of each. */
    QUERIES = XCVM_LANES == 16 ? 8 : 4,
    SUM_QUERIES = XCVM_LANES == 16 ? 4 : 2,
    SUMS = 4,
    /* Cache rows that are multiplied, or converted to f32, at a time. They stay in the first-level cache for all
     * queries. */
    CHUNK = 32
};
_Static_assert(CHUNK % XCVM_LANES == 0, "chunks are whole vectors of keys");

typedef struct cached {
    const xcvm_kernel *k;
    const xcvm_CachedAttention_args *a;
    size_t batch, kv_heads, group, queries, width, v_width, bound;
    const int64_t *before;
    xcvm_attention_rows mask_rows; /* if there is a mask */
    float scale;
    char *scratch;
    size_t per_worker, score_row; /* score_row: scores of a query, plus one vector */
    size_t chunk;                 /* floats of CHUNK rows of a half-precision cache; 0: none */
} cached;

/* Keys or values of one head: `count` contiguous rows of `width` numbers in f32, f16 or bf16. */
typedef struct rows {
    const void *at;
    xcvm_dtype dtype;
    size_t width, count;
} rows;

/* Number of keys before its own position that a query sees. */
static size_t window_of(const xcvm_CachedAttention_args *a)
{
    return a->left_window_size >= 0 ? (size_t)a->left_window_size : SIZE_MAX;
}

static rows rows_of(const xcvm_value *v, size_t unit, size_t bound, size_t width, size_t count)
{
    const xcvm_dtype dtype = (xcvm_dtype)v->dtype;
    const char *at = v->data;
    return (rows){at + unit * bound * width * xcvm_dtype_size(dtype), dtype, width, count};
}

/* Returns up to CHUNK rows from row `first` as f32, in place or converted into `room`. Prefetches the next ones. */
static const float *load_rows(const rows *r, size_t first, size_t *count, float *room)
{
    *count = xcvm_min(r->count - first, CHUNK);
    const size_t row = r->width * xcvm_dtype_size(r->dtype), end = xcvm_min(r->count, first + 2 * CHUNK) * row;
    for (size_t at = (first + *count) * row; at < end; at += XCVM_ALIGNMENT)
        __builtin_prefetch((const char *)r->at + at);
    if (r->dtype == XCVM_F32)
        return (const float *)r->at + first * r->width;
    xcvm_halves_load(r->dtype, r->at, first * r->width, *count * r->width, room);
    return room;
}

/* Adds from[j] * weight[j] of each query, for `count` rows, to columns [p, p + vectors * XCVM_LANES) of the sums. */
XCVM_INLINE void add_values(const float *from, size_t count, size_t v_width, const float *weight, size_t weight_row,
                            float *sums, size_t p, const size_t queries, const size_t vectors)
{
    xcvm_lanes sum[SUM_QUERIES][SUMS];
#pragma GCC unroll 4
    for (size_t r = 0; r < queries; r++)
#pragma GCC unroll 4
        for (size_t v = 0; v < vectors; v++)
            sum[r][v] = xcvm_lanes_load(sums + r * v_width + p + v * XCVM_LANES);
    from += p;
    for (size_t j = 0; j < count; j++, from += v_width) {
        xcvm_lanes value[SUMS];
#pragma GCC unroll 4
        for (size_t v = 0; v < vectors; v++)
            value[v] = xcvm_lanes_load(from + v * XCVM_LANES);
#pragma GCC unroll 4
        for (size_t r = 0; r < queries; r++) {
            const xcvm_lanes by = xcvm_lanes_all(weight[r * weight_row + j]);
#pragma GCC unroll 4
            for (size_t v = 0; v < vectors; v++)
                sum[r][v] = xcvm_lanes_add_product(sum[r][v], by, value[v]);
        }
    }
#pragma GCC unroll 4
    for (size_t r = 0; r < queries; r++)
#pragma GCC unroll 4
        for (size_t v = 0; v < vectors; v++)
            xcvm_lanes_store(sums + r * v_width + p + v * XCVM_LANES, sum[r][v]);
}

/* All columns of the sums of one query or of SUM_QUERIES queries. */
XCVM_INLINE void add_rows(const float *from, size_t count, size_t v_width, const float *weight, size_t weight_row,
                          float *sums, const size_t queries)
{
    size_t p = 0;
    for (; p + SUMS * XCVM_LANES <= v_width; p += SUMS * XCVM_LANES)
        add_values(from, count, v_width, weight, weight_row, sums, p, queries, SUMS);
    for (; p + XCVM_LANES <= v_width; p += XCVM_LANES)
        add_values(from, count, v_width, weight, weight_row, sums, p, queries, 1);
    for (size_t r = 0; r < queries && p < v_width; r++)
        for (size_t j = 0; j < count; j++)
            for (size_t rest = p; rest < v_width; rest++)
                sums[r * v_width + rest] += weight[r * weight_row + j] * from[j * v_width + rest];
}

/* Adds rows [first, values->count), weighted, to the sums of `queries` queries. */
static void weighted_sum(const rows *values, size_t first, const float *weight, size_t weight_row, size_t queries,
                         float *sums, float *room)
{
    const size_t v_width = values->width;
    for (size_t count; first < values->count; first += count) {
        const float *from = load_rows(values, first, &count, room);
        size_t r = 0;
        for (; r + SUM_QUERIES <= queries; r += SUM_QUERIES)
            add_rows(from, count, v_width, weight + r * weight_row + first, weight_row, sums + r * v_width,
                     SUM_QUERIES);
        for (; r < queries; r++)
            add_rows(from, count, v_width, weight + r * weight_row + first, weight_row, sums + r * v_width, 1);
    }
}

/* Products of XCVM_LANES keys with one query: one vector of partial sums per key, all reduced together. */
static void score_keys(const float *keys, const float *q, size_t width, float *products)
{
    xcvm_lanes sum[XCVM_LANES];
#pragma GCC unroll 16
    for (size_t j = 0; j < XCVM_LANES; j++)
        sum[j] = (xcvm_lanes){0};
    size_t p = 0;
    for (; p + XCVM_LANES <= width; p += XCVM_LANES) {
        const xcvm_lanes x = xcvm_lanes_load(q + p);
#pragma GCC unroll 16
        for (size_t j = 0; j < XCVM_LANES; j++)
            sum[j] = xcvm_lanes_add_product(sum[j], xcvm_lanes_load(keys + j * width + p), x);
    }
    xcvm_lanes_store(products, xcvm_lanes_sums(sum));
    for (size_t j = 0; p < width && j < XCVM_LANES; j++) {
        float rest = 0.0f;
        for (size_t i = p; i < width; i++)
            rest += keys[j * width + i] * q[i];
        products[j] += rest;
    }
}

/* Products of rows [first, keys->count) with each of `queries` queries. May write up to one vector past them. */
static void score(const rows *keys, size_t first, const float *q, size_t queries, float *products, size_t product_row,
                  float *room)
{
    const size_t width = keys->width;
    for (size_t count; first < keys->count; first += count) {
        const float *from = load_rows(keys, first, &count, room);
        size_t j = 0;
        for (; j + XCVM_LANES <= count; j += XCVM_LANES)
            for (size_t r = 0; r < queries; r++)
                score_keys(from + j * width, q + r * width, width, products + r * product_row + first + j);
        for (size_t some; j < count; j += some) {
            some = xcvm_min(count - j, XCVM_DOT_COLUMNS);
            xcvm_dot(q, width, from + j * width, width, width, products + first + j, product_row, queries, some);
        }
    }
}

/* Turns the scores of row `row` of a unit, from key `first`, into weights. Returns 1 / their sum, or 0 if no key is
 * visible. */
static float weigh(const cached *c, size_t unit, size_t row, size_t first, float *weight)
{
    const xcvm_CachedAttention_args *a = c->a;
    const size_t b = unit / c->kv_heads, i = row % c->queries, back = window_of(a), place = (size_t)c->before[b] + i;
    const size_t last = a->is_causal ? place : (size_t)c->before[b] + c->queries - 1;
    const size_t begin = place > back ? place - back : 0, columns = xcvm_round_up(last + 1, XCVM_LANES);
    for (size_t j = begin; j <= last; j++)
        weight[j] *= c->scale;
    for (size_t j = first; j < begin; j++)
        weight[j] = -INFINITY;
    if (a->softcap > 0.0)
        xcvm_attention_cap(weight + begin, last + 1 - begin, (float)a->softcap);
    if (a->mask != NULL) {
        const size_t head = unit % c->kv_heads * c->group + row / c->queries;
        const size_t at = xcvm_attention_row(&c->mask_rows, b, head, i);
        const size_t keys = (size_t)a->mask->dims[a->mask->rank - 1];
        xcvm_attention_mask((xcvm_dtype)a->mask->dtype, a->mask->data, at, keys, begin, last + 1 - begin,
                            weight + begin);
    }
    for (size_t j = last + 1; j < columns; j++)
        weight[j] = -INFINITY;
    const float greatest = xcvm_attention_greatest(weight + first, columns - first);
    const float sum = xcvm_attention_weigh(weight + first, columns - first, greatest == -INFINITY ? 0.0f : greatest);
    return sum == 0.0f ? 0.0f : 1.0f / sum;
}

/* Computes `count` queries from row `first` of the unit. They see the same keys except for mask, window and position.
 */
static void attend(const cached *c, size_t unit, size_t first, size_t count, float *room)
{
    const xcvm_CachedAttention_args *a = c->a;
    const size_t b = unit / c->kv_heads, before = (size_t)c->before[b];
    const size_t heads = c->kv_heads * c->group, row = (b * heads + unit % c->kv_heads * c->group) * c->queries + first;
    const float *q = XCVM_CDATA(float, a->q) + row * c->width;
    const rows keys[] = {rows_of(a->past_key, unit, c->bound, c->width, before),
                         rows_of(a->k, unit, c->queries, c->width, c->queries)};
    const rows values[] = {rows_of(a->past_value, unit, c->bound, c->v_width, before),
                           rows_of(a->v, unit, c->queries, c->v_width, c->queries)};
    float *scores = room, *chunk = scores + QUERIES * c->score_row, inverse[QUERIES];
    float *y = XCVM_DATA(float, a->y) + row * c->v_width;
    /* No query sees further back than the window of a query at the first position. */
    const size_t back = window_of(a);
    const size_t none = before > back ? (before - back) / (2 * XCVM_LANES) * (2 * XCVM_LANES) : 0;
    score(&keys[0], none, q, count, scores, c->score_row, chunk);
    score(&keys[1], 0, q, count, scores + before, c->score_row, chunk);
    for (size_t r = 0; r < count; r++)
        inverse[r] = weigh(c, unit, first + r, none, scores + r * c->score_row);
    memset(y, 0, count * c->v_width * sizeof *y);
    weighted_sum(&values[0], none, scores, c->score_row, count, y, chunk);
    for (size_t r = 0; r < count; r++) {
        rows seen = values[1];
        if (a->is_causal)
            seen.count = (first + r) % c->queries + 1;
        weighted_sum(&seen, 0, scores + r * c->score_row + before, c->score_row, 1, y + r * c->v_width, chunk);
        /* If no key is visible, non-finite values must not affect the result. */
        for (size_t p = 0; p < c->v_width; p++)
            y[r * c->v_width + p] = inverse[r] == 0.0f ? 0.0f : y[r * c->v_width + p] * inverse[r];
    }
}

static void run_units(void *context, size_t begin, size_t end, int worker)
{
    const cached *c = context;
    float *room = (float *)(void *)(c->scratch + (size_t)worker * c->per_worker);
    const size_t all = c->group * c->queries;
    xcvm_poller poller = xcvm_poller_of(c->k);
    for (size_t unit = begin; unit < end; unit++)
        for (size_t r = 0; r < all; r += QUERIES) {
            const size_t count = xcvm_min(all - r, QUERIES);
            if (xcvm_poll_after(&poller, c->score_row * (c->width + c->v_width) * count / 8) != XCVM_OK)
                return;
            attend(c, unit, r, count, room);
        }
}

static xcvm_status few_queries(xcvm_kernel *k, cached *c, size_t most_keys)
{
    const size_t threads = (size_t)xcvm_threads_count(k->threads);
    size_t bytes;
    c->score_row = xcvm_round_up(most_keys, XCVM_LANES) + XCVM_LANES;
    const bool halved = c->a->past_key->dtype != XCVM_F32 || c->a->past_value->dtype != XCVM_F32;
    c->chunk = halved ? CHUNK * (c->width > c->v_width ? c->width : c->v_width) : 0;
    XCVM_CHECK(k->error,
               xcvm_size_mul(c->score_row, QUERIES * sizeof(float), &c->per_worker) &&
                   xcvm_size_add(c->per_worker, c->chunk * sizeof(float), &c->per_worker) &&
                   c->per_worker < SIZE_MAX - XCVM_ALIGNMENT,
               OUT_OF_RANGE, "%zu keys are too many", most_keys);
    c->per_worker = xcvm_round_up(c->per_worker, XCVM_ALIGNMENT);
    XCVM_CHECK(k->error, xcvm_size_mul(c->per_worker, threads, &bytes), OUT_OF_RANGE, "%zu keys are too many",
               most_keys);
    c->scratch = xcvm_kernel_scratch(k, bytes);
    if (c->scratch == NULL)
        return XCVM_OUT_OF_MEMORY;
    const double cost =
        (double)c->group * (double)c->queries * (double)most_keys * (double)(c->width + c->v_width) + 1.0;
    return xcvm_kernel_parallel(k, c->batch * c->kv_heads, xcvm_grain(THREAD_WORK, cost), run_units, c);
}

/* ---- Many queries ---- */

xcvm_status XCVM_PER_ISA(xcvm_Attention)(xcvm_kernel *k, const void *args);

/* Concatenates the cache's rows and the new ones, [batch, heads, keys, width], in heap memory. */
static xcvm_status join(const cached *c, const xcvm_value *past, const xcvm_value *fresh, size_t keys, size_t width,
                        xcvm_value *joined, xcvm_storage **storage)
{
    const int64_t dims[] = {(int64_t)c->batch, (int64_t)c->kv_heads, (int64_t)keys, (int64_t)width};
    size_t count, bytes;
    XCVM_CHECK(c->k->error, xcvm_tensor_size(XCVM_F32, 4, dims, &count, &bytes), OUT_OF_RANGE, "%zu keys are too many",
               keys);
    XCVM_TRY(xcvm_heap_allocate(c->k->heap, bytes, storage, c->k->error));
    xcvm_value_set_tensor(joined, XCVM_F32, 4, dims);
    joined->memory_kind = XCVM_MEMORY_BORROWED;
    joined->data = (*storage)->data;
    for (size_t i = 0; i < c->batch * c->kv_heads; i++) {
        float *to = XCVM_DATA(float, joined) + i * keys * width;
        const size_t before = (size_t)c->before[i / c->kv_heads];
        const rows cache = rows_of(past, i, c->bound, width, before);
        for (size_t first = 0; first < before; first += CHUNK) {
            const size_t some = xcvm_min(before - first, CHUNK);
            XCVM_TRY(xcvm_kernel_poll(c->k));
            xcvm_halves_load(cache.dtype, cache.at, first * width, some * width, to + first * width);
        }
        XCVM_TRY(xcvm_kernel_copy(c->k, to + before * width, XCVM_CDATA(float, fresh) + i * c->queries * width,
                                  c->queries * width * sizeof *to));
        XCVM_TRY(xcvm_kernel_fill(c->k, to + (before + c->queries) * width, 0,
                                  (keys - before - c->queries) * width * sizeof *to));
    }
    return XCVM_OK;
}

static xcvm_status many_queries(xcvm_kernel *k, const cached *c, size_t keys)
{
    const xcvm_CachedAttention_args *a = c->a;
    xcvm_Attention_args args = {.y = a->y,
                                .q = a->q,
                                .k = a->k,
                                .v = a->v,
                                .mask = a->mask,
                                .is_causal = a->is_causal,
                                .left_window_size = a->left_window_size,
                                .right_window_size = -1,
                                .scale = a->scale,
                                .softcap = a->softcap};
    if (keys == c->queries)
        return XCVM_PER_ISA(xcvm_Attention)(k, &args);
    xcvm_storage *storage[3] = {NULL};
    xcvm_value joined[2] = {{0}}, totals = *a->before;
    xcvm_status status = join(c, a->past_key, a->k, keys, c->width, &joined[0], &storage[0]);
    if (status == XCVM_OK)
        status = join(c, a->past_value, a->v, keys, c->v_width, &joined[1], &storage[1]);
    if (status == XCVM_OK)
        status = xcvm_heap_allocate(k->heap, c->batch * sizeof(int64_t), &storage[2], k->error);
    if (status == XCVM_OK) {
        totals.data = storage[2]->data;
        for (size_t b = 0; b < c->batch; b++)
            XCVM_DATA(int64_t, &totals)[b] = c->before[b] + (int64_t)c->queries;
        args.k = &joined[0];
        args.v = &joined[1];
        args.nonpad_kv_seqlen = &totals;
        status = XCVM_PER_ISA(xcvm_Attention)(k, &args);
    }
    for (size_t i = 0; i < 3; i++)
        xcvm_storage_release(storage[i]);
    return status;
}

XCVM_KERNEL(CachedAttention)
{
    const int64_t *q = a->q->dims;
    cached c = {.k = k,
                .a = a,
                .batch = (size_t)q[0],
                .kv_heads = (size_t)a->k->dims[1],
                .queries = (size_t)q[2],
                .width = (size_t)q[3],
                .v_width = (size_t)a->v->dims[3],
                .bound = (size_t)a->past_key->dims[2],
                .before = a->before->data};
    XCVM_CHECK(k->error, a->past_value->dims[2] == a->past_key->dims[2], SHAPE_MISMATCH,
               "past_key has %lld rows, past_value %lld", (long long)a->past_key->dims[2],
               (long long)a->past_value->dims[2]);
    size_t most = 0;
    for (size_t b = 0; b < c.batch; b++) {
        XCVM_CHECK(k->error, c.before[b] >= 0 && (uint64_t)c.before[b] <= c.bound, OUT_OF_RANGE,
                   "before[%zu] is %lld, but past_key has %zu rows", b, (long long)c.before[b], c.bound);
        most = most > (size_t)c.before[b] ? most : (size_t)c.before[b];
    }
    const size_t keys = most + c.queries;
    if (a->mask != NULL) {
        /* The mask may extend to the last row of the cache, beyond the present keys, as with a cache of static size. */
        const int64_t last = a->mask->dims[a->mask->rank - 1];
        XCVM_CHECK(k->error, (uint64_t)last <= keys || (uint64_t)last <= c.bound, SHAPE_MISMATCH,
                   "mask is for %lld keys, but there are %zu, and the cache has %zu rows", (long long)last, keys,
                   c.bound);
        c.mask_rows = xcvm_attention_mask_rows(a->mask);
    }
    if (xcvm_element_count(a->y) == 0)
        return XCVM_OK;
    c.group = (size_t)q[1] / c.kv_heads;
    c.scale = a->scale != 0.0 ? (float)a->scale : (float)(1.0 / sqrt((double)c.width));
    return c.queries <= FEW_QUERIES ? few_queries(k, &c, keys) : many_queries(k, &c, keys);
}
