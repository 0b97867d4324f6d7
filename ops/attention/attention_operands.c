/* Operands of Attention in the form that its kernels share, and the f64 kernel. */
#include "ops/attention/attention_operands.h"
#include "ops/util/convert.h"
#include "ops/util/strided.h"

#include <math.h>

/* ---- Layout ---- */

/* Strides of rows of `width` elements. In rank 4 the rows of a head are contiguous; in rank 3 a row of `all` elements
 * contains all heads. */
static xcvm_attention_rows rows_of(int rank, size_t heads, size_t count, size_t width, size_t all)
{
    if (rank == 4)
        return (xcvm_attention_rows){heads * count * width, count * width, width};
    return (xcvm_attention_rows){count * all, width, all};
}

static bool is_joined(const xcvm_value *past, const xcvm_value *present) { return past != NULL && present == NULL; }

/* Bytes of past and new keys or values together. */
static size_t joined_bytes(const xcvm_value *past, const xcvm_value *fresh, size_t fresh_bytes)
{
    return xcvm_round_up(past->bytes, XCVM_ALIGNMENT) +
           xcvm_round_up(fresh != NULL ? fresh->bytes : fresh_bytes, XCVM_ALIGNMENT);
}

size_t xcvm_attention_joined(const xcvm_Attention_args *a)
{
    size_t bytes = 0;
    if (is_joined(a->past_key, a->present_key))
        bytes += joined_bytes(a->past_key, a->k, a->q->bytes);
    if (is_joined(a->past_value, a->present_value))
        bytes += joined_bytes(a->past_value, a->v, a->q->bytes);
    return bytes;
}

/* Concatenates `past` (NULL: none) and `fresh` rows of each head. */
static xcvm_status join(const xcvm_kernel *k, const xcvm_attention *d, const xcvm_value *past, const void *fresh,
                        const xcvm_attention_rows *from, size_t width, xcvm_dtype dtype, void *to)
{
    const size_t size = xcvm_dtype_size(dtype), before = past != NULL ? (size_t)past->dims[2] : 0;
    const xcvm_attention_rows all = rows_of(4, d->kv_heads, d->keys, width, 0);
    const xcvm_attention_rows old = rows_of(4, d->kv_heads, before, width, 0);
    for (int i = 0; i < 2; i++) {
        const xcvm_attention_rows *source = i == 0 ? &old : from;
        const size_t count = i == 0 ? before : d->keys - before;
        xcvm_strided s = {.rank = 0};
        xcvm_strided_axis(&s, d->batch, (ptrdiff_t)all.batch, (ptrdiff_t)source->batch);
        xcvm_strided_axis(&s, d->kv_heads, (ptrdiff_t)all.head, (ptrdiff_t)source->head);
        xcvm_strided_axis(&s, count, (ptrdiff_t)all.row, (ptrdiff_t)source->row);
        xcvm_strided_axis(&s, width, 1, 1);
        if (d->batch != 0 && d->kv_heads != 0 && count != 0 && width != 0)
            XCVM_TRY(xcvm_strided_copy(k, &s, size, (char *)to + (i == 0 ? 0 : before * width * size),
                                       i == 0 ? past->data : fresh));
    }
    return XCVM_OK;
}

xcvm_attention_rows xcvm_attention_mask_rows(const xcvm_value *mask)
{
    size_t strides[3] = {0}, stride = (size_t)mask->dims[mask->rank - 1];
    for (int i = mask->rank - 2, at = 2; i >= 0; i--, at--) {
        strides[at] = mask->dims[i] == 1 ? 0 : stride;
        stride *= (size_t)mask->dims[i];
    }
    return (xcvm_attention_rows){strides[0], strides[1], strides[2]};
}

static void describe_mask(xcvm_attention *d, const xcvm_value *mask)
{
    if (mask == NULL)
        return;
    d->mask = mask->data;
    d->mask_dtype = (xcvm_dtype)mask->dtype;
    d->mask_keys = (size_t)mask->dims[mask->rank - 1];
    d->mask_rows = xcvm_attention_mask_rows(mask);
}

