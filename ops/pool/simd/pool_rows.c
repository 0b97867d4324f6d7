/* Pooling row by row: the input rows that the windows of an output row meet are folded into one, with the padding
 * around it, and that along the windows. Both take whole vectors, whatever the width. */
#include "ops/pool/simd/pool_rows.h"
#include "ops/conv/simd/conv.h"

#include <math.h>

enum {
    THREAD_WORK = 20 * 1000, /* steps of a range that are worth waking a thread for */
    MOST_ROWS = 16,
    MOST_REACH = 8192, /* elements from the first to the last of a window */
    MOST_STRIDE = 16,
    COLUMNS = 1024,        /* results that are made at a time */
    SLACK = 4 * XCVM_LANES /* floats that vectors may reach over the last one */
};

typedef struct work {
    const xcvm_kernel *k;
    const xcvm_pooling *pooling;
    const xcvm_window *window;
    xcvm_pool_fold fold;
    size_t columns, reach; /* results at a time; elements that their windows reach over */
    size_t counted;        /* floats for what means count along a row */
    float *scratch;
    size_t scratch_floats; /* of a worker */
} work;

/* A worker's memory. */
typedef struct desk {
    float *line;    /* a folded row, with the padding */
    float *counts;  /* elements along the row that a mean counts */
    float *results; /* of types other than f32 */
    float *image;   /* the same as f32 */
    const float *held;
    size_t index; /* of the image that `held` is */
} desk;

bool xcvm_pool_rows_fit(const xcvm_window *w)
{
    return w->kernel[0] <= MOST_ROWS && w->kernel[1] <= MOST_ROWS && w->kernel[0] * w->kernel[1] <= MOST_ROWS &&
           w->kernel[2] <= MOST_REACH && w->dilation[2] <= MOST_REACH &&
           (w->kernel[2] - 1) * w->dilation[2] <= MOST_REACH && w->stride[2] <= MOST_STRIDE;
}

/* ---- Across rows ---- */

XCVM_INLINE xcvm_lanes prepared(xcvm_lanes v, xcvm_pool_fold f)
{
    return f == XCVM_FOLD_ABSOLUTES ? xcvm_lanes_max(v, -v) : f == XCVM_FOLD_SQUARES ? v * v : v;
}

XCVM_INLINE xcvm_lanes combined(xcvm_lanes so_far, xcvm_lanes v, bool greatest)
{
    return greatest ? xcvm_lanes_keep_nan(xcvm_lanes_max(so_far, v), v) : so_far + v;
}

XCVM_INLINE xcvm_lanes fold_at(const float *const *rows, const size_t n, size_t i, const xcvm_pool_fold f)
{
    xcvm_lanes r = prepared(xcvm_lanes_load(rows[0] + i), f);
    for (size_t row = 1; row < n; row++)
        r = combined(r, prepared(xcvm_lanes_load(rows[row] + i), f), f == XCVM_FOLD_MAX);
    return r;
}

/* to[i] = the fold of rows[.][i], in whole vectors. */
XCVM_INLINE void fold_vectors(const float *const *rows, const size_t n, size_t count, const xcvm_pool_fold f, float *to)
{
    for (size_t i = 0; i < count; i += XCVM_LANES)
        xcvm_lanes_store(to + i, fold_at(rows, n, i, f));
}

XCVM_INLINE void fold_some(const float *const *rows, size_t n, size_t count, const xcvm_pool_fold f, float *to)
{
    if (n == 1)
        fold_vectors(rows, 1, count, f, to);
    else if (n == 2)
        fold_vectors(rows, 2, count, f, to);
    else if (n == 3)
        fold_vectors(rows, 3, count, f, to);
    else if (n == 4)
        fold_vectors(rows, 4, count, f, to);
    else if (n == 5)
        fold_vectors(rows, 5, count, f, to);
    else
        fold_vectors(rows, n, count, f, to);
}

