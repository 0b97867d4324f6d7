/* MaxPool, AveragePool and LpPool of narrow types: small windows over one or two axes in vectors, others axis by axis;
 * maxima of f64 and those with their indices row by row, other types one position at a time. */
#include "ops/pool/pool_generic.h"
#include "ops/pool/simd/blocked_pool.h"
#include "ops/conv/simd/planes.h"
#include "ops/pool/simd/pool_axes.h"
#include "ops/pool/simd/pool_maxima.h"

#include <math.h>

enum { THREAD_WORK = 50 * 1000 };

typedef struct work {
    const xcvm_kernel *k;
    const xcvm_pooling *pooling;
    xcvm_window window;
    xcvm_planes planes;
    xcvm_pool_fold fold;
    float *scratch;
    size_t scratch_floats; /* of one worker */
} work;

/* results[i] = fold of planes[offsets[t] + i]. */
XCVM_INLINE void fold_taps(const float *planes, const size_t *offsets, const size_t taps, const xcvm_pool_fold f,
                           size_t count, float *results)
{
    for (size_t i = 0; i < count; i += XCVM_PLANES_RUN) {
        xcvm_lanes sum[XCVM_PLANES_VECTORS];
#pragma GCC unroll 4
        for (int j = 0; j < XCVM_PLANES_VECTORS; j++)
            sum[j] = xcvm_lanes_all(f == XCVM_FOLD_MAX ? -INFINITY : 0.0f);
#pragma GCC unroll 9
        for (size_t t = 0; t < taps; t++) {
            const float *at = planes + offsets[t] + i;
#pragma GCC unroll 4
            for (int j = 0; j < XCVM_PLANES_VECTORS; j++) {
                const xcvm_lanes v = xcvm_lanes_load(at + j * XCVM_LANES);
                if (f == XCVM_FOLD_MAX)
                    sum[j] = xcvm_lanes_keep_nan(xcvm_lanes_max(sum[j], v), v);
                else if (f == XCVM_FOLD_SUM)
                    sum[j] += v;
                else if (f == XCVM_FOLD_ABSOLUTES)
                    sum[j] += xcvm_lanes_max(v, -v);
                else
                    sum[j] += v * v;
            }
        }
#pragma GCC unroll 4
        for (int j = 0; j < XCVM_PLANES_VECTORS; j++)
            xcvm_lanes_store(results + i + j * XCVM_LANES, sum[j]);
    }
}

static void fold_band(const work *r, const float *planes, size_t count, float *results)
{
    const xcvm_planes *p = &r->planes;
    switch (r->fold) {
    case XCVM_FOLD_MAX:
        if (p->taps == 9)
            fold_taps(planes, p->offsets, 9, XCVM_FOLD_MAX, count, results);
        else if (p->taps == 4)
            fold_taps(planes, p->offsets, 4, XCVM_FOLD_MAX, count, results);
        else
            fold_taps(planes, p->offsets, p->taps, XCVM_FOLD_MAX, count, results);
        break;
    case XCVM_FOLD_SUM:
        if (p->taps == 9)
            fold_taps(planes, p->offsets, 9, XCVM_FOLD_SUM, count, results);
        else if (p->taps == 4)
            fold_taps(planes, p->offsets, 4, XCVM_FOLD_SUM, count, results);
        else
            fold_taps(planes, p->offsets, p->taps, XCVM_FOLD_SUM, count, results);
        break;
    case XCVM_FOLD_ABSOLUTES:
        fold_taps(planes, p->offsets, p->taps, XCVM_FOLD_ABSOLUTES, count, results);
        break;
    default:
        fold_taps(planes, p->offsets, p->taps, XCVM_FOLD_SQUARES, count, results);
        for (size_t i = 0; i < count; i++)
            results[i] = sqrtf(results[i]);
        break;
    }
}

static bool is_mean(const work *r) { return r->pooling->kind == XCVM_POOL_MEAN; }

static void run_planes(void *context, size_t begin, size_t end, int worker)
{
    const work *r = context;
    const xcvm_planes *p = &r->planes;
    const xcvm_window *w = &r->window;
    const float blank = r->fold == XCVM_FOLD_MAX ? -INFINITY : 0.0f;
    float *planes = r->scratch + (size_t)worker * r->scratch_floats, *results = planes + p->in_floats;
    float *columns = results + p->out_floats, *copy = columns + xcvm_round_up(w->out[2], XCVM_LANES);
    for (size_t i = 0; i < w->out[2] && is_mean(r); i++)
        columns[i] = xcvm_pool_counted(r->pooling, r->pooling->axes - 1, (int64_t)i);
    xcvm_poller poller = xcvm_poller_of(r->k);
    for (size_t i = begin; i < end; i++) {
        const float *image = xcvm_pool_image(r->pooling, i, copy);
        const bool copied = image == copy;
        for (size_t top = 0; top < w->out[1]; top += p->rows) {
            const size_t rows = w->out[1] - top < p->rows ? w->out[1] - top : p->rows;
            if (xcvm_poll_after(&poller, rows * p->pitch * p->taps) != XCVM_OK)
                return;
            xcvm_planes_fill(p, image, copied ? w->in_size : (end - i) * w->in_size, top, blank, planes);
            fold_band(r, planes, (rows - 1) * p->pitch + w->out[2], results);
            for (size_t row = 0; row < rows; row++) {
                float *from = results + row * p->pitch;
                if (is_mean(r)) {
                    const float count = r->pooling->axes == 1
                                            ? 1.0f
                                            : xcvm_pool_counted(r->pooling, r->pooling->axes - 2, (int64_t)(top + row));
                    for (size_t j = 0; j < w->out[2]; j++)
                        from[j] /= count * columns[j];
                }
                xcvm_pool_write(r->pooling, from, i * w->out_size + (top + row) * w->out[2], w->out[2]);
            }
        }
    }
}

