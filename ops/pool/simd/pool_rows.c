/* Pooling row by row: the input rows of an output row's windows are reduced to one padded row, which is then reduced
 * along the windows. Both steps use whole vectors at any width. */
#include "ops/pool/simd/pool_rows.h"
#include "ops/conv/simd/conv.h"

#include <math.h>

enum {
    THREAD_WORK = 20 * 1000, /* minimum steps per range */
    MOST_ROWS = 9,           /* maximum window rows; for more, reduction axis by axis is faster */
    MOST_ROWS_OF_MAXIMA = 5,
    MOST_REACH = 8192, /* maximum extent of a window along a row */
    MOST_STRIDE = 16,
    LINES = 4096,          /* floats of the lines computed together */
    COLUMNS = 1024,        /* results computed together */
    SLACK = 4 * XCVM_LANES /* floats that vectors may read past the end */
};

typedef struct pool_rows_loop {
    const xcvm_kernel *k;
    const xcvm_pooling *pooling;
    const xcvm_window *window;
    xcvm_pool_reduce_op reduce_op;
    size_t columns, reach;      /* results at a time; elements that their windows cover */
    size_t rows, pitch;         /* lines at a time; floats between them */
    float *counts, *row_counts; /* element counts of means along a row and across rows; NULL unless for means */
    float *scratch;
    size_t scratch_floats; /* of a worker */
} pool_rows_loop;

/* Memory of one worker. */
typedef struct desk {
    float *line;    /* reduced rows with padding */
    float *results; /* for types other than f32 */
    float *image;   /* the image as f32 */
    const float *held;
    size_t index; /* index of the image in `held` */
} desk;

bool xcvm_pool_rows_fit(const xcvm_window *w, xcvm_pool_reduce_op reduce_op)
{
    const size_t rows = reduce_op == XCVM_REDUCE_MAX ? MOST_ROWS_OF_MAXIMA : MOST_ROWS;
    return w->kernel[0] <= rows && w->kernel[1] <= rows && w->kernel[0] * w->kernel[1] <= rows &&
           w->kernel[2] <= MOST_REACH && w->dilation[2] <= MOST_REACH &&
           (w->kernel[2] - 1) * w->dilation[2] <= MOST_REACH && w->stride[2] <= MOST_STRIDE;
}

/* ---- Across rows ---- */

XCVM_INLINE xcvm_lanes prepared(xcvm_lanes v, xcvm_pool_reduce_op f)
{
    return f == XCVM_REDUCE_ABSOLUTES ? xcvm_lanes_max(v, -v) : f == XCVM_REDUCE_SQUARES ? v * v : v;
}

XCVM_INLINE xcvm_lanes combined(xcvm_lanes so_far, xcvm_lanes v, bool greatest)
{
    return greatest ? xcvm_lanes_keep_nan(xcvm_lanes_max(so_far, v), v) : so_far + v;
}

XCVM_INLINE xcvm_lanes fold_next(xcvm_lanes so_far, const float *row, size_t i, const xcvm_pool_reduce_op f)
{
    return combined(so_far, prepared(xcvm_lanes_load(row + i), f), f == XCVM_REDUCE_MAX);
}

/* to[i] = the reduction of rows[.][i], in whole vectors. */
XCVM_INLINE void fold_vectors(const float *const *rows, const size_t n, size_t count, const xcvm_pool_reduce_op f,
                              float *to)
{
    const float *a = rows[0], *b = n > 1 ? rows[1] : a, *c = n > 2 ? rows[2] : a, *d = n > 3 ? rows[3] : a;
    for (size_t i = 0; i < count; i += XCVM_LANES) {
        xcvm_lanes r = prepared(xcvm_lanes_load(a + i), f);
        r = n > 1 ? fold_next(r, b, i, f) : r;
        r = n > 2 ? fold_next(r, c, i, f) : r;
        r = n > 3 ? fold_next(r, d, i, f) : r;
        for (size_t row = 4; row < n; row++)
            r = fold_next(r, rows[row], i, f);
        xcvm_lanes_store(to + i, r);
    }
}