static void fold_rows(const float *const *rows, size_t n, size_t count, xcvm_pool_fold f, float *to)
{
    if (f == XCVM_FOLD_MAX)
        fold_some(rows, n, count, XCVM_FOLD_MAX, to);
    else if (f == XCVM_FOLD_SUM)
        fold_some(rows, n, count, XCVM_FOLD_SUM, to);
    else if (f == XCVM_FOLD_ABSOLUTES)
        fold_vectors(rows, n, count, XCVM_FOLD_ABSOLUTES, to);
    else
        fold_vectors(rows, n, count, XCVM_FOLD_SQUARES, to);
}

/* The same of `count` elements in front of what must not be read: no vector reaches beyond them. */
static void fold_rows_exactly(const float *const *rows, size_t n, size_t count, xcvm_pool_fold f, float *to)
{
    float copies[MOST_ROWS][XCVM_LANES] = {{0}};
    const float *rest[MOST_ROWS];
    const size_t whole = count / XCVM_LANES * XCVM_LANES;
    fold_rows(rows, n, whole, f, to);
    for (size_t row = 0; row < n; row++) {
        for (size_t i = whole; i < count; i++)
            copies[row][i - whole] = rows[row][i];
        rest[row] = copies[row];
    }
    fold_rows(rest, n, count - whole, f, to + whole);
}

/* Image rows that the windows of output row `row`, counted over the first two axes, meet. */
static size_t find_rows(const xcvm_window *w, size_t row, size_t rows[MOST_ROWS])
{
    size_t n = 0;
    const ptrdiff_t top[2] = {(ptrdiff_t)(row / w->out[1] * w->stride[0]) - w->pad[0],
                              (ptrdiff_t)(row % w->out[1] * w->stride[1]) - w->pad[1]};
    for (size_t i = 0; i < w->kernel[0]; i++)
        for (size_t j = 0; j < w->kernel[1]; j++) {
            const ptrdiff_t depth = top[0] + (ptrdiff_t)(i * w->dilation[0]);
            const ptrdiff_t h = top[1] + (ptrdiff_t)(j * w->dilation[1]);
            if (depth >= 0 && depth < (ptrdiff_t)w->in[0] && h >= 0 && h < (ptrdiff_t)w->in[1])
                rows[n++] = (size_t)depth * w->in[1] + (size_t)h;
        }
    return n;
}

static void fill(float *to, size_t count, float value)
{
    for (size_t i = 0; i < count; i += XCVM_LANES)
        xcvm_lanes_store(to + i, xcvm_lanes_all(value));
}

/* The line for windows from column `first` on, which is below 0 in the padding: `reach` columns. */
static void make_line(const work *r, const desk *d, const size_t rows[MOST_ROWS], size_t n, ptrdiff_t first,
                      size_t reach)
{
    const xcvm_window *w = r->window;
    const float blank = r->fold == XCVM_FOLD_MAX ? -INFINITY : 0.0f;
    const ptrdiff_t end =
        first + (ptrdiff_t)reach < (ptrdiff_t)w->in[2] ? first + (ptrdiff_t)reach : (ptrdiff_t)w->in[2];
    const ptrdiff_t begin = first > 0 ? first : 0;
    if (n == 0 || begin >= end) {
        fill(d->line, reach, blank);
        return;
    }
    const size_t left = (size_t)(begin - first), count = (size_t)(end - begin);
    const size_t readable = d->held == d->image ? SIZE_MAX : (r->pooling->planes - d->index) * w->in_size;
    const float *at[MOST_ROWS];
    for (size_t i = 0; i < n; i++)
        at[i] = d->held + rows[i] * w->in[2] + (size_t)begin;
    fill(d->line, left, blank);
    if (rows[n - 1] * w->in[2] + (size_t)begin + xcvm_round_up(count, XCVM_LANES) <= readable)
        fold_rows(at, n, count, r->fold, d->line + left);
    else
        fold_rows_exactly(at, n, count, r->fold, d->line + left);
    fill(d->line + left + count, reach - left - count, blank);
}

/* ---- Along a row ---- */

