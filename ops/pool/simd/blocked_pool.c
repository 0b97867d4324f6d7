/* Pooling of tensors with blocked channels: one vector of channels at a time, windows over the axes before the blocks.
 */
#include "ops/conv/simd/blocked_conv.h"
#include "ops/util/grain.h"
#include "ops/pool/simd/blocked_pool.h"

#include <math.h>

enum { THREAD_WORK = 50 * 1000, BLOCK = XCVM_CHANNEL_BLOCK };

typedef struct blocked_pool_loop {
    const xcvm_kernel *k;
    const xcvm_pooling *p;
    int rows, columns; /* axis indices; the axis before rows is slices, or none */
    size_t slices;     /* of the result */
    size_t plane;      /* floats of an input slice of a block */
} blocked_pool_loop;

bool xcvm_blocked_pool_fits(const xcvm_pooling *p)
{
    const int last = p->axes - 1;
    return (last == 2 || last == 3) && p->x->dtype == XCVM_F32 && p->in[last] == BLOCK && p->kernel[last] == 1 &&
           p->strides[last] == 1 && p->pads[last] == 0 && p->pads[p->axes + last] == 0 && p->kind != XCVM_POOL_NORM;
}

/* Window positions of an output position that are inside the image. */
typedef struct span {
    int64_t begin, count; /* index of the first in the image; number of positions */
    int64_t counted;      /* positions in the image or its padding */
} span;

static span clip(const xcvm_pooling *p, int axis, int64_t o)
{
    const int64_t step = p->dilations[axis], in = p->in[axis], padded = in + p->pads[axis + p->axes];
    const int64_t start = o * p->strides[axis] - p->pads[axis];
    const int64_t first = start < 0 ? (step - 1 - start) / step : 0;
    const int64_t end = in > start ? (in - start + step - 1) / step : 0;
    const int64_t inside = padded > start ? (padded - start + step - 1) / step : 0;
    const int64_t last = end < p->kernel[axis] ? end : p->kernel[axis];
    return (span){.begin = start + first * step,
                  .count = last > first ? last - first : 0,
                  .counted = inside < p->kernel[axis] ? inside : p->kernel[axis]};
}

typedef struct box {
    int64_t slices, rows, columns;
    ptrdiff_t slice, row, column; /* distances in floats */
} box;

/* Computes one vector of a result: the reduction of all vectors of a box. */
XCVM_INLINE xcvm_lanes reduce_window(const float *x, const box *w, const int64_t rows, const int64_t columns,
                                     const bool greatest)
{
    xcvm_lanes result = xcvm_lanes_all(greatest ? -INFINITY : 0.0f);
    for (int64_t slice = 0; slice < w->slices; slice++, x += w->slice)
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < columns; j++) {
                const xcvm_lanes v = xcvm_lanes_load(x + i * w->row + j * w->column);
                result = greatest ? xcvm_lanes_keep_nan(xcvm_lanes_max(result, v), v) : result + v;
            }
    return result;
}

/* Computes row o of slice `depth` of the result; x is the first slice. */
XCVM_INLINE void pool_row(const blocked_pool_loop *r, const float *x, int64_t depth, int64_t o, float *y,
                          const bool greatest)
{
    const xcvm_pooling *p = r->p;
    const span slices = r->rows > 0 ? clip(p, 0, depth) : (span){0, 1, 1}, rows = clip(p, r->rows, o);
    const ptrdiff_t width = (ptrdiff_t)p->in[r->columns] * BLOCK;
    box w = {.slices = slices.count,
             .rows = rows.count,
             .slice = (ptrdiff_t)r->plane * (r->rows > 0 ? (ptrdiff_t)p->dilations[0] : 1),
             .row = (ptrdiff_t)p->dilations[r->rows] * width,
             .column = (ptrdiff_t)p->dilations[r->columns] * BLOCK};
    /* Counting the steps of each window costs 5 % with small windows; only long rows need it. */
    const double steps = (double)p->out[r->columns] * (double)p->kernel[r->columns];
    const bool is_long = steps * (double)(slices.count * rows.count) > XCVM_POLL_STEPS;
    xcvm_poller poller = xcvm_poller_of(r->k);
    for (int64_t i = 0; i < p->out[r->columns]; i++) {
        const span columns = clip(p, r->columns, i);
        const int64_t inside = slices.count * rows.count * columns.count;
        if (is_long && xcvm_poll_after(&poller, (size_t)inside) != XCVM_OK)
            return;
        int64_t counted = slices.counted * rows.counted * columns.counted;
        w.columns = columns.count;
        if (!p->count_pads)
            counted = inside > 0 ? inside : 1;
        const int64_t at = slices.begin * (int64_t)r->plane + rows.begin * width + columns.begin * BLOCK;
        for (int j = 0; j < XCVM_BLOCK_VECTORS; j++) {
            xcvm_lanes v = xcvm_lanes_all(greatest ? -INFINITY : 0.0f);
            if (inside > 0 && w.rows == 3 && w.columns == 3)
                v = reduce_window(x + at + j * XCVM_LANES, &w, 3, 3, greatest);
            else if (inside > 0)
                v = reduce_window(x + at + j * XCVM_LANES, &w, w.rows, w.columns, greatest);
            if (!greatest)
                v /= xcvm_lanes_all((float)counted);
            xcvm_lanes_store(y + i * BLOCK + j * XCVM_LANES, v);
        }
    }
}

/* The range is over rows of results. */
static void pool_range(void *context, size_t begin, size_t end, int worker)
{
    const blocked_pool_loop *r = context;
    const xcvm_pooling *p = r->p;
    const size_t rows = (size_t)p->out[r->rows], in_slices = r->rows > 0 ? (size_t)p->in[0] : 1;
    (void)worker;
    for (size_t i = begin; i < end; i++) {
        const size_t slice = i / rows;
        const float *x = XCVM_CDATA(float, p->x) + slice / r->slices * in_slices * r->plane;
        float *y = XCVM_DATA(float, p->y) + i * (size_t)p->out[r->columns] * BLOCK;
        const int64_t depth = (int64_t)(slice % r->slices), row = (int64_t)(i % rows);
        if (p->kind == XCVM_POOL_MAX)
            pool_row(r, x, depth, row, y, true);
        else
            pool_row(r, x, depth, row, y, false);
    }
}

xcvm_status xcvm_blocked_pool(const xcvm_kernel *k, const xcvm_pooling *p)
{
    blocked_pool_loop r = {.k = k, .p = p, .rows = p->axes - 3, .columns = p->axes - 2};
    r.slices = r.rows > 0 ? (size_t)p->out[0] : 1;
    r.plane = (size_t)p->in[r.rows] * (size_t)p->in[r.columns] * BLOCK;
    const double row = (double)p->out[r.columns] * (double)p->kernel_size * BLOCK;
    return xcvm_kernel_parallel(k, p->planes * r.slices * (size_t)p->out[r.rows], xcvm_grain(THREAD_WORK, row),
                                pool_range, &r);
}
