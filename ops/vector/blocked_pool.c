/* Pooling of tensors with blocked channels: a vector of channels at a time, windows over the axes before the blocks. */
#include "ops/vector/blocked_conv.h"
#include "ops/vector/blocked_pool.h"

#include <math.h>

enum { THREAD_WORK = 50 * 1000, SPATIAL = 2 };

typedef struct work {
    const xcvm_pooling *p;
    size_t size; /* floats of an input plane of blocks */
} work;

bool xcvm_blocked_pool_fits(const xcvm_pooling *p)
{
    return p->axes == SPATIAL + 1 && p->x->dtype == XCVM_F32 && p->in[SPATIAL] == XCVM_CHANNEL_BLOCK &&
           p->kernel[SPATIAL] == 1 && p->strides[SPATIAL] == 1 && p->pads[SPATIAL] == 0 &&
           p->pads[2 * SPATIAL + 1] == 0 && p->kind != XCVM_POOL_NORM;
}

/* The window positions [*first, *last) of an output position that lie in the image, *start being where it begins.
 * Returns how many lie in it or in its padding. */
static int64_t clip(const xcvm_pooling *p, int axis, int64_t o, int64_t *start, int64_t *first, int64_t *last)
{
    const int64_t step = p->dilations[axis], in = p->in[axis], padded = in + p->pads[axis + SPATIAL + 1];
    *start = o * p->strides[axis] - p->pads[axis];
    *first = *start < 0 ? (step - 1 - *start) / step : 0;
    int64_t end = in > *start ? (in - *start + step - 1) / step : 0;
    int64_t inside = padded > *start ? (padded - *start + step - 1) / step : 0;
    *last = end < p->kernel[axis] ? end : p->kernel[axis];
    *first = *first < *last ? *first : *last;
    return inside < p->kernel[axis] ? inside : p->kernel[axis];
}

/* One vector of a result: the fold of `rows` x `columns` vectors. */
XCVM_INLINE xcvm_lanes fold_window(const float *x, int64_t rows, int64_t columns, ptrdiff_t row, ptrdiff_t column,
                                   const bool greatest)
{
    xcvm_lanes result = xcvm_lanes_all(greatest ? -INFINITY : 0.0f);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) {
            const xcvm_lanes v = xcvm_lanes_load(x + i * row + j * column);
            result = greatest ? xcvm_lanes_keep_nan(xcvm_lanes_max(result, v), v) : result + v;
        }
    return result;
}

XCVM_INLINE void pool_row(const xcvm_pooling *p, const float *plane, int64_t o, float *y, const bool greatest)
{
    int64_t top, first_row, last_row, rows_counted = clip(p, 0, o, &top, &first_row, &last_row);
    const ptrdiff_t width = (ptrdiff_t)p->in[1] * XCVM_CHANNEL_BLOCK;
    const ptrdiff_t row = (ptrdiff_t)p->dilations[0] * width, column = (ptrdiff_t)p->dilations[1] * XCVM_CHANNEL_BLOCK;
    const int64_t rows = last_row - first_row;
    const float *band = plane + (ptrdiff_t)(top + first_row * p->dilations[0]) * width;
    for (int64_t i = 0; i < p->out[1]; i++) {
        int64_t left, first, last, counted = rows_counted * clip(p, 1, i, &left, &first, &last);
        const int64_t columns = last - first, inside = rows * columns;
        const float *x = band + (ptrdiff_t)(left + first * p->dilations[1]) * XCVM_CHANNEL_BLOCK;
        if (!p->count_pads)
            counted = inside > 0 ? inside : 1;
        for (int j = 0; j < XCVM_BLOCK_VECTORS; j++) {
            xcvm_lanes v = xcvm_lanes_all(greatest ? -INFINITY : 0.0f);
            if (inside == 9 && columns == 3)
                v = fold_window(x + j * XCVM_LANES, 3, 3, row, column, greatest);
            else if (inside > 0)
                v = fold_window(x + j * XCVM_LANES, rows, columns, row, column, greatest);
            if (!greatest)
                v /= xcvm_lanes_all((float)counted);
            xcvm_lanes_store(y + i * XCVM_CHANNEL_BLOCK + j * XCVM_LANES, v);
        }
    }
}

/* The range is over rows of results. */
static void pool_range(void *context, size_t begin, size_t end, int worker)
{
    const work *r = context;
    const xcvm_pooling *p = r->p;
    (void)worker;
    for (size_t i = begin; i < end; i++) {
        const float *plane = XCVM_CDATA(float, p->x) + i / (size_t)p->out[0] * r->size;
        float *y = XCVM_DATA(float, p->y) + i * (size_t)p->out[1] * XCVM_CHANNEL_BLOCK;
        if (p->kind == XCVM_POOL_MAX)
            pool_row(p, plane, (int64_t)(i % (size_t)p->out[0]), y, true);
        else
            pool_row(p, plane, (int64_t)(i % (size_t)p->out[0]), y, false);
    }
}

void xcvm_blocked_pool(const xcvm_kernel *k, const xcvm_pooling *p)
{
    work r = {.p = p, .size = (size_t)p->in[0] * (size_t)p->in[1] * XCVM_CHANNEL_BLOCK};
    const double row = (double)p->out[1] * (double)p->kernel_size * XCVM_CHANNEL_BLOCK;
    xcvm_parallel(k->threads, p->planes * (size_t)p->out[0], (size_t)(THREAD_WORK / row) + 1, pool_range, &r);
}