XCVM_INLINE void reduce_some(const float *const *rows, size_t n, size_t count, const xcvm_pool_reduce_op f, float *to)
{
    if (n == 1)
        fold_vectors(rows, 1, count, f, to);
    else if (n == 2)
        fold_vectors(rows, 2, count, f, to);
    else if (n == 3)
        fold_vectors(rows, 3, count, f, to);
    else if (n == 4)
        fold_vectors(rows, 4, count, f, to);
    else
        fold_vectors(rows, n, count, f, to);
}

static void reduce_rows(const float *const *rows, size_t n, size_t count, xcvm_pool_reduce_op f, float *to)
{
    if (f == XCVM_REDUCE_MAX)
        reduce_some(rows, n, count, XCVM_REDUCE_MAX, to);
    else if (f == XCVM_REDUCE_SUM)
        reduce_some(rows, n, count, XCVM_REDUCE_SUM, to);
    else if (f == XCVM_REDUCE_ABSOLUTES)
        reduce_some(rows, n, count, XCVM_REDUCE_ABSOLUTES, to);
    else
        reduce_some(rows, n, count, XCVM_REDUCE_SQUARES, to);
}

/* The same for `count` elements followed by memory that must not be read. */
static void fold_rows_exactly(const float *const *rows, size_t n, size_t count, xcvm_pool_reduce_op f, float *to)
{
    float copies[MOST_ROWS][XCVM_LANES] = {{0}};
    const float *rest[MOST_ROWS];
    const size_t whole = count / XCVM_LANES * XCVM_LANES;
    reduce_rows(rows, n, whole, f, to);
    for (size_t row = 0; row < n; row++) {
        for (size_t i = whole; i < count; i++)
            copies[row][i - whole] = rows[row][i];
        rest[row] = copies[row];
    }
    reduce_rows(rest, n, count - whole, f, to + whole);
}

/* Position of an output row; `index` counts rows over the first two axes. */
typedef struct row_position {
    size_t index, depth, height;
} row_position;

static void advance(const xcvm_window *w, row_position *at)
{
    at->index++;
    if (++at->height == w->out[1]) {
        at->height = 0;
        at->depth++;
    }
}

/* Lists column `begin` of the image rows that the windows of an output row use, in ascending order. */
static size_t find_rows(const xcvm_window *w, const row_position *at, const float *image, size_t begin,
                        const float *rows[MOST_ROWS])
{
    size_t n = 0;
    ptrdiff_t depth = (ptrdiff_t)(at->depth * w->stride[0]) - w->pad[0];
    const ptrdiff_t top = (ptrdiff_t)(at->height * w->stride[1]) - w->pad[1];
    for (size_t i = 0; i < w->kernel[0]; i++, depth += (ptrdiff_t)w->dilation[0]) {
        if (depth < 0 || depth >= (ptrdiff_t)w->in[0])
            continue;
        const float *slice = image + (size_t)depth * w->in[1] * w->in[2] + begin;
        ptrdiff_t h = top;
        for (size_t j = 0; j < w->kernel[1]; j++, h += (ptrdiff_t)w->dilation[1])
            if (h >= 0 && h < (ptrdiff_t)w->in[1])
                rows[n++] = slice + (size_t)h * w->in[2];
    }
    return n;
}

static void fill(float *to, size_t count, float value)
{
    for (size_t i = 0; i < count; i += XCVM_LANES)
        xcvm_lanes_store(to + i, xcvm_lanes_all(value));
}