/* A vector of elements that are `stride` apart. */
XCVM_INLINE xcvm_lanes load_every(const float *from, const size_t stride)
{
    if (stride == 1)
        return xcvm_lanes_load(from);
    if (stride == 2)
        return xcvm_lanes_even(xcvm_lanes_load(from), xcvm_lanes_load(from + XCVM_LANES));
    if (stride == 4)
        return xcvm_lanes_even(load_every(from, 2), load_every(from + 2 * XCVM_LANES, 2));
    float each[XCVM_LANES];
    for (size_t i = 0; i < XCVM_LANES; i++)
        each[i] = from[i * stride];
    return xcvm_lanes_load(each);
}

/* What the results of a row are made with. */
typedef struct slide {
    const float *line, *counts; /* counts: NULL unless means are made */
    float row_count;
    size_t dilation;
} slide;

XCVM_INLINE xcvm_lanes result_at(const slide *s, size_t i, const size_t kernel, const size_t stride,
                                 const bool greatest)
{
    const float *from = s->line + i * stride;
    xcvm_lanes r = load_every(from, stride);
    for (size_t j = 1; j < kernel; j++)
        r = combined(r, load_every(from + j * s->dilation, stride), greatest);
    return s->counts != NULL ? r / (s->row_count * xcvm_lanes_load(s->counts + i)) : r;
}

XCVM_INLINE void slide_along(const slide *s, const size_t kernel, const size_t stride, size_t count,
                             const bool greatest, float *to)
{
    if (count < XCVM_LANES) {
        float few[XCVM_LANES];
        xcvm_lanes_store(few, result_at(s, 0, kernel, stride, greatest));
        xcvm_copy_floats(to, few, count);
        return;
    }
    /* The last vector may overlap the one before. */
    for (size_t i = 0; i < count; i += XCVM_LANES) {
        const size_t at = count - i < XCVM_LANES ? count - XCVM_LANES : i;
        xcvm_lanes_store(to + at, result_at(s, at, kernel, stride, greatest));
    }
}

XCVM_INLINE void slide_some(const slide *s, size_t kernel, const size_t stride, size_t count, const bool greatest,
                            float *to)
{
    if (kernel == 2)
        slide_along(s, 2, stride, count, greatest, to);
    else if (kernel == 3)
        slide_along(s, 3, stride, count, greatest, to);
    else
        slide_along(s, kernel, stride, count, greatest, to);
}

XCVM_INLINE void slide_by(const slide *s, size_t kernel, size_t stride, size_t count, const bool greatest, float *to)
{
    if (stride == 1)
        slide_some(s, kernel, 1, count, greatest, to);
    else if (stride == 2)
        slide_some(s, kernel, 2, count, greatest, to);
    else if (stride == 4)
        slide_along(s, kernel, 4, count, greatest, to);
    else
        slide_along(s, kernel, stride, count, greatest, to);
}

/* ---- Output rows ---- */

/* Results [first, first + count) of output row `row`, counted over the first two axes and images. */
static void pool_part(const work *r, const desk *d, size_t row, const size_t rows[MOST_ROWS], size_t n, float row_count,
                      size_t first, size_t count)
{
    const xcvm_window *w = r->window;
    const xcvm_pooling *p = r->pooling;
    const size_t reach = (count - 1) * w->stride[2] + (w->kernel[2] - 1) * w->dilation[2] + 1;
    const bool direct = p->y->dtype == XCVM_F32;
    const size_t at = row * w->out[2] + first;
    const slide s = {d->line, p->kind == XCVM_POOL_MEAN ? d->counts + first : NULL, row_count, w->dilation[2]};
    float *to = direct ? XCVM_DATA(float, p->y) + at : d->results;
    make_line(r, d, rows, n, (ptrdiff_t)(first * w->stride[2]) - w->pad[2], reach);
    if (r->fold == XCVM_FOLD_MAX)
        slide_by(&s, w->kernel[2], w->stride[2], count, true, to);
    else
        slide_by(&s, w->kernel[2], w->stride[2], count, false, to);
    for (size_t i = 0; i < count && r->fold == XCVM_FOLD_SQUARES; i++)
        to[i] = sqrtf(to[i]);
    if (!direct)
        xcvm_pool_write(p, to, at, count);
}

