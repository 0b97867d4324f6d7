/* Attention in f32: blocks of queries against blocks of keys, with a running maximum and sum per query (M. Milakov, N.
 * Gimelshein, "Online normalizer calculation for softmax", 2018; T. Dao et al., "FlashAttention", 2022, algorithm 1).
 * So only one block of scores is in memory. Both products use gemm.h. Keys and values are packed once for all queries
 * of a thread. */
#include "ops/attention/attention_operands.h"
#include "ops/attention/simd/weights.h"
#include "ops/util/grain.h"
#include "ops/matmul/simd/dot.h"
#include "ops/simd/reductions.h"
#include "ops/matmul/simd/gemm.h"
#include "ops/simd/halves.h"
#include "ops/simd/math.h"

enum {
    /* Queries and keys of a block: scores and the panels of keys and values fit in the second-level cache together. */
    BLOCK_QUERIES = 64,
    BLOCK_KEYS = 384,
    /* Up to this many queries, keys and values are read in place. */
    FEW_QUERIES = XCVM_DOT_COLUMNS,
    /* Minimum multiply-adds per thread. */
    THREAD_WORK = 400 * 1000
};
_Static_assert(BLOCK_KEYS % XCVM_GEMM_PANEL == 0, "blocks of keys are whole panels");

typedef struct attention_loop {
    const xcvm_kernel *k;
    const xcvm_attention *d;
    const float *q, *keys, *values;
    float *y, *qk;
    size_t query_blocks, block_queries, key_blocks;
    bool few;
    char *scratch;
    size_t per_worker;
    uint32_t status; /* atomic; the first failure */
} attention_loop;

/* Memory of one thread. */
typedef struct memory {
    float *scores;     /* [block_queries, BLOCK_KEYS] */
    float *sums;       /* weighted values so far, [block_queries, v_width rounded up to vectors] */
    float *greatest;   /* maximum of each query's scores so far */
    float *total;      /* sum of each query's weights so far */
    float *spare;      /* BLOCK_KEYS floats of the mask; with few queries, scores as inner products */
    float *key_panels; /* one block after another */
    float *value_panels;
    bool *packed; /* for each block of keys */
    size_t kv;    /* packed keys: batch entry * kv_heads + head; SIZE_MAX: none */
} memory;

static size_t padded_width(const xcvm_attention *d) { return xcvm_round_up(d->v_width, XCVM_LANES); }

static size_t padded_keys(const attention_loop *w)
{
    return w->key_blocks == 1 ? xcvm_round_up(w->d->keys, XCVM_LANES) : BLOCK_KEYS;
}

/* Assigns the parts of a worker's memory from `base` (NULL: only computes the size). */
static bool lay_out(const attention_loop *w, char *base, memory *r, size_t *bytes)
{
    const xcvm_attention *d = w->d;
    const size_t rows = w->block_queries, keys = padded_keys(w);
    const size_t all_keys = w->few ? 0 : (w->key_blocks - 1) * BLOCK_KEYS + xcvm_round_up(BLOCK_KEYS, XCVM_LANES);
    const struct {
        float **at;
        size_t rows, columns;
    } parts[] = {{&r->scores, rows, keys},
                 {&r->sums, rows, padded_width(d)},
                 {&r->greatest, rows, 1},
                 {&r->total, rows, 1},
                 {&r->spare, w->few ? rows : 1, keys},
                 {&r->key_panels, all_keys, d->width},
                 {&r->value_panels, all_keys, padded_width(d)}};
    *bytes = 0;
    bool fits = true;
    for (size_t i = 0; i < sizeof parts / sizeof *parts && fits; i++) {
        size_t size;
        if (base != NULL)
            *parts[i].at = (float *)(void *)(base + *bytes);
        fits = xcvm_size_mul(parts[i].rows, parts[i].columns, &size) && size < SIZE_MAX / 8 &&
               xcvm_size_add(*bytes, xcvm_round_up(size * sizeof(float), XCVM_ALIGNMENT), bytes);
    }
    if (base != NULL)
        r->packed = (bool *)(base + *bytes);
    return fits && xcvm_size_add(*bytes, xcvm_round_up(w->key_blocks, XCVM_ALIGNMENT), bytes);
}

/* ---- Scores ---- */

