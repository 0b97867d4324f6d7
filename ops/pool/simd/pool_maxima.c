/* Maxima with indices. Types that f32 represents are copied to planes (planes.h), in which windows move along whole
 * vectors even for narrow rows. For f64, and windows that planes do not support, a row of results is compared with one
 * window position after another. */
#include "ops/pool/simd/pool_maxima.h"
#include "ops/conv/simd/planes.h"
#include "ops/simd/math.h"
#include "ops/pool/simd/pool_axes.h"

#include <math.h>

enum { COLUMNS = 256, GRAIN = 1 << 16 };

typedef struct pool_maxima_loop {
    const xcvm_kernel *k;
    const xcvm_pooling *pooling;
    int64_t *indices;
    bool columns_first;
    const xcvm_window *window; /* NULL: planes do not support it */
    xcvm_planes planes;
    int32_t steps[XCVM_PLANES_TAPS]; /* offsets from the first position of a window to each, in image elements */
    float *scratch;                  /* per worker: an image if x is not f32, then planes and results */
    size_t image_floats, scratch_floats;
} pool_maxima_loop;

/* Results [column, column + count) of a row; -1: no index. */
typedef struct best_so_far {
    union {
        float f32[COLUMNS];
        double f64[COLUMNS];
    } value;
    union {
        int32_t f32[COLUMNS];
        int64_t f64[COLUMNS];
    } at;
} best_so_far;