/* Makes the line of `reach` columns for windows from column `first`, which is negative in the padding. */
static void make_line(const pool_rows_loop *r, const desk *d, const row_position *where, ptrdiff_t first, size_t reach,
                      float *line)
{
    const xcvm_window *w = r->window;
    const float blank = r->reduce_op == XCVM_REDUCE_MAX ? -INFINITY : 0.0f;
    const ptrdiff_t end =
        first + (ptrdiff_t)reach < (ptrdiff_t)w->in[2] ? first + (ptrdiff_t)reach : (ptrdiff_t)w->in[2];
    const ptrdiff_t begin = first > 0 ? first : 0;
    const float *rows[MOST_ROWS];
    const size_t n = begin < end ? find_rows(w, where, d->held, (size_t)begin, rows) : 0;
    if (n == 0) {
        fill(line, reach, blank);
        return;
    }
    const size_t left = (size_t)(begin - first), count = (size_t)(end - begin);
    const size_t readable = d->held == d->image ? SIZE_MAX : (r->pooling->planes - d->index) * w->in_size;
    fill(line, left, blank);
    if ((size_t)(rows[n - 1] - d->held) + xcvm_round_up(count, XCVM_LANES) <= readable)
        reduce_rows(rows, n, count, r->reduce_op, line + left);
    else
        fold_rows_exactly(rows, n, count, r->reduce_op, line + left);
    fill(line + left + count, reach - left - count, blank);
}

/* ---- Along a row ---- */

/* Loads a vector of elements with distance `stride`. */
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

/* Inputs for the results of a row. */
typedef struct slide {
    const float *line, *counts; /* counts: NULL unless for means */
    float row_count;
    size_t dilation;
} slide;

/* `close`: stride 2 and dilation 1, where two elements are in the same vectors. */
XCVM_INLINE xcvm_lanes result_at(const slide *s, size_t i, const size_t kernel, const size_t stride, const bool close,
                                 const bool greatest)
{
    const float *from = s->line + i * stride;
    xcvm_lanes r = load_every(from, stride);
    for (size_t j = 1; j < kernel; j++) {
        const float *at = close ? from + j / 2 * 2 : from + j * s->dilation;
        const bool second = close && j % 2 == 1;
        r = combined(
            r, second ? xcvm_lanes_odd(xcvm_lanes_load(at), xcvm_lanes_load(at + XCVM_LANES)) : load_every(at, stride),
            greatest);
    }
    return s->counts != NULL ? r / (s->row_count * xcvm_lanes_load(s->counts + i)) : r;
}

XCVM_INLINE void slide_along(const slide *s, const size_t kernel, const size_t stride, const bool close, size_t count,
                             const bool greatest, float *to)
{
    if (count < XCVM_LANES) {
        float few[XCVM_LANES];
        xcvm_lanes_store(few, result_at(s, 0, kernel, stride, close, greatest));
        xcvm_copy_floats(to, few, count);
        return;
    }
    /* The last vector may overlap the previous one. */
    for (size_t i = 0; i < count; i += XCVM_LANES) {
        const size_t at = count - i < XCVM_LANES ? count - XCVM_LANES : i;
        xcvm_lanes_store(to + at, result_at(s, at, kernel, stride, close, greatest));
    }
}

XCVM_INLINE void slide_some(const slide *s, size_t kernel, const size_t stride, const bool close, size_t count,
                            const bool greatest, float *to)
{
    if (kernel == 2)
        slide_along(s, 2, stride, close, count, greatest, to);
    else if (kernel == 3)
        slide_along(s, 3, stride, close, count, greatest, to);
    else
        slide_along(s, kernel, stride, close, count, greatest, to);
}

XCVM_INLINE void slide_by(const slide *s, size_t kernel, size_t stride, size_t count, const bool greatest, float *to)
{
    if (stride == 1)
        slide_some(s, kernel, 1, false, count, greatest, to);
    else if (stride == 2 && s->dilation == 1)
        slide_some(s, kernel, 2, true, count, greatest, to);
    else if (stride == 2)
        slide_along(s, kernel, 2, false, count, greatest, to);
    else if (stride == 4)
        slide_along(s, kernel, 4, false, count, greatest, to);
    else
        slide_along(s, kernel, stride, false, count, greatest, to);
}