static void add_mask(const xcvm_attention *d, size_t row, size_t begin, size_t count, float *score, float *spare)
{
    if (d->mask_dtype == XCVM_BOOL || d->mask_dtype == XCVM_F32) {
        xcvm_attention_mask(d->mask_dtype, d->mask, row, d->mask_keys, begin, count, score);
        return;
    }
    const size_t there = d->mask_keys > begin ? xcvm_min(d->mask_keys - begin, count) : 0;
    xcvm_halves_load(d->mask_dtype, d->mask, row + begin, there, spare);
    xcvm_attention_mask(XCVM_F32, spare, 0, there, 0, count, score);
}

/* The queries and keys of one block. */
typedef struct block {
    size_t b, h, i0, i1; /* queries [i0, i1) of head h of batch entry b */
    size_t j0, j1;       /* keys */
    size_t columns;      /* scores: j1 - j0, rounded up to vectors */
    bool first;          /* the first block of keys that these queries see */
} block;

static float *qk_row(const attention_loop *w, const block *at, size_t i)
{
    const xcvm_attention *d = w->d;
    return w->qk + ((at->b * d->heads + at->h) * d->queries + i) * d->keys + at->j0;
}

/* Turns the scores of one query into weights, relative to the maximum so far. */
static void weigh_row(const attention_loop *w, const block *at, size_t r, memory *room)
{
    const xcvm_attention *d = w->d;
    const size_t i = at->i0 + r, count = at->j1 - at->j0;
    float *score = room->scores + r * at->columns;
    size_t begin, end;
    xcvm_attention_range(d, at->b, i, &begin, &end);
    if (w->qk != NULL && d->qk_mode == 0)
        memcpy(qk_row(w, at, i), score, count * sizeof *score);
    if (d->softcap > 0.0)
        xcvm_attention_cap(score, at->columns, (float)d->softcap);
    if (w->qk != NULL && d->qk_mode == 1)
        memcpy(qk_row(w, at, i), score, count * sizeof *score);
    if (d->mask != NULL)
        add_mask(d, xcvm_attention_row(&d->mask_rows, at->b, at->h, i), at->j0, count, score, room->spare);
    for (size_t j = at->j0; j < xcvm_min(begin, at->j1); j++)
        score[j - at->j0] = -INFINITY;
    for (size_t j = end > at->j0 ? end - at->j0 : 0; j < at->columns; j++)
        score[j] = -INFINITY;
    if (w->qk != NULL && d->qk_mode >= 2)
        memcpy(qk_row(w, at, i), score, count * sizeof *score);

    const float before = at->first ? -INFINITY : room->greatest[r], now = xcvm_attention_greatest(score, at->columns);
    const float greatest = now > before ? now : before;
    /* There is no maximum yet if all keys are masked or a score is NaN. */
    const float total = xcvm_attention_weigh(score, at->columns, greatest == -INFINITY ? 0.0f : greatest);
    room->greatest[r] = greatest;
    if (at->first) {
        room->total[r] = total;
        return;
    }
    if (greatest == before) {
        room->total[r] += total;
        return;
    }
    const float factor = xcvm_exp_negative_f32(before - greatest);
    const xcvm_lanes factors = xcvm_lanes_all(factor);
    float *sums = room->sums + r * padded_width(d);
    for (size_t p = 0; p < padded_width(d); p += XCVM_LANES)
        xcvm_lanes_store(sums + p, xcvm_lanes_load(sums + p) * factors);
    room->total[r] = room->total[r] * factor + total;
}

/* ---- Products ---- */

static void pack(const attention_loop *w, size_t b, size_t h, size_t key_block, const memory *room)
{
    const xcvm_attention *d = w->d;
    const size_t j0 = key_block * BLOCK_KEYS, count = xcvm_min(d->keys - j0, BLOCK_KEYS);
    const xcvm_gemm keys = {.b = w->keys + xcvm_attention_row(&d->k, b, h, j0), .b_row = 1, .b_column = d->k.row};
    const xcvm_gemm values = {.b = w->values + xcvm_attention_row(&d->v, b, h, j0), .b_row = d->v.row, .b_column = 1};
    xcvm_gemm_pack(&keys, 0, d->width, 0, count, room->key_panels + j0 * d->width);
    xcvm_gemm_pack(&values, 0, count, 0, d->v_width, room->value_panels + j0 * padded_width(d));
    room->packed[key_block] = true;
}