xcvm_status xcvm_attention_read(xcvm_error *error, const xcvm_Attention_args *a, xcvm_attention *d)
{
    const xcvm_value *q = a->q;
    const int rank = q->rank;
    const size_t past = a->past_key != NULL ? (size_t)a->past_key->dims[2] : 0;
    *d = (xcvm_attention){.batch = (size_t)q->dims[0], .q_data = q->data, .softcap = a->softcap};
    size_t fresh;
    if (rank == 4) {
        d->heads = (size_t)q->dims[1];
        d->queries = (size_t)q->dims[2];
        d->width = (size_t)q->dims[3];
        d->kv_heads = (size_t)a->k->dims[1];
        fresh = (size_t)a->k->dims[2];
        d->v_width = (size_t)a->v->dims[3];
    } else {
        d->heads = (size_t)a->q_num_heads;
        d->kv_heads = (size_t)a->kv_num_heads;
        d->queries = (size_t)q->dims[1];
        d->width = (size_t)q->dims[2] / (a->k != NULL ? d->heads : d->heads + 2 * d->kv_heads);
        fresh = a->k != NULL ? (size_t)a->k->dims[1] : d->queries;
        d->v_width = a->v != NULL ? (size_t)a->v->dims[2] / d->kv_heads : d->width;
    }
    d->group = d->kv_heads > 0 ? d->heads / d->kv_heads : 0;
    d->keys = past + fresh;
    d->q = rows_of(rank, d->heads, d->queries, d->width, (size_t)q->dims[2]);
    d->y = rows_of(rank, d->heads, d->queries, d->v_width, d->heads * d->v_width);
    if (a->k != NULL) {
        d->k = rows_of(rank, d->kv_heads, fresh, d->width, (size_t)a->k->dims[2]);
        d->v = rows_of(rank, d->kv_heads, fresh, d->v_width, (size_t)a->v->dims[2]);
        d->k_data = a->k->data;
        d->v_data = a->v->data;
    } else {
        const size_t size = xcvm_dtype_size((xcvm_dtype)q->dtype);
        d->k = d->v = d->q;
        d->k_data = (const char *)q->data + d->heads * d->width * size;
        d->v_data = (const char *)d->k_data + d->kv_heads * d->width * size;
    }
    describe_mask(d, a->mask);
    d->scale = a->scale != 0.0 ? a->scale : 1.0 / sqrt((double)d->width);
    d->causal = a->is_causal != 0;
    d->left = a->left_window_size;
    d->right = a->right_window_size;
    d->place = a->past_key == NULL && a->nonpad_kv_seqlen != NULL ? -1 : (int64_t)past;
    d->place_step = 1;
    d->nan_rows = a->nan_rows != 0 && d->keys > 0;
    if (a->nonpad_kv_seqlen != NULL) {
        d->nonpad = a->nonpad_kv_seqlen->data;
        for (size_t i = 0; i < d->batch; i++)
            XCVM_CHECK(error, d->nonpad[i] >= 0 && (uint64_t)d->nonpad[i] <= d->keys, OUT_OF_RANGE,
                       "nonpad_kv_seqlen[%zu] is %lld, 0 to %zu is expected", i, (long long)d->nonpad[i], d->keys);
    }
    if (a->qk != NULL) {
        d->qk = a->qk->data;
        d->qk_mode = (int)a->qk_matmul_output_mode;
    }
    return XCVM_OK;
}

