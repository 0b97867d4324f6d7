/* Separable pooling, axis by axis: the reduction of a window is the reduction of its rows' reductions, for any number
 * of axes and window size. */
#include "ops/util/grain.h"
#include "ops/pool/simd/pool_axes.h"
#include "ops/conv/simd/conv.h"
#include "ops/simd/halves.h"
#include "ops/simd/lanes.h"

#include <math.h>

enum {
    THREAD_WORK = 50 * 1000,
    COUNTS = 256,
    PADDED = 4096,        /* maximum elements of a padded row that are copied */
    MOST_FOLDED = 1 << 20 /* elements between polls */
};

typedef struct pool_axes_loop {
    const xcvm_kernel *k;
    const xcvm_pooling *pooling;
    const xcvm_window *window;
    xcvm_pool_reduce_op reduce_op;
    float *scratch;
    size_t stage;    /* floats of the largest stage of an image, in whole vectors */
    uint32_t status; /* atomic */
} pool_axes_loop;

const float *xcvm_pool_image(const xcvm_pooling *p, size_t index, float *copy)
{
    const xcvm_value *x = p->x;
    const size_t count = p->in_plane, at = index * count;
    switch ((xcvm_dtype)x->dtype) {
    case XCVM_F32:
        return XCVM_CDATA(float, x) + at;
    case XCVM_U8:
        for (size_t i = 0; i < count; i++)
            copy[i] = XCVM_CDATA(uint8_t, x)[at + i];
        break;
    case XCVM_I8:
        for (size_t i = 0; i < count; i++)
            copy[i] = XCVM_CDATA(int8_t, x)[at + i];
        break;
    default:
        xcvm_halves_load((xcvm_dtype)x->dtype, x->data, at, count, copy);
        break;
    }
    return copy;
}

/* The maximum of an empty window is minus infinity, which becomes the lowest byte. */
static float at_least(float x, float low) { return x < low ? low : x; }

void xcvm_pool_write(const xcvm_pooling *p, const float *results, size_t at, size_t count)
{
    xcvm_value *y = p->y;
    switch ((xcvm_dtype)y->dtype) {
    case XCVM_F32:
        xcvm_copy_floats(XCVM_DATA(float, y) + at, results, count);
        break;
    case XCVM_U8:
        for (size_t i = 0; i < count; i++)
            XCVM_DATA(uint8_t, y)[at + i] = (uint8_t)at_least(results[i], 0.0f);
        break;
    case XCVM_I8:
        for (size_t i = 0; i < count; i++)
            XCVM_DATA(int8_t, y)[at + i] = (int8_t)at_least(results[i], -128.0f);
        break;
    default:
        xcvm_halves_store((xcvm_dtype)y->dtype, y->data, at, count, results);
        break;
    }
}

XCVM_INLINE xcvm_lanes combine(xcvm_lanes so_far, xcvm_lanes x, bool greatest)
{
    return greatest ? xcvm_lanes_keep_nan(xcvm_lanes_max(so_far, x), x) : so_far + x;
}

/* Loads a vector of elements with distance `step`, 1 or 2. Does not read past the last one. */
XCVM_INLINE xcvm_lanes load_every(const float *from, const size_t step)
{
    if (step == 1)
        return xcvm_lanes_load(from);
    const xcvm_lanes a = xcvm_lanes_load(from), b = xcvm_lanes_load(from + XCVM_LANES - 1);
#if XCVM_LANES == 16
    return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 17, 19, 21, 23, 25, 27, 29, 31);
#elif XCVM_LANES == 8
    return __builtin_shufflevector(a, b, 0, 2, 4, 6, 9, 11, 13, 15);
#else
    return __builtin_shufflevector(a, b, 0, 2, 5, 7);
#endif
}

XCVM_INLINE float combine_one(float so_far, float x, bool greatest)
{
    return !greatest ? so_far + x : x > so_far || x != x ? x : so_far;
}