/* Computes the scores of a block and adds the weighted values to the sums, from packed keys and values. */
static xcvm_status run_block(const attention_loop *w, const block *at, memory *room)
{
    const xcvm_attention *d = w->d;
    const size_t rows = at->i1 - at->i0, count = at->j1 - at->j0, kv = at->h / d->group;
    const size_t key_block = at->j0 / BLOCK_KEYS;
    if (room->kv != at->b * d->kv_heads + kv) {
        memset(room->packed, 0, w->key_blocks);
        room->kv = at->b * d->kv_heads + kv;
    }
    if (!room->packed[key_block])
        pack(w, at->b, kv, key_block, room);
    const xcvm_gemm scores = {.m = rows,
                              .n = at->columns,
                              .k = d->width,
                              .a = w->q + xcvm_attention_row(&d->q, at->b, at->h, at->i0),
                              .a_row = d->q.row,
                              .a_column = 1,
                              .b = room->key_panels + at->j0 * d->width,
                              .b_packed = true,
                              .c = room->scores,
                              .c_row = at->columns,
                              .c_column = 1,
                              .alpha = (float)d->scale};
    XCVM_TRY(xcvm_gemm_part(w->k, &scores, 0, rows, 0, at->columns, NULL));
    for (size_t r = 0; r < rows; r++)
        weigh_row(w, at, r, room);
    const xcvm_gemm sums = {.m = rows,
                            .n = padded_width(d),
                            .k = count,
                            .a = room->scores,
                            .a_row = at->columns,
                            .a_column = 1,
                            .b = room->value_panels + at->j0 * padded_width(d),
                            .b_packed = true,
                            .c = room->sums,
                            .c_row = padded_width(d),
                            .c_column = 1,
                            .alpha = 1.0f,
                            .start = at->first ? NULL : room->sums};
    return xcvm_gemm_part(w->k, &sums, 0, rows, 0, padded_width(d), NULL);
}

/* The same for few queries, without packing. */
static xcvm_status run_few(const attention_loop *w, const block *at, memory *room)
{
    const xcvm_attention *d = w->d;
    const size_t rows = at->i1 - at->i0, count = at->j1 - at->j0, kv = at->h / d->group, width = padded_width(d);
    const float *q = w->q + xcvm_attention_row(&d->q, at->b, at->h, at->i0);
    const float *keys = w->keys + xcvm_attention_row(&d->k, at->b, kv, at->j0), scale = (float)d->scale;
    const float *values = w->values + xcvm_attention_row(&d->v, at->b, kv, at->j0);
    float *products = rows == 1 ? room->scores : room->spare;
    xcvm_dot(keys, d->k.row, q, d->q.row, d->width, products, rows, count, rows);
    for (size_t r = 0; r < rows; r++) {
        float *score = room->scores + r * at->columns;
        for (size_t j = 0; j < count; j++)
            score[j] = products[j * rows + r] * scale;
    }
    for (size_t r = 0; r < rows; r++) {
        weigh_row(w, at, r, room);
        if (at->first)
            memset(room->sums + r * width, 0, width * sizeof(float));
    }
    /* The sums of XCVM_GEMM_PANEL elements at a time stay in registers. */
    for (size_t r = 0; r < rows; r++) {
        const float *weight = room->scores + r * at->columns;
        float *sums = room->sums + r * width;
        size_t p = 0;
        for (; p + 4 * XCVM_LANES <= d->v_width; p += 4 * XCVM_LANES) {
            xcvm_lanes sum[4];
            for (size_t v = 0; v < 4; v++)
                sum[v] = xcvm_lanes_load(sums + p + v * XCVM_LANES);
            const float *from = values + p;
            for (size_t j = 0; j < count; j++, from += d->v.row) {
                const xcvm_lanes by = xcvm_lanes_all(weight[j]);
                for (size_t v = 0; v < 4; v++)
                    sum[v] = xcvm_lanes_add_product(sum[v], by, xcvm_lanes_load(from + v * XCVM_LANES));
            }
            for (size_t v = 0; v < 4; v++)
                xcvm_lanes_store(sums + p + v * XCVM_LANES, sum[v]);
        }
        for (size_t j = 0; j < count && p < d->v_width; j++)
            for (size_t rest = p; rest < d->v_width; rest++)
                sums[rest] += weight[j] * values[j * d->v.row + rest];
    }
    return xcvm_kernel_poll(w->k);
}