static bool choose_fold(const xcvm_pooling *p, xcvm_pool_fold *f)
{
    *f = p->kind == XCVM_POOL_MAX ? XCVM_FOLD_MAX : p->kind == XCVM_POOL_MEAN ? XCVM_FOLD_SUM : XCVM_FOLD_SQUARES;
    if (p->kind == XCVM_POOL_NORM && p->p == 1)
        *f = XCVM_FOLD_ABSOLUTES;
    const xcvm_dtype dtype = (xcvm_dtype)p->x->dtype;
    return (p->kind != XCVM_POOL_NORM || p->p <= 2) &&
           (dtype == XCVM_F32 || dtype == XCVM_F16 || dtype == XCVM_BF16 || dtype == XCVM_U8 || dtype == XCVM_I8);
}

/* Whether one axis after the other takes less than all positions of a window at once: of large windows, and of maxima
 * of halves, whose conversion the planes would wait for. */
static bool in_two_steps(const xcvm_pooling *p)
{
    return p->kernel_size > 9 || (p->kind == XCVM_POOL_MAX && xcvm_dtype_size((xcvm_dtype)p->x->dtype) == 2);
}

static xcvm_status pool(xcvm_kernel *k, const xcvm_pooling *p, int64_t *indices, bool columns_first)
{
    const xcvm_ints kernel = {p->kernel, (size_t)p->axes}, strides = {p->strides, (size_t)p->axes};
    const xcvm_window_attributes attributes = {
        kernel, strides, {p->pads, 2 * (size_t)p->axes}, {p->dilations, (size_t)p->axes}};
    work r = {.k = k, .pooling = p};
    if (xcvm_element_count(p->y) == 0)
        return XCVM_OK;
    if (indices == NULL && xcvm_blocked_pool_fits(p))
        return xcvm_blocked_pool(k, p);
    const bool narrow = choose_fold(p, &r.fold);
    if ((indices != NULL || !narrow) && p->in_plane != 0 && xcvm_pool_maxima_fits(p))
        return xcvm_pool_maxima(k, p, indices, columns_first);
    if (indices != NULL || p->in_plane == 0 || !narrow)
        return xcvm_pool_positions(k, p, indices, columns_first);
    r.window = xcvm_window_of(p->x, p->y, &attributes);
    if (in_two_steps(p) || !xcvm_window_is_flat(&r.window) || !xcvm_planes_fit(&r.window))
        return xcvm_pool_axes(k, p, &r.window, r.fold);
    xcvm_planes_make(&r.planes, &r.window, 0);
    r.scratch_floats = r.planes.in_floats + r.planes.out_floats + xcvm_round_up(r.window.out[2], XCVM_LANES) +
                       (p->x->dtype != XCVM_F32 ? xcvm_round_up(r.window.in_size, XCVM_LANES) : 0);
    r.scratch = xcvm_kernel_scratch(k, r.scratch_floats * (size_t)xcvm_threads_count(k->threads) * sizeof(float));
    if (r.scratch == NULL)
        return XCVM_OUT_OF_MEMORY;
    const double each = (double)r.window.out_size * (double)(r.planes.taps + 8);
    const size_t grain = each > THREAD_WORK ? 1 : (size_t)(THREAD_WORK / each) + 1;
    xcvm_parallel(k->threads, p->planes, grain, run_planes, &r);
    return xcvm_kernel_poll(k);
}

XCVM_KERNEL(MaxPool)
{
    xcvm_pooling p = {.kind = XCVM_POOL_MAX};
    XCVM_TRY(xcvm_pooling_make(k, &p, a->x, a->y, a->kernel_shape, a->strides, a->pads, a->dilations, a->auto_pad));
    return pool(k, &p, a->indices != NULL ? XCVM_DATA(int64_t, a->indices) : NULL, a->storage_order != 0);
}

XCVM_KERNEL(AveragePool)
{
    xcvm_pooling p = {.kind = XCVM_POOL_MEAN, .count_pads = a->count_include_pad != 0};
    XCVM_TRY(xcvm_pooling_make(k, &p, a->x, a->y, a->kernel_shape, a->strides, a->pads, a->dilations, a->auto_pad));
    return pool(k, &p, NULL, false);
}

XCVM_KERNEL(LpPool)
{
    xcvm_pooling p = {.kind = XCVM_POOL_NORM, .p = a->p};
    XCVM_TRY(xcvm_pooling_make(k, &p, a->x, a->y, a->kernel_shape, a->strides, a->pads, a->dilations, a->auto_pad));
    return pool(k, &p, NULL, false);
}