/* to[i] = the reduction of from[i * step + j * apart] over j < n. */
XCVM_INLINE void reduce_run(float *to, const float *from, const size_t step, size_t apart, const size_t n, size_t count,
                            const bool greatest)
{
    const float start = greatest ? -INFINITY : 0.0f;
    if (step <= 2 && count >= XCVM_LANES) {
        /* The last vector may overlap the previous one. */
        for (size_t i = 0; i < count; i += XCVM_LANES) {
            const size_t at = count - i < XCVM_LANES ? count - XCVM_LANES : i;
            xcvm_lanes r = xcvm_lanes_all(start);
            for (size_t j = 0; j < n; j++)
                r = combine(r, load_every(from + at * step + j * apart, step), greatest);
            xcvm_lanes_store(to + at, r);
        }
        return;
    }
    for (size_t i = 0; i < count; i++) {
        float r = start;
        for (size_t j = 0; j < n; j++)
            r = combine_one(r, from[i * step + j * apart], greatest);
        to[i] = r;
    }
}

XCVM_INLINE void reduce_some(float *to, const float *from, const size_t step, size_t apart, size_t n, size_t count,
                             const bool greatest)
{
    if (n == 2)
        reduce_run(to, from, step, apart, 2, count, greatest);
    else if (n == 3)
        reduce_run(to, from, step, apart, 3, count, greatest);
    else if (n == 5)
        reduce_run(to, from, step, apart, 5, count, greatest);
    else
        reduce_run(to, from, step, apart, n, count, greatest);
}

/* The same for long rows, with polls. */
XCVM_INLINE xcvm_status reduce_long(xcvm_poller *poller, float *to, const float *from, const size_t step, size_t apart,
                                    size_t n, size_t count, const bool greatest)
{
    const size_t portion = n < MOST_FOLDED / XCVM_LANES ? MOST_FOLDED / (n + 1) / XCVM_LANES * XCVM_LANES : XCVM_LANES;
    for (size_t i = 0; i < count; i += portion) {
        const size_t some = xcvm_min(count - i, portion);
        XCVM_TRY(xcvm_poll_after(poller, 1 + (some * n) / XCVM_LANES));
        reduce_some(to + i, from + i * step, step, apart, n, some, greatest);
    }
    return XCVM_OK;
}

/* Window positions [*first, *last) that are inside for output o of an axis. */
static void inside(const xcvm_window *w, int axis, size_t o, size_t *first, size_t *last)
{
    const ptrdiff_t at = (ptrdiff_t)(o * w->stride[axis]) - w->pad[axis], dilation = (ptrdiff_t)w->dilation[axis];
    const ptrdiff_t in = (ptrdiff_t)w->in[axis], kernel = (ptrdiff_t)w->kernel[axis];
    const ptrdiff_t low = at < 0 ? (dilation - 1 - at) / dilation : 0;
    const ptrdiff_t high = at < in ? (in - at + dilation - 1) / dilation : 0;
    *last = (size_t)(high < kernel ? high : kernel);
    *first = (size_t)low < *last ? (size_t)low : *last;
}

/* Reduces rows of `in` elements, copied with their padding if there is any, so that all outputs are alike. */
XCVM_INLINE xcvm_status reduce_padded(xcvm_poller *poller, const xcvm_window *w, int axis, size_t in, size_t out,
                                      size_t outer, size_t span, bool whole, const float *from, float *to,
                                      bool greatest)
{
    float padded[PADDED];
    const size_t stride = w->stride[axis], kernel = w->kernel[axis], apart = w->dilation[axis];
    const size_t pad = (size_t)w->pad[axis], left = pad < span ? pad : span, room = span - left;
    for (size_t i = 0; i < span && !whole; i++)
        padded[i] = greatest ? -INFINITY : 0.0f;
    for (size_t o = 0; o < outer; o++, from += in, to += out) {
        const float *row = from;
        XCVM_TRY(xcvm_poll_after(poller, 1 + out * kernel / XCVM_LANES));
        if (!whole) {
            memcpy(padded + left, from, (in < room ? in : room) * sizeof *from);
            row = padded;
        }
        if (stride == 1)
            reduce_some(to, row, 1, apart, kernel, out, greatest);
        else if (stride == 2)
            reduce_some(to, row, 2, apart, kernel, out, greatest);
        else
            reduce_some(to, row, stride, apart, kernel, out, greatest);
    }
    return XCVM_OK;
}