/* ---- Queries ---- */

/* Turns stored scores into weights. */
static void finish_weights(const attention_loop *w, block at, const memory *room)
{
    at.j0 = 0;
    for (size_t r = 0; r < at.i1 - at.i0; r++) {
        float *score = qk_row(w, &at, at.i0 + r);
        if (xcvm_kernel_poll(w->k) != XCVM_OK)
            return;
        const float greatest = room->greatest[r], inverse = 1.0f / room->total[r];
        for (size_t j = 0; j < w->d->keys; j++)
            score[j] = room->total[r] == 0.0f ? NAN : xcvm_exp_negative_f32(score[j] - greatest) * inverse;
    }
}

/* Computes queries [i0, i1) of one head. */
static xcvm_status run_queries(const attention_loop *w, size_t b, size_t h, size_t i0, size_t i1, memory *room)
{
    const xcvm_attention *d = w->d;
    size_t first = 0, last = d->keys;
    if (w->qk == NULL) {
        /* Both ends of the key range are monotonic in the query. */
        size_t unused;
        xcvm_attention_range(d, b, i0, &first, &unused);
        xcvm_attention_range(d, b, i1 - 1, &unused, &last);
        first -= first % BLOCK_KEYS;
    }
    block at = {.b = b, .h = h, .i0 = i0, .i1 = i1, .first = true};
    for (size_t j = first; j < last; j += BLOCK_KEYS) {
        at.j0 = j;
        at.j1 = xcvm_min(d->keys, j + BLOCK_KEYS);
        at.columns = xcvm_round_up(at.j1 - at.j0, XCVM_LANES);
        XCVM_TRY(w->few ? run_few(w, &at, room) : run_block(w, &at, room));
        at.first = false;
    }
    for (size_t r = 0; r < i1 - i0; r++) {
        float *y = w->y + xcvm_attention_row(&d->y, b, h, i0 + r);
        const float *sums = room->sums + r * padded_width(d), total = at.first ? 0.0f : room->total[r];
        const float nothing = d->nan_rows ? NAN : 0.0f, inverse = 1.0f / total;
        for (size_t p = 0; p < d->v_width; p++)
            y[p] = total == 0.0f ? nothing : sums[p] * inverse;
    }
    if (w->qk != NULL && d->qk_mode == 3 && !at.first)
        finish_weights(w, at, room);
    return xcvm_kernel_poll(w->k);
}

static void run_worker(void *context, size_t begin, size_t end, int worker)
{
    attention_loop *w = context;
    const xcvm_attention *d = w->d;
    memory room = {.kv = SIZE_MAX};
    size_t bytes;
    lay_out(w, w->scratch + (size_t)worker * w->per_worker, &room, &bytes);
    for (size_t at = begin; at < end; at++) {
        const size_t head = at / w->query_blocks, i0 = at % w->query_blocks * w->block_queries;
        const xcvm_status status =
            run_queries(w, head / d->heads, head % d->heads, i0, xcvm_min(d->queries, i0 + w->block_queries), &room);
        if (status != XCVM_OK)
            __atomic_store_n(&w->status, (uint32_t)status, __ATOMIC_RELAXED);
        if (__atomic_load_n(&w->status, __ATOMIC_RELAXED) != XCVM_OK)
            return;
    }
}

/* ---- The instruction ---- */

/* Number of elements of q, k or v, from the strides in `rows`. */
static size_t extent(const xcvm_attention *d, const xcvm_attention_rows *rows, size_t heads, size_t count, size_t width)
{
    return d->batch * heads * count * width == 0 ? 0
                                                 : xcvm_attention_row(rows, d->batch - 1, heads - 1, count - 1) + width;
}

static void cut_into_blocks(attention_loop *w)
{
    const xcvm_attention *d = w->d;
    w->few = d->queries <= FEW_QUERIES;
    w->query_blocks = d->queries == 0 ? 1 : (d->queries + BLOCK_QUERIES - 1) / BLOCK_QUERIES;
    w->block_queries = (d->queries + w->query_blocks - 1) / w->query_blocks;
    if (!w->few)
        w->block_queries = xcvm_round_up(w->block_queries, XCVM_GEMM_ROWS);
    w->query_blocks = d->queries == 0 ? 1 : (d->queries + w->block_queries - 1) / w->block_queries;
    w->key_blocks = d->keys == 0 ? 1 : (d->keys + BLOCK_KEYS - 1) / BLOCK_KEYS;
}