xcvm_status xcvm_attention_join(xcvm_kernel *k, const xcvm_Attention_args *a, void *joined, xcvm_attention *d)
{
    const xcvm_value *q = a->q;
    const struct {
        const xcvm_value *past, *present;
        size_t width;
        xcvm_dtype dtype;
        const void **data;
        xcvm_attention_rows *rows;
    } parts[] = {{a->past_key, a->present_key, d->width, (xcvm_dtype)q->dtype, &d->k_data, &d->k},
                 {a->past_value, a->present_value, d->v_width, (xcvm_dtype)(a->v != NULL ? a->v->dtype : q->dtype),
                  &d->v_data, &d->v}};
    char *room = joined;
    for (int i = 0; i < 2; i++) {
        if (parts[i].past == NULL && parts[i].present == NULL)
            continue;
        void *to = parts[i].present != NULL ? parts[i].present->data : room;
        XCVM_TRY(join(k, d, parts[i].past, *parts[i].data, parts[i].rows, parts[i].width, parts[i].dtype, to));
        if (parts[i].present == NULL)
            room += joined_bytes(parts[i].past, i == 0 ? a->k : a->v, q->bytes);
        *parts[i].data = to;
        *parts[i].rows = rows_of(4, d->kv_heads, d->keys, parts[i].width, 0);
    }
    return XCVM_OK;
}

void xcvm_attention_reduce(xcvm_attention *d)
{
    if (d->queries != 1 || d->group <= 1)
        return;
    xcvm_attention_rows *all[] = {&d->q, &d->y, &d->mask_rows};
    for (int i = 0; i < 3; i++) {
        all[i]->row = all[i]->head;
        all[i]->head *= d->group;
    }
    d->queries = d->group;
    d->heads = d->kv_heads;
    d->group = 1;
    /* nonpad gives the position of the first query only for a single query. */
    d->place_step = 0;
}

void xcvm_attention_range(const xcvm_attention *d, size_t b, size_t i, size_t *begin, size_t *end)
{
    int64_t first = 0, last = (int64_t)d->keys;
    const int64_t queries = d->place_step == 0 ? 1 : (int64_t)d->queries;
    int64_t place = (d->place >= 0 ? d->place : d->nonpad[b] - queries) + (int64_t)i * d->place_step;
    if (d->nonpad != NULL && d->nonpad[b] < last)
        last = d->nonpad[b];
    if (d->causal && place + 1 < last)
        last = place + 1;
    if (d->right >= 0 && d->right < last && place + d->right + 1 < last)
        last = place + d->right + 1;
    if (d->left >= 0 && d->left < place)
        first = place - d->left;
    last = last < 0 ? 0 : last;
    *begin = (size_t)(first < last ? first : last);
    *end = (size_t)last;
}

/* ---- f64 ---- */

typedef struct work_f64 {
    const xcvm_kernel *k;
    const xcvm_attention *d;
    xcvm_dtype qk_dtype, v_dtype; /* dtype of q, k, y and qk; dtype of v */
    void *y;
    char *scratch;
    size_t per_worker;
} work_f64;

static double mask_at(const xcvm_attention *d, const size_t row, size_t key)
{
    if (d->mask == NULL)
        return 0.0;
    if (key >= d->mask_keys)
        return -(double)INFINITY;
    if (d->mask_dtype == XCVM_BOOL)
        return ((const bool *)d->mask)[row + key] ? 0.0 : -(double)INFINITY;
    double value;
    xcvm_load_f64(d->mask_dtype, d->mask, row + key, 1, &value);
    return value;
}

static void store_scores(const work_f64 *w, int mode, size_t row, const double *score)
{
    if (w->d->qk != NULL && w->d->qk_mode == mode)
        xcvm_store_f64(w->qk_dtype, w->d->qk, row * w->d->keys, w->d->keys, score, false);
}

