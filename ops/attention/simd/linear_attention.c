/* LinearAttention: each head has a matrix state, which every token decays, corrects, updates and reads. */
#include "ops/simd/halves.h"
#include "ops/simd/math.h"

enum {
    /* State columns processed together; they are independent. With 128 rows they stay in the first-level cache. */
    COLUMNS = 64,
    /* Minimum multiply-adds per thread. */
    THREAD_WORK = 200 * 1000
};

typedef struct linear_attention_loop {
    const xcvm_kernel *k;
    const xcvm_LinearAttention_args *a;
    size_t batch, heads, kv_heads, tokens, width, v_width;
    size_t decays, erases; /* values per head and token; 0: none */
    size_t beta_heads;     /* heads of beta: kv_heads or 1 */
    bool gated, delta;
    float scale;
    float *scratch;
    size_t per_worker, blocks; /* floats of scratch; blocks of columns */
    uint32_t status;           /* atomic; the first failure */
} linear_attention_loop;

static void load(const xcvm_value *v, size_t first, size_t count, float *to)
{
    if (v->dtype != XCVM_F64) {
        xcvm_halves_load((xcvm_dtype)v->dtype, v->data, first, count, to);
        return;
    }
    for (size_t i = 0; i < count; i++)
        to[i] = (float)XCVM_CDATA(double, v)[first + i];
}

static void store(xcvm_value *v, size_t first, size_t count, const float *from)
{
    if (v->dtype != XCVM_F64) {
        xcvm_halves_store((xcvm_dtype)v->dtype, v->data, first, count, from);
        return;
    }
    for (size_t i = 0; i < count; i++)
        XCVM_DATA(double, v)[first + i] = (double)from[i];
}

/* For rows of COLUMNS floats: state[d] *= factor[d], sum += by[d] * state[d]. */
static void decay_and_read(float *state, const float *factor, const float *by, size_t width, float *sum)
{
    for (size_t d = 0; d < width; d++) {
        float *row = state + d * COLUMNS;
        const float f = factor[d], b = by[d];
        XCVM_INDEPENDENT
        for (size_t c = 0; c < COLUMNS; c++) {
            const float s = row[c] * f;
            row[c] = s;
            sum[c] += b * s;
        }
    }
}

/* state[d] += key[d] * value, and sum += by[d] * state[d]. */
static void write_and_read(float *state, const float *key, const float *value, const float *by, size_t width,
                           float *sum)
{
    for (size_t d = 0; d < width; d++) {
        float *row = state + d * COLUMNS;
        const float f = key[d], b = by[d];
        XCVM_INDEPENDENT
        for (size_t c = 0; c < COLUMNS; c++) {
            const float s = row[c] + f * value[c];
            row[c] = s;
            sum[c] += b * s;
        }
    }
}

static void read_state(const float *state, const float *by, size_t width, float *sum)
{
    for (size_t d = 0; d < width; d++) {
        const float *row = state + d * COLUMNS;
        XCVM_INDEPENDENT
        for (size_t c = 0; c < COLUMNS; c++)
            sum[c] += by[d] * row[c];
    }
}

/* Vectors of one token, `width` floats each, stored after the state. */
typedef struct token {
    float *key, *query, *factor, *erase;
} token;

/* Applies one token to columns [c0, c0 + count) of the state of head h. Columns up to COLUMNS are padding. */
static void step(const linear_attention_loop *w, size_t b, size_t h, size_t t, size_t c0, size_t count, float *state,
                 const token *o)
{
    const xcvm_LinearAttention_args *a = w->a;
    const size_t row = b * w->tokens + t, group = w->heads / w->kv_heads;
    float value[COLUMNS] = {0}, sum[COLUMNS] = {0};
    load(a->k, (row * w->kv_heads + h) * w->width, w->width, o->key);
    load(a->v, (row * w->kv_heads + h) * w->v_width + c0, count, value);
    for (size_t d = 0; d < w->width && w->decays == 0; d++)
        o->factor[d] = 1.0f;
    if (w->decays > 0) {
        load(a->decay, (row * w->kv_heads + h) * w->decays, w->decays, o->factor);
        for (size_t d = 0; d < w->decays; d++)
            o->factor[d] = xcvm_exp_f32(o->factor[d]);
        for (size_t d = w->decays; d < w->width; d++)
            o->factor[d] = o->factor[0];
    }
    if (w->delta) {
        float beta;
        load(a->beta, row * w->beta_heads + (w->beta_heads > 1 ? h : 0), 1, &beta);
        if (w->erases > 0)
            load(a->erase_gate, (row * w->kv_heads + h) * w->width, w->width, o->erase);
        for (size_t d = 0; d < w->width; d++)
            o->erase[d] = w->erases > 0 ? o->erase[d] * o->key[d] : o->key[d];
        decay_and_read(state, o->factor, o->erase, w->width, sum);
        for (size_t c = 0; c < COLUMNS; c++)
            value[c] = beta * (value[c] - sum[c]);
    } else if (w->gated) {
        memset(o->erase, 0, w->width * sizeof *o->erase);
        decay_and_read(state, o->factor, o->erase, w->width, sum);
    }
    for (size_t g = 0; g < group; g++) {
        const size_t head = h * group + g;
        load(a->q, (row * w->heads + head) * w->width, w->width, o->query);
        memset(sum, 0, sizeof sum);
        if (g == 0)
            write_and_read(state, o->key, value, o->query, w->width, sum);
        else
            read_state(state, o->query, w->width, sum);
        for (size_t c = 0; c < COLUMNS; c++)
            sum[c] *= w->scale;
        store(a->y, (row * w->heads + head) * w->v_width + c0, count, sum);
    }
}