/* Number of elements of all keys or values. Joined ones do not have the strides in `rows`. */
static size_t extent_joined(const xcvm_attention *d, const xcvm_attention_rows *rows, size_t width,
                            const xcvm_value *past, const xcvm_value *present)
{
    return past != NULL || present != NULL ? d->batch * d->kv_heads * d->keys * width
                                           : extent(d, rows, d->kv_heads, d->keys, width);
}

/* Converts f16 and bf16 to f32. Returns the rest of `scratch`. */
static float *widen(const void *data, xcvm_dtype dtype, size_t count, const float **floats, float *scratch)
{
    *floats = data;
    if (dtype == XCVM_F32)
        return scratch;
    xcvm_halves_load(dtype, data, 0, count, scratch);
    *floats = scratch;
    return scratch + count;
}

XCVM_KERNEL(Attention)
{
    const xcvm_dtype dtype = (xcvm_dtype)a->q->dtype, v_dtype = (xcvm_dtype)(a->v != NULL ? a->v : a->q)->dtype;
    const bool half = dtype != XCVM_F32, v_half = v_dtype != XCVM_F32;
    if (dtype == XCVM_F64 || v_dtype == XCVM_F64 || a->softmax_precision == XCVM_F64 ||
        (a->mask != NULL && a->mask->dtype == XCVM_F64))
        return xcvm_attention_f64(k, a);

    xcvm_attention d;
    XCVM_TRY(xcvm_attention_read(k->error, a, &d));
    xcvm_attention_reduce(&d);
    attention_loop w = {.k = k, .d = &d};
    cut_into_blocks(&w);
    const size_t joined = xcvm_attention_joined(a), qk_count = a->qk != NULL ? xcvm_element_count(a->qk) : 0;
    const size_t y_count = xcvm_element_count(a->y);
    size_t floats = 4 * XCVM_LANES, bytes;
    if (half)
        floats += xcvm_element_count(a->q) + extent_joined(&d, &d.k, d.width, a->past_key, a->present_key) + y_count +
                  qk_count;
    if (v_half)
        floats += extent_joined(&d, &d.v, d.v_width, a->past_value, a->present_value);
    const bool fits = lay_out(&w, NULL, &(memory){0}, &w.per_worker) &&
                      xcvm_size_mul(w.per_worker, (size_t)xcvm_threads_count(k->threads), &bytes) &&
                      xcvm_size_add(bytes, floats * sizeof(float), &bytes) && xcvm_size_add(bytes, joined, &bytes);
    XCVM_CHECK(k->error, fits, OUT_OF_RANGE, "%zu keys are too many", d.keys);
    char *scratch = xcvm_kernel_scratch(k, bytes);
    if (scratch == NULL)
        return XCVM_OUT_OF_MEMORY;
    XCVM_TRY(xcvm_attention_join(k, a, scratch, &d));
    if (d.batch == 0 || d.heads == 0 || d.queries == 0)
        return XCVM_OK;

    w.scratch = scratch + joined;
    float *rest = (float *)(void *)(w.scratch + w.per_worker * (size_t)xcvm_threads_count(k->threads));
    rest = widen(d.q_data, dtype, extent(&d, &d.q, d.heads, d.queries, d.width), &w.q, rest);
    rest = widen(d.k_data, dtype, extent(&d, &d.k, d.kv_heads, d.keys, d.width), &w.keys, rest);
    rest = widen(d.v_data, v_dtype, extent(&d, &d.v, d.kv_heads, d.keys, d.v_width), &w.values, rest);
    w.y = half ? rest : a->y->data;
    w.qk = qk_count == 0 ? NULL : half ? rest + y_count : d.qk;
    const size_t units = d.batch * d.heads * w.query_blocks;
    const double cost = (double)w.block_queries * (double)d.keys * (double)(d.width + d.v_width) + 1.0;
    xcvm_parallel(k->threads, units, xcvm_grain(THREAD_WORK, cost), run_worker, &w);
    if (half && w.status == XCVM_OK) {
        xcvm_halves_store(dtype, a->y->data, 0, y_count, w.y);
        if (w.qk != NULL)
            xcvm_halves_store(dtype, d.qk, 0, qk_count, w.qk);
    }
    return (xcvm_status)w.status;
}