/* ---- Output rows ---- */

/* Final operations on results for y from element `at`. */
static void finish(const pool_rows_loop *r, float *results, size_t at, size_t count)
{
    for (size_t i = 0; i < count && r->reduce_op == XCVM_REDUCE_SQUARES; i++)
        results[i] = sqrtf(results[i]);
    if (r->pooling->y->dtype != XCVM_F32)
        xcvm_pool_write(r->pooling, results, at, count);
}

/* Computes results [first, first + count) of `rows` output rows from *where. All lines are computed first, so that no
 * vector of a line is read right after it was written. */
static void pool_part(const pool_rows_loop *r, const desk *d, const row_position *where, size_t rows, size_t first,
                      size_t count)
{
    const xcvm_window *w = r->window;
    const xcvm_pooling *p = r->pooling;
    const size_t reach = (count - 1) * w->stride[2] + (w->kernel[2] - 1) * w->dilation[2] + 1;
    const bool direct = p->y->dtype == XCVM_F32;
    slide s = {d->line, r->counts != NULL ? r->counts + first : NULL, 1.0f, w->dilation[2]};
    row_position at = *where;
    for (size_t i = 0; i < rows; i++, advance(w, &at))
        make_line(r, d, &at, (ptrdiff_t)(first * w->stride[2]) - w->pad[2], reach, d->line + i * r->pitch);
    at = *where;
    for (size_t i = 0; i < rows; i++, advance(w, &at), s.line += r->pitch) {
        const size_t place_of_y = d->index * w->out_size + at.index * w->out[2] + first;
        float *to = direct ? XCVM_DATA(float, p->y) + place_of_y : d->results + i * count;
        if (s.counts != NULL)
            s.row_count = r->row_counts[at.height] * (p->axes > 2 ? xcvm_pool_counted(p, 0, (int64_t)at.depth) : 1.0f);
        if (r->reduce_op == XCVM_REDUCE_MAX)
            slide_by(&s, w->kernel[2], w->stride[2], count, true, to);
        else
            slide_by(&s, w->kernel[2], w->stride[2], count, false, to);
        if (count != w->out[2])
            finish(r, to, place_of_y, count);
    }
    /* Whole rows are contiguous. */
    if (count == w->out[2]) {
        const size_t place_of_y = d->index * w->out_size + where->index * count;
        finish(r, direct ? XCVM_DATA(float, p->y) + place_of_y : d->results, place_of_y, rows * count);
    }
}

static desk desk_of(const pool_rows_loop *r, int worker)
{
    desk d = {.line = r->scratch + (size_t)worker * r->scratch_floats, .index = SIZE_MAX};
    d.results = d.line + r->rows * r->pitch;
    d.image = d.results + xcvm_round_up(r->rows * r->columns, XCVM_LANES);
    /* Vectors read past the values that are set. */
    for (size_t i = 0; i < r->rows * r->pitch; i++)
        d.line[i] = 0.0f;
    return d;
}

static void pool_output_rows(void *context, size_t begin, size_t end, int worker)
{
    const pool_rows_loop *r = context;
    const xcvm_window *w = r->window;
    desk d = desk_of(r, worker);
    const size_t each = w->out[0] * w->out[1];
    xcvm_poller poller = xcvm_poller_of(r->k);
    const size_t steps = 1 + r->reach * (w->kernel[0] * w->kernel[1] + 1) / XCVM_LANES +
                         r->columns * w->kernel[2] / (w->stride[2] <= 4 ? XCVM_LANES : 1);
    for (size_t row = begin, rows; row < end; row += rows) {
        const row_position at = {row % each, row % each / w->out[1], row % w->out[1]};
        rows = xcvm_min(xcvm_min(end - row, each - at.index), r->rows);
        if (row / each != d.index) {
            d.index = row / each;
            if (xcvm_poll_after(&poller, w->in_size / XCVM_LANES) != XCVM_OK)
                return;
            d.held = xcvm_pool_image(r->pooling, d.index, d.image);
        }
        for (size_t first = 0; first < w->out[2]; first += r->columns) {
            if (xcvm_poll_after(&poller, rows * steps) != XCVM_OK)
                return;
            pool_part(r, &d, &at, rows, first, xcvm_min(w->out[2] - first, r->columns));
        }
    }
}