/* Computes one query. `room` has width + v_width + keys + v_width doubles. */
static void attend_f64(const work_f64 *w, size_t b, size_t h, size_t i, double *room)
{
    const xcvm_attention *d = w->d;
    const size_t kv = h / d->group, row = (b * d->heads + h) * d->queries + i;
    const size_t most = d->width > d->v_width ? d->width : d->v_width;
    double *q = room, *other = q + d->width, *score = other + most, *y = score + d->keys;
    size_t begin, end;
    xcvm_poller poller = xcvm_poller_of(w->k);
    xcvm_attention_range(d, b, i, &begin, &end);
    xcvm_load_f64(w->qk_dtype, d->q_data, xcvm_attention_row(&d->q, b, h, i), d->width, q);
    for (size_t j = 0; j < d->keys; j++) {
        if (xcvm_poll_after(&poller, d->width) != XCVM_OK)
            return;
        xcvm_load_f64(w->qk_dtype, d->k_data, xcvm_attention_row(&d->k, b, kv, j), d->width, other);
        double sum = 0.0;
        for (size_t p = 0; p < d->width; p++)
            sum += q[p] * other[p];
        score[j] = sum * d->scale;
    }
    store_scores(w, 0, row, score);
    for (size_t j = 0; j < d->keys && d->softcap > 0.0; j++)
        score[j] = d->softcap * tanh(score[j] / d->softcap);
    store_scores(w, 1, row, score);
    const size_t mask_row = xcvm_attention_row(&d->mask_rows, b, h, i);
    double greatest = -(double)INFINITY, sum = 0.0;
    for (size_t j = 0; j < d->keys; j++) {
        score[j] = j < begin || j >= end ? -(double)INFINITY : score[j] + mask_at(d, mask_row, j);
        if (!(score[j] <= greatest))
            greatest = score[j];
    }
    store_scores(w, 2, row, score);
    const double base = greatest == -(double)INFINITY ? 0.0 : greatest;
    for (size_t j = 0; j < d->keys; j++)
        sum += score[j] = exp(score[j] - base);
    memset(y, 0, d->v_width * sizeof *y);
    for (size_t j = begin; j < end; j++) {
        if (xcvm_poll_after(&poller, d->v_width) != XCVM_OK)
            return;
        xcvm_load_f64(w->v_dtype, d->v_data, xcvm_attention_row(&d->v, b, kv, j), d->v_width, other);
        for (size_t p = 0; p < d->v_width; p++)
            y[p] += score[j] * other[p];
    }
    for (size_t p = 0; p < d->v_width; p++)
        y[p] = sum == 0.0 ? (d->nan_rows ? (double)NAN : 0.0) : y[p] / sum;
    xcvm_store_f64(w->qk_dtype, w->y, xcvm_attention_row(&d->y, b, h, i), d->v_width, y, false);
    for (size_t j = 0; j < d->keys; j++)
        score[j] /= sum;
    store_scores(w, 3, row, score);
}

static void run_f64(void *context, size_t begin, size_t end, int worker)
{
    work_f64 *w = context;
    const xcvm_attention *d = w->d;
    for (size_t at = begin; at < end; at++)
        attend_f64(w, at / d->queries / d->heads, at / d->queries % d->heads, at % d->queries,
                   (double *)(void *)(w->scratch + (size_t)worker * w->per_worker));
}

xcvm_status xcvm_attention_f64(xcvm_kernel *k, const xcvm_Attention_args *a)
{
    const size_t joined = xcvm_attention_joined(a), threads = (size_t)xcvm_threads_count(k->threads);
    xcvm_attention d;
    XCVM_TRY(xcvm_attention_read(k->error, a, &d));
    size_t room, all;
    const bool fits =
        xcvm_size_add(d.keys, 2 * (d.width + d.v_width), &room) && xcvm_size_mul(room, sizeof(double), &room) &&
        xcvm_size_mul(xcvm_round_up(room, XCVM_ALIGNMENT), threads, &all) && xcvm_size_add(all, joined, &all);
    XCVM_CHECK(k->error, fits, OUT_OF_RANGE, "%zu keys are too many", d.keys);
    char *scratch = xcvm_kernel_scratch(k, all);
    if (scratch == NULL)
        return XCVM_OUT_OF_MEMORY;
    XCVM_TRY(xcvm_attention_join(k, a, scratch, &d));
    work_f64 w = {.k = k,
                  .d = &d,
                  .qk_dtype = (xcvm_dtype)a->q->dtype,
                  .v_dtype = (xcvm_dtype)(a->v != NULL ? a->v->dtype : a->q->dtype),
                  .y = a->y->data,
                  .scratch = scratch + joined,
                  .per_worker = xcvm_round_up(room, XCVM_ALIGNMENT)};
    const size_t rows = d.batch * d.heads * d.queries;
    return xcvm_kernel_parallel(k, rows, 1 + 10000 / (1 + d.keys * (d.width + d.v_width)), run_f64, &w);
}