/* The first of equal maxima wins, and the first NaN. An index has the size of an element, so that loops vectorize. */
#define DEFINE_ROW(name, type, index)                                                                                  \
    XCVM_INLINE void every_##name(const type *restrict x, const size_t step, size_t count, index at,                   \
                                  type *restrict best, index *restrict best_at)                                        \
    {                                                                                                                  \
        for (size_t i = 0; i < count; i++) {                                                                           \
            const type v = x[i * step], b = best[i];                                                                   \
            const index old = best_at[i], here = at + (index)(i * step);                                               \
            const index better = (v > b) | ((v != v) & (b == b)) | (old < 0);                                          \
            best[i] = better ? v : b;                                                                                  \
            best_at[i] = better ? here : old;                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    static void row_##name(const type *x, size_t step, size_t count, index at, type *best, index *best_at)             \
    {                                                                                                                  \
        if (step == 1)                                                                                                 \
            every_##name(x, 1, count, at, best, best_at);                                                              \
        else if (step == 2)                                                                                            \
            every_##name(x, 2, count, at, best, best_at);                                                              \
        else                                                                                                           \
            every_##name(x, step, count, at, best, best_at);                                                           \
    }
DEFINE_ROW(f32, float, int32_t)
DEFINE_ROW(f64, double, int64_t)

/* Positions [first, last) of n, with distance `dilation` from `at`, that are in [0, in). */
static void inside(int64_t at, int64_t dilation, int64_t n, int64_t in, int64_t *first, int64_t *last)
{
    const int64_t low = at < 0 ? (dilation - 1 - at) / dilation : 0;
    const int64_t high = at < in ? (in - at + dilation - 1) / dilation : 0;
    *last = high < n ? high : n;
    *first = low < *last ? low : *last;
}

/* Compares one input row with results [column, column + count). `from` is its first element in the plane. */
static xcvm_status reduce_row(const xcvm_pooling *p, const void *plane, size_t from, size_t column, size_t count,
                              best_so_far *best, xcvm_poller *poller)
{
    const int d = p->axes - 1;
    const int64_t stride = p->strides[d], dilation = p->dilations[d], in = p->in[d];
    const int64_t left = (int64_t)column * stride - p->pads[d], right = left + (int64_t)(count - 1) * stride;
    int64_t first, last, unused;
    inside(right, dilation, p->kernel[d], in, &first, &unused);
    inside(left, dilation, p->kernel[d], in, &unused, &last);
    for (int64_t k = first; k < last; k++) {
        int64_t begin, end;
        XCVM_TRY(xcvm_poll_after(poller, count));
        inside(left + k * dilation, stride, (int64_t)count, in, &begin, &end);
        if (begin >= end)
            continue;
        const int64_t at = (int64_t)from + left + k * dilation + begin * stride;
        const size_t n = (size_t)(end - begin);
        if (p->x->dtype == XCVM_F64)
            row_f64((const double *)plane + at, (size_t)stride, n, at, best->value.f64 + begin, best->at.f64 + begin);
        else
            row_f32((const float *)plane + at, (size_t)stride, n, (int32_t)at, best->value.f32 + begin,
                    best->at.f32 + begin);
    }
    return XCVM_OK;
}

/* The same for all rows of the windows of result row `row`. */
static xcvm_status reduce_rows(const xcvm_pooling *p, const void *plane, size_t row, size_t column, size_t count,
                               best_so_far *best, xcvm_poller *poller)
{
    const int outer = p->axes - 1;
    int64_t start[XCVM_MAX_RANK], first[XCVM_MAX_RANK], last[XCVM_MAX_RANK], at[XCVM_MAX_RANK];
    for (int d = outer - 1; d >= 0; d--) {
        start[d] = (int64_t)(row % (size_t)p->out[d]) * p->strides[d] - p->pads[d];
        row /= (size_t)p->out[d];
        inside(start[d], p->dilations[d], p->kernel[d], p->in[d], &first[d], &last[d]);
        if (first[d] == last[d])
            return XCVM_OK;
        at[d] = first[d];
    }
    for (int d = outer;;) {
        size_t from = 0;
        for (int i = 0; i < outer; i++)
            from = (from + (size_t)(start[i] + at[i] * p->dilations[i])) * (size_t)p->in[i + 1];
        XCVM_TRY(reduce_row(p, plane, from, column, count, best, poller));
        for (d = outer - 1; d >= 0 && ++at[d] == last[d]; d--)
            at[d] = first[d];
        if (d < 0)
            return XCVM_OK;
    }
}

/* Converts the index of an element of a plane to column-major order. */
static int64_t with_columns_first(const xcvm_pooling *p, int64_t at)
{
    int64_t where[XCVM_MAX_RANK], index = 0;
    for (int d = p->axes - 1; d >= 0; d--) {
        where[d] = at % p->in[d];
        at /= p->in[d];
    }
    for (int d = p->axes - 1; d >= 0; d--)
        index = index * p->in[d] + where[d];
    return index;
}

static void finish(const pool_maxima_loop *w, const best_so_far *best, size_t plane, size_t to, size_t count)
{
    const xcvm_pooling *p = w->pooling;
    const bool wide = p->x->dtype == XCVM_F64;
    if (wide)
        memcpy(XCVM_DATA(double, p->y) + to, best->value.f64, count * sizeof(double));
    else
        xcvm_pool_write(p, best->value.f32, to, count);
    for (size_t i = 0; i < count && w->indices != NULL; i++) {
        int64_t at = wide ? best->at.f64[i] : best->at.f32[i];
        at = at < 0 ? 0 : w->columns_first ? with_columns_first(p, at) : at;
        w->indices[to + i] = (int64_t)(plane * p->in_plane) + at;
    }
}

static xcvm_status pool_plane(const pool_maxima_loop *w, size_t plane, const void *x, xcvm_poller *poller)
{
    const xcvm_pooling *p = w->pooling;
    const size_t width = (size_t)p->out[p->axes - 1], rows = p->out_plane / width;
    for (size_t row = 0; row < rows; row++)
        for (size_t column = 0; column < width; column += COLUMNS) {
            const size_t count = width - column < COLUMNS ? width - column : COLUMNS;
            best_so_far best;
            for (size_t i = 0; i < count && p->x->dtype == XCVM_F64; i++) {
                best.value.f64[i] = -(double)INFINITY;
                best.at.f64[i] = -1;
            }
            for (size_t i = 0; i < count && p->x->dtype != XCVM_F64; i++) {
                best.value.f32[i] = -INFINITY;
                best.at.f32[i] = -1;
            }
            XCVM_TRY(xcvm_poll_after(poller, count));
            XCVM_TRY(reduce_rows(p, x, row, column, count, &best, poller));
            finish(w, &best, plane, plane * p->out_plane + row * width + column, count);
        }
    return XCVM_OK;
}

/* ---- In planes ---- */

/* Finds the maximum of each window and its first position, or the first NaN; -1 if nothing exceeds minus infinity. */
XCVM_INLINE void greatest_of(const pool_maxima_loop *w, const float *planes, const size_t taps, size_t count,
                             float *best, int32_t *at)
{
    for (size_t i = 0; i < count; i += XCVM_LANES) {
        xcvm_lanes value = xcvm_lanes_all(-INFINITY);
        xcvm_lanes_mask step = (xcvm_lanes_mask){0} - 1;
#pragma GCC unroll 9
        for (size_t t = 0; t < taps; t++) {
            const xcvm_lanes v = xcvm_lanes_load(planes + w->planes.offsets[t] + i);
            const xcvm_lanes_mask better = ~(v <= value) & (value == value);
            value = xcvm_lanes_choose(better, v, value);
            step = ((w->steps[t] - (xcvm_lanes_mask){0}) & better) | (step & ~better);
        }
        xcvm_lanes_store(best + i, value);
        memcpy(at + i, &step, sizeof step);
    }
}

/* First window position inside the image if all elements are minus infinity; 0 if there is none. */
static int64_t first_inside(const xcvm_window *w, size_t row, size_t column)
{
    const size_t place[] = {row, column};
    int64_t at[2];
    for (int i = 0; i < 2; i++) {
        const int axis = XCVM_WINDOW_AXES - 2 + i;
        int64_t first, last;
        at[i] = (int64_t)(place[i] * w->stride[axis]) - w->pad[axis];
        inside(at[i], (int64_t)w->dilation[axis], (int64_t)w->kernel[axis], (int64_t)w->in[axis], &first, &last);
        if (first == last)
            return 0;
        at[i] += first * (int64_t)w->dilation[axis];
    }
    return at[0] * (int64_t)w->in[2] + at[1];
}

static void store_indices(const pool_maxima_loop *m, const int32_t *steps, size_t plane, size_t row)
{
    const xcvm_window *w = m->window;
    const size_t width = w->out[2], stride = w->stride[2];
    const int64_t start = (int64_t)(plane * w->in_size);
    const int64_t first = ((int64_t)(row * w->stride[1]) - w->pad[1]) * (int64_t)w->in[2] - w->pad[2];
    int64_t *indices = m->indices + plane * w->out_size + row * width;
    int32_t least = 0;
    for (size_t i = 0; i < width; i++) {
        indices[i] = start + first + (int64_t)(i * stride) + steps[i];
        least = steps[i] < least ? steps[i] : least;
    }
    for (size_t i = 0; i < width && (least < 0 || m->columns_first); i++) {
        const int64_t at = steps[i] < 0 ? first_inside(w, row, i) : indices[i] - start;
        indices[i] = start + (m->columns_first ? with_columns_first(m->pooling, at) : at);
    }
}

static xcvm_status pool_in_planes(const pool_maxima_loop *m, size_t plane, const float *x, size_t readable,
                                  float *scratch, xcvm_poller *poller)
{
    const xcvm_planes *p = &m->planes;
    const xcvm_window *w = m->window;
    float *best = scratch + p->in_floats;
    int32_t *steps = (int32_t *)(void *)(best + p->out_floats);
    for (size_t top = 0; top < w->out[1]; top += p->rows) {
        const size_t rows = w->out[1] - top < p->rows ? w->out[1] - top : p->rows;
        const size_t count = (rows - 1) * p->pitch + w->out[2];
        XCVM_TRY(xcvm_poll_after(poller, (count + p->in_floats) * (p->taps + 1) / XCVM_LANES));
        xcvm_planes_fill(p, x, readable, top, -INFINITY, scratch);
        if (p->taps == 4)
            greatest_of(m, scratch, 4, count, best, steps);
        else if (p->taps == 9)
            greatest_of(m, scratch, 9, count, best, steps);
        else
            greatest_of(m, scratch, p->taps, count, best, steps);
        for (size_t row = 0; row < rows; row++) {
            xcvm_pool_write(m->pooling, best + row * p->pitch, plane * w->out_size + (top + row) * w->out[2],
                            w->out[2]);
            if (m->indices != NULL)
                store_indices(m, steps + row * p->pitch, plane, top + row);
        }
    }
    return XCVM_OK;
}

static void plan_planes(pool_maxima_loop *m, const xcvm_window *w)
{
    /* Steps have 32 bits. */
    const double longest =
        (double)(w->kernel[1] * w->dilation[1]) * (double)w->in[2] + (double)(w->kernel[2] * w->dilation[2]);
    if (m->pooling->x->dtype == XCVM_F64 || !xcvm_window_is_flat(w) || !xcvm_planes_fit(w) || longest > INT32_MAX)
        return;
    m->window = w;
    xcvm_planes_make(&m->planes, w, 0);
    for (size_t t = 0; t < m->planes.taps; t++)
        m->steps[t] = (int32_t)(t / w->kernel[2] * w->dilation[1] * w->in[2] + t % w->kernel[2] * w->dilation[2]);
}

/* ---- The kernel ---- */

static void pool_planes(void *context, size_t begin, size_t end, int worker)
{
    const pool_maxima_loop *w = context;
    const xcvm_pooling *p = w->pooling;
    float *image = w->scratch != NULL ? w->scratch + (size_t)worker * w->scratch_floats : NULL;
    float *planes = image != NULL ? image + w->image_floats : NULL;
    xcvm_poller poller = xcvm_poller_of(w->k);
    if (w->window != NULL)
        memset(planes, 0, w->planes.in_floats * sizeof *planes);
    for (size_t i = begin; i < end; i++) {
        const void *x = p->x->dtype == XCVM_F64 ? (const void *)(XCVM_CDATA(double, p->x) + i * p->in_plane)
                                                : xcvm_pool_image(p, i, image);
        const size_t readable = x == image ? p->in_plane : (p->planes - i) * p->in_plane;
        const xcvm_status status =
            w->window != NULL ? pool_in_planes(w, i, x, readable, planes, &poller) : pool_plane(w, i, x, &poller);
        if (status != XCVM_OK)
            return;
    }
}

bool xcvm_pool_maxima_fits(const xcvm_pooling *p)
{
    const xcvm_dtype dtype = (xcvm_dtype)p->x->dtype;
    return p->kind == XCVM_POOL_MAX && p->in_plane <= INT32_MAX &&
           (dtype == XCVM_F64 || dtype == XCVM_F32 || dtype == XCVM_F16 || dtype == XCVM_BF16 || dtype == XCVM_U8 ||
            dtype == XCVM_I8);
}

xcvm_status xcvm_pool_maxima(xcvm_kernel *k, const xcvm_pooling *p, const xcvm_window *window, int64_t *indices,
                             bool columns_first)
{
    pool_maxima_loop w = {.k = k, .pooling = p, .indices = indices, .columns_first = columns_first};
    plan_planes(&w, window);
    if (p->x->dtype != XCVM_F64 && p->x->dtype != XCVM_F32)
        w.image_floats = xcvm_round_up(p->in_plane, XCVM_LANES);
    w.scratch_floats = w.image_floats + (w.window != NULL ? w.planes.in_floats + 2 * w.planes.out_floats : 0);
    if (w.scratch_floats > 0) {
        size_t bytes;
        XCVM_CHECK(k->error,
                   xcvm_size_mul(w.scratch_floats, sizeof(float), &bytes) &&
                       xcvm_size_mul(bytes, (size_t)xcvm_threads_count(k->threads), &bytes),
                   OUT_OF_MEMORY, "the images are too large");
        w.scratch = xcvm_kernel_scratch(k, bytes);
        if (w.scratch == NULL)
            return XCVM_OUT_OF_MEMORY;
    }
    const size_t each = p->out_plane * (p->kernel_size < COLUMNS ? p->kernel_size : COLUMNS) + p->in_plane;
    return xcvm_kernel_parallel(k, p->planes, GRAIN / each + 1, pool_planes, &w);
}