/* Floats for the element counts of a mean on axis `axis`, including what vectors read past the end. */
static size_t counted_floats(const pool_rows_loop *r, int axis)
{
    return r->pooling->kind == XCVM_POOL_MEAN ? xcvm_round_up(r->window->out[axis], XCVM_LANES) + XCVM_LANES : 0;
}

/* The same for all workers, from `counts`. */
static xcvm_status find_counts(pool_rows_loop *r, float *counts)
{
    const xcvm_pooling *p = r->pooling;
    const size_t along = counted_floats(r, 2), across = counted_floats(r, 1);
    xcvm_poller poller = xcvm_poller_of(r->k);
    if (along == 0)
        return XCVM_OK;
    r->counts = counts;
    r->row_counts = counts + along;
    for (size_t i = 0; i < along; i++) {
        XCVM_TRY(xcvm_poll_after(&poller, 1));
        r->counts[i] = i < r->window->out[2] ? xcvm_pool_counted(p, p->axes - 1, (int64_t)i) : 1.0f;
    }
    for (size_t i = 0; i < across; i++) {
        XCVM_TRY(xcvm_poll_after(&poller, 1));
        r->row_counts[i] = p->axes > 1 && i < r->window->out[1] ? xcvm_pool_counted(p, p->axes - 2, (int64_t)i) : 1.0f;
    }
    return XCVM_OK;
}

xcvm_status xcvm_pool_rows(xcvm_kernel *k, const xcvm_pooling *p, const xcvm_window *w, xcvm_pool_reduce_op reduce_op)
{
    pool_rows_loop r = {.k = k, .pooling = p, .window = w, .reduce_op = reduce_op};
    r.columns = w->out[2] < COLUMNS ? w->out[2] : COLUMNS;
    r.reach = (r.columns - 1) * w->stride[2] + (w->kernel[2] - 1) * w->dilation[2] + 1;
    r.pitch = xcvm_round_up(r.reach + SLACK * w->stride[2], XCVM_LANES);
    r.rows = xcvm_min(1 + LINES / r.pitch, w->out[1]);
    r.scratch_floats = r.rows * r.pitch + xcvm_round_up(r.rows * r.columns, XCVM_LANES);
    const size_t counted = counted_floats(&r, 1) + counted_floats(&r, 2);
    size_t bytes;
    XCVM_CHECK(
        k->error,
        (p->x->dtype == XCVM_F32 ||
         xcvm_size_add(r.scratch_floats, xcvm_round_up(w->in_size, XCVM_LANES) + XCVM_LANES, &r.scratch_floats)) &&
            xcvm_size_mul(r.scratch_floats, (size_t)xcvm_threads_count(k->threads), &bytes) &&
            xcvm_size_add(bytes, counted, &bytes) && xcvm_size_mul(bytes, sizeof(float), &bytes),
        OUT_OF_MEMORY, "the images are too large");
    float *counts = xcvm_kernel_scratch(k, bytes);
    if (counts == NULL)
        return XCVM_OUT_OF_MEMORY;
    r.scratch = counts + counted;
    XCVM_TRY(find_counts(&r, counts));
    const size_t each = w->out[2] + r.reach * w->kernel[0] * w->kernel[1] + w->out[2] * w->kernel[2];
    xcvm_parallel(k->threads, p->planes * w->out[0] * w->out[1], 1 + THREAD_WORK / each, pool_output_rows, &r);
    return xcvm_kernel_poll(k);
}