XCVM_INLINE xcvm_status reduce_axis(const pool_axes_loop *r, int axis, size_t outer, size_t inner, const float *from,
                                    float *to, bool greatest)
{
    const xcvm_window *w = r->window;
    size_t begin, end, first, last;
    xcvm_poller poller = xcvm_poller_of(r->k);
    size_t in = w->in[axis], out = w->out[axis];
    const size_t stride = w->stride[axis], kernel = w->kernel[axis], apart = w->dilation[axis];
    const ptrdiff_t pad = w->pad[axis];
    /* Outputs in [begin, end) have the whole window inside. */
    xcvm_window_inside(w, axis, 0, &begin, &first);
    xcvm_window_inside(w, axis, kernel - 1, &last, &end);
    end = end < first ? end : first;
    begin = begin > last ? begin : last;
    begin = begin < end ? begin : end;
    if (inner == 1 && pad == 0 && out * stride == in && begin == 0 && end == out) {
        /* Windows continue from row to row. */
        in *= outer;
        end = out *= outer;
        outer = 1;
    }
    const size_t span = (out - 1) * stride + (kernel - 1) * apart + 1;
    if (inner == 1 && span <= PADDED)
        return reduce_padded(&poller, w, axis, in, out, outer, span, begin == 0 && end == out, from, to, greatest);
    for (size_t o = 0; o < outer; o++, from += in * inner, to += out * inner) {
        if (inner == 1 && begin < end) {
            const float *row = from + (ptrdiff_t)(begin * stride) - pad;
            if (stride == 1)
                XCVM_TRY(reduce_long(&poller, to + begin, row, 1, apart, kernel, end - begin, greatest));
            else if (stride == 2)
                XCVM_TRY(reduce_long(&poller, to + begin, row, 2, apart, kernel, end - begin, greatest));
            else
                XCVM_TRY(reduce_long(&poller, to + begin, row, stride, apart, kernel, end - begin, greatest));
        }
        for (size_t i = 0; i < out; i++) {
            if (inner == 1 && i == begin && begin < end)
                i = end;
            if (i == out)
                break;
            inside(w, axis, i, &first, &last);
            const ptrdiff_t at = first < last ? (ptrdiff_t)(i * stride + first * apart) - pad : 0;
            XCVM_TRY(reduce_long(&poller, to + i * inner, from + at * (ptrdiff_t)inner, 1, apart * inner, last - first,
                                 inner, greatest));
        }
    }
    return xcvm_kernel_poll(r->k);
}

static bool is_still(const xcvm_window *w, int axis)
{
    return w->kernel[axis] == 1 && w->stride[axis] == 1 && w->pad[axis] == 0 && w->in[axis] == w->out[axis];
}

/* Prepares elements for summation: absolute values or squares. */
static void prepare(xcvm_pool_reduce_op reduce_op, size_t count, float *x)
{
    for (size_t i = 0; i < count; i++)
        x[i] = reduce_op == XCVM_REDUCE_SQUARES ? x[i] * x[i] : fabsf(x[i]);
}