/* Positions along the first axes that a mean counts. */
static float count_rows(const work *r, size_t row)
{
    const xcvm_pooling *p = r->pooling;
    float count = 1.0f;
    for (int d = p->axes - 2; d >= 0 && p->kind == XCVM_POOL_MEAN; d--) {
        count *= xcvm_pool_counted(p, d, (int64_t)(row % (size_t)p->out[d]));
        row /= (size_t)p->out[d];
    }
    return count;
}

static void pool_output_rows(void *context, size_t begin, size_t end, int worker)
{
    const work *r = context;
    const xcvm_window *w = r->window;
    const xcvm_pooling *p = r->pooling;
    float *memory = r->scratch + (size_t)worker * r->scratch_floats;
    const size_t line = xcvm_round_up(r->reach + SLACK * w->stride[2], XCVM_LANES);
    float *results = memory + line, *counts = results + xcvm_round_up(r->columns, XCVM_LANES);
    desk d = {memory, counts, results, counts + r->counted, NULL, SIZE_MAX};
    const size_t each = w->out[0] * w->out[1];
    /* Vectors reach over what is given a value. */
    for (size_t i = 0; i < line; i++)
        d.line[i] = 0.0f;
    for (size_t i = 0; i < r->counted; i++)
        d.counts[i] = i < w->out[2] ? xcvm_pool_counted(p, p->axes - 1, (int64_t)i) : 1.0f;
    xcvm_poller poller = xcvm_poller_of(r->k);
    for (size_t row = begin; row < end; row++) {
        size_t rows[MOST_ROWS];
        if (row / each != d.index) {
            d.index = row / each;
            if (xcvm_poll_after(&poller, w->in_size / XCVM_LANES) != XCVM_OK)
                return;
            d.held = xcvm_pool_image(p, d.index, d.image);
        }
        const size_t n = find_rows(w, row % each, rows);
        const float row_count = count_rows(r, row % each);
        for (size_t first = 0; first < w->out[2]; first += r->columns) {
            const size_t count = w->out[2] - first < r->columns ? w->out[2] - first : r->columns;
            if (xcvm_poll_after(&poller, 1 + r->reach * (n + 1) / XCVM_LANES +
                                             count * w->kernel[2] / (w->stride[2] <= 4 ? XCVM_LANES : 1)) != XCVM_OK)
                return;
            pool_part(r, &d, row, rows, n, row_count, first, count);
        }
    }
}

xcvm_status xcvm_pool_rows(xcvm_kernel *k, const xcvm_pooling *p, const xcvm_window *w, xcvm_pool_fold fold)
{
    work r = {.k = k, .pooling = p, .window = w, .fold = fold};
    r.columns = w->out[2] < COLUMNS ? w->out[2] : COLUMNS;
    r.reach = (r.columns - 1) * w->stride[2] + (w->kernel[2] - 1) * w->dilation[2] + 1;
    r.counted = p->kind == XCVM_POOL_MEAN ? xcvm_round_up(w->out[2], XCVM_LANES) + XCVM_LANES : 0;
    r.scratch_floats =
        xcvm_round_up(r.reach + SLACK * w->stride[2], XCVM_LANES) + xcvm_round_up(r.columns, XCVM_LANES) + r.counted;
    size_t bytes;
    XCVM_CHECK(
        k->error,
        (p->x->dtype == XCVM_F32 ||
         xcvm_size_add(r.scratch_floats, xcvm_round_up(w->in_size, XCVM_LANES) + XCVM_LANES, &r.scratch_floats)) &&
            xcvm_size_mul(r.scratch_floats, sizeof(float), &bytes) &&
            xcvm_size_mul(bytes, (size_t)xcvm_threads_count(k->threads), &bytes),
        OUT_OF_MEMORY, "the images are too large");
    r.scratch = xcvm_kernel_scratch(k, bytes);
    if (r.scratch == NULL)
        return XCVM_OUT_OF_MEMORY;
    const size_t each = w->out[2] + r.reach * w->kernel[0] * w->kernel[1] + w->out[2] * w->kernel[2];
    xcvm_parallel(k->threads, p->planes * w->out[0] * w->out[1], 1 + THREAD_WORK / each, pool_output_rows, &r);
    return xcvm_kernel_poll(k);
}