static xcvm_status run_columns(const linear_attention_loop *w, size_t b, size_t h, size_t c0, float *room)
{
    const xcvm_LinearAttention_args *a = w->a;
    const size_t count = w->v_width - c0 < COLUMNS ? w->v_width - c0 : COLUMNS;
    const size_t whole = (b * w->kv_heads + h) * w->width * w->v_width + c0;
    float *state = room, *rest = room + w->width * COLUMNS;
    const token o = {rest, rest + w->width, rest + 2 * w->width, rest + 3 * w->width};
    memset(state, 0, w->width * COLUMNS * sizeof *state);
    for (size_t d = 0; d < w->width && a->past_state != NULL; d++)
        load(a->past_state, whole + d * w->v_width, count, state + d * COLUMNS);
    xcvm_poller poller = xcvm_poller_of(w->k);
    for (size_t t = 0; t < w->tokens; t++) {
        step(w, b, h, t, c0, count, state, &o);
        XCVM_TRY(xcvm_poll_after(&poller, w->width * (2 + w->heads / w->kv_heads)));
    }
    for (size_t d = 0; d < w->width && a->present_state != NULL; d++)
        store(a->present_state, whole + d * w->v_width, count, state + d * COLUMNS);
    return XCVM_OK;
}

static void run_worker(void *context, size_t begin, size_t end, int worker)
{
    linear_attention_loop *w = context;
    for (size_t at = begin; at < end; at++) {
        const size_t head = at / w->blocks;
        const xcvm_status status = run_columns(w, head / w->kv_heads, head % w->kv_heads, at % w->blocks * COLUMNS,
                                               w->scratch + (size_t)worker * w->per_worker);
        if (status != XCVM_OK) {
            __atomic_store_n(&w->status, (uint32_t)status, __ATOMIC_RELAXED);
            return;
        }
    }
}

XCVM_KERNEL(LinearAttention)
{
    linear_attention_loop w = {.k = k,
                               .a = a,
                               .batch = (size_t)a->q->dims[0],
                               .heads = (size_t)a->q_num_heads,
                               .kv_heads = (size_t)a->kv_num_heads,
                               .tokens = (size_t)a->q->dims[1]};
    w.width = (size_t)a->q->dims[2] / w.heads;
    w.v_width = (size_t)a->v->dims[2] / w.kv_heads;
    w.gated = a->decay != NULL;
    w.delta = a->beta != NULL;
    w.decays = w.gated ? (size_t)a->decay->dims[2] / w.kv_heads : 0;
    w.beta_heads = w.delta ? (size_t)a->beta->dims[2] : 0;
    w.erases = a->erase_gate != NULL ? w.width : 0;
    w.scale = (float)(a->scale != 0.0 ? a->scale : 1.0 / sqrt((double)w.width));
    w.blocks = (w.v_width + COLUMNS - 1) / COLUMNS;
    const size_t units = w.batch * w.kv_heads * w.blocks;
    size_t bytes;
    if (units == 0)
        return XCVM_OK;
    const bool fits =
        xcvm_size_mul(w.width, COLUMNS + 4, &w.per_worker) && w.per_worker < SIZE_MAX / 8 &&
        xcvm_size_mul(xcvm_round_up(w.per_worker, 16) * sizeof(float), (size_t)xcvm_threads_count(k->threads), &bytes);
    XCVM_CHECK(k->error, fits, OUT_OF_RANGE, "heads of %zu elements are too large", w.width);
    w.per_worker = xcvm_round_up(w.per_worker, 16);
    if ((w.scratch = xcvm_kernel_scratch(k, bytes)) == NULL)
        return XCVM_OUT_OF_MEMORY;
    const size_t cost = 1 + w.tokens * w.width * COLUMNS;
    xcvm_parallel(k->threads, units, 1 + THREAD_WORK / cost, run_worker, &w);
    return (xcvm_status)w.status;
}