static void finish(const pool_axes_loop *w, float *results)
{
    const xcvm_pooling *p = w->pooling;
    if (w->reduce_op == XCVM_REDUCE_SQUARES)
        for (size_t i = 0; i < p->out_plane; i++)
            results[i] = sqrtf(results[i]);
    if (p->kind != XCVM_POOL_MEAN)
        return;
    size_t inner = 1;
    for (int d = p->axes - 1; d >= 0; inner *= (size_t)p->out[d], d--) {
        const size_t out = (size_t)p->out[d], outer = p->out_plane / (inner * out);
        float counts[COUNTS];
        for (size_t first = 0; first < out; first += COUNTS) {
            const size_t n = out - first < COUNTS ? out - first : COUNTS;
            for (size_t i = 0; i < n; i++)
                counts[i] = xcvm_pool_counted(p, d, (int64_t)(first + i));
            for (size_t o = 0; o < outer; o++) {
                float *row = results + (o * out + first) * inner;
                for (size_t i = 0; i < n && inner == 1; i++)
                    row[i] /= counts[i];
                for (size_t i = 0; i < n && inner != 1; i++)
                    for (size_t j = 0; j < inner && counts[i] != 1.0f; j++)
                        row[i * inner + j] /= counts[i];
            }
        }
    }
}

static void pool_images(void *context, size_t begin, size_t end, int worker)
{
    pool_axes_loop *w = context;
    const xcvm_pooling *p = w->pooling;
    float *buffers[2] = {w->scratch + (size_t)(2 * worker) * w->stage,
                         w->scratch + (size_t)(2 * worker + 1) * w->stage};
    for (size_t image = begin; image < end; image++) {
        const float *from = xcvm_pool_image(p, image, buffers[0]);
        if (w->reduce_op == XCVM_REDUCE_ABSOLUTES || w->reduce_op == XCVM_REDUCE_SQUARES) {
            if (from != buffers[0])
                xcvm_copy_floats(buffers[0], from, p->in_plane);
            prepare(w->reduce_op, p->in_plane, buffers[0]);
            from = buffers[0];
        }
        size_t inner = 1, outer = p->in_plane;
        for (int axis = XCVM_WINDOW_AXES - 1; axis >= 0; inner *= w->window->out[axis], axis--) {
            outer /= w->window->in[axis];
            if (is_still(w->window, axis) && !(axis == 0 && from != buffers[0] && from != buffers[1]))
                continue;
            float *to = buffers[from != buffers[1]];
            const xcvm_status status = w->reduce_op == XCVM_REDUCE_MAX
                                           ? reduce_axis(w, axis, outer, inner, from, to, true)
                                           : reduce_axis(w, axis, outer, inner, from, to, false);
            if (status != XCVM_OK) {
                __atomic_store_n(&w->status, (uint32_t)status, __ATOMIC_RELAXED);
                return;
            }
            from = to;
        }
        float *results = buffers[from != buffers[0]];
        finish(w, results);
        xcvm_pool_write(p, results, image * p->out_plane, p->out_plane);
    }
}

xcvm_status xcvm_pool_axes(xcvm_kernel *k, const xcvm_pooling *p, const xcvm_window *window,
                           xcvm_pool_reduce_op reduce_op)
{
    pool_axes_loop w = {.k = k, .pooling = p, .window = window, .reduce_op = reduce_op, .stage = p->in_plane};
    double each = (double)p->in_plane;
    size_t stage = p->in_plane;
    for (int axis = XCVM_WINDOW_AXES - 1; axis >= 0; axis--) {
        stage = stage / window->in[axis] * window->out[axis];
        w.stage = stage > w.stage ? stage : w.stage;
        each += (double)stage * (double)window->kernel[axis] / 4;
    }
    w.stage = xcvm_round_up(w.stage, XCVM_LANES);
    size_t bytes;
    XCVM_CHECK(k->error,
               xcvm_size_mul(w.stage, 2 * sizeof(float), &bytes) &&
                   xcvm_size_mul(bytes, (size_t)xcvm_threads_count(k->threads), &bytes),
               OUT_OF_MEMORY, "the images are too large");
    w.scratch = xcvm_kernel_scratch(k, bytes);
    if (w.scratch == NULL)
        return XCVM_OUT_OF_MEMORY;
    xcvm_parallel(k->threads, p->planes, xcvm_grain(THREAD_WORK, each), pool_images, &w);
    return (xcvm_status)w.status;
}
