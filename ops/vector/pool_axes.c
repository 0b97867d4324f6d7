/* Pooling axis by axis: the fold of a window is that of its rows' folds, along one axis after the other, whatever the
 * number of axes and the size of the window. */
#include "ops/vector/pool_axes.h"
#include "ops/convert.h"
#include "ops/vector/conv.h"
#include "ops/vector/lanes.h"

#include <math.h>

enum { THREAD_WORK = 50 * 1000 };

typedef struct work {
    const xcvm_kernel *k;
    const xcvm_pooling *pooling;
    const xcvm_window *window;
    xcvm_pool_fold fold;
    float *scratch;
    size_t stage;    /* floats of the largest stage of an image, a whole number of vectors */
    uint32_t status; /* atomic */
} work;

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
        xcvm_load_f32((xcvm_dtype)x->dtype, x->data, at, count, copy);
        break;
    }
    return copy;
}

/* A window with nothing in it has minus infinity as its maximum, which is the least byte. */
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
        xcvm_store_f32((xcvm_dtype)y->dtype, y->data, at, count, results);
        break;
    }
}

XCVM_INLINE xcvm_lanes combine(xcvm_lanes so_far, xcvm_lanes x, bool greatest)
{
    return greatest ? xcvm_lanes_keep_nan(xcvm_lanes_max(so_far, x), x) : so_far + x;
}

/* to[i] = fold of to[i] and from[i * step]; vectors where elements lie side by side. */
XCVM_INLINE void combine_run(float *to, const float *from, size_t step, size_t count, bool greatest)
{
    size_t i = 0;
    if (step == 1)
        for (; i + XCVM_LANES <= count; i += XCVM_LANES)
            xcvm_lanes_store(to + i, combine(xcvm_lanes_load(to + i), xcvm_lanes_load(from + i), greatest));
    for (; i < count; i++) {
        const float x = from[i * step];
        to[i] = !greatest ? to[i] + x : x > to[i] || x != x ? x : to[i];
    }
}

XCVM_INLINE xcvm_status fold_axis(const work *r, int axis, size_t outer, size_t inner, const float *from, float *to,
                                  bool greatest)
{
    const xcvm_window *w = r->window;
    xcvm_poller poller = xcvm_poller_of(r->k);
    const size_t in = w->in[axis], out = w->out[axis], stride = w->stride[axis];
    for (size_t i = 0; i < outer * out * inner; i++)
        to[i] = greatest ? -INFINITY : 0.0f;
    /* The first position of the window that reaches the image from the last output. */
    const size_t before = (size_t)w->pad[axis] > (out - 1) * stride ? (size_t)w->pad[axis] - (out - 1) * stride : 0;
    const size_t first = xcvm_ceil_div(before, w->dilation[axis]);
    for (size_t o = 0; o < outer; o++)
        for (size_t k = first; k < w->kernel[axis]; k++) {
            const size_t offset = k * w->dilation[axis];
            size_t begin, end;
            if (offset >= in + (size_t)w->pad[axis])
                break;
            xcvm_window_inside(w, axis, k, &begin, &end);
            XCVM_TRY(xcvm_poll_after(&poller, 1 + (begin < end ? (end - begin) * inner / XCVM_LANES : 0)));
            if (begin >= end)
                continue;
            const float *row = from + (o * in + begin * stride + offset - (size_t)w->pad[axis]) * inner;
            float *result = to + (o * out + begin) * inner;
            if (inner == 1)
                combine_run(result, row, stride, end - begin, greatest);
            else
                for (size_t i = begin; i < end; i++, row += stride * inner, result += inner)
                    combine_run(result, row, 1, inner, greatest);
        }
    return xcvm_kernel_poll(r->k);
}

static bool is_still(const xcvm_window *w, int axis)
{
    return w->kernel[axis] == 1 && w->stride[axis] == 1 && w->pad[axis] == 0 && w->in[axis] == w->out[axis];
}

/* The elements as they are summed up: absolute, or squared. */
static void prepare(xcvm_pool_fold fold, size_t count, float *x)
{
    for (size_t i = 0; i < count; i++)
        x[i] = fold == XCVM_FOLD_SQUARES ? x[i] * x[i] : fabsf(x[i]);
}

static void finish(const work *w, float *results)
{
    const xcvm_pooling *p = w->pooling;
    if (w->fold == XCVM_FOLD_SQUARES)
        for (size_t i = 0; i < p->out_plane; i++)
            results[i] = sqrtf(results[i]);
    if (p->kind != XCVM_POOL_MEAN)
        return;
    size_t inner = 1;
    for (int d = p->axes - 1; d >= 0; inner *= (size_t)p->out[d], d--)
        for (size_t i = 0; i < p->out_plane / inner; i++) {
            const float count = xcvm_pool_counted(p, d, (int64_t)(i % (size_t)p->out[d]));
            for (size_t j = 0; j < inner && count != 1.0f; j++)
                results[i * inner + j] /= count;
        }
}

static void pool_images(void *context, size_t begin, size_t end, int worker)
{
    work *w = context;
    const xcvm_pooling *p = w->pooling;
    float *buffers[2] = {w->scratch + (size_t)(2 * worker) * w->stage,
                         w->scratch + (size_t)(2 * worker + 1) * w->stage};
    for (size_t image = begin; image < end; image++) {
        const float *from = xcvm_pool_image(p, image, buffers[0]);
        if (w->fold == XCVM_FOLD_ABSOLUTES || w->fold == XCVM_FOLD_SQUARES) {
            if (from != buffers[0])
                xcvm_copy_floats(buffers[0], from, p->in_plane);
            prepare(w->fold, p->in_plane, buffers[0]);
            from = buffers[0];
        }
        size_t inner = 1, outer = p->in_plane;
        for (int axis = XCVM_WINDOW_AXES - 1; axis >= 0; inner *= w->window->out[axis], axis--) {
            outer /= w->window->in[axis];
            if (is_still(w->window, axis) && !(axis == 0 && from != buffers[0] && from != buffers[1]))
                continue;
            float *to = buffers[from != buffers[1]];
            const xcvm_status status = w->fold == XCVM_FOLD_MAX ? fold_axis(w, axis, outer, inner, from, to, true)
                                                                : fold_axis(w, axis, outer, inner, from, to, false);
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

xcvm_status xcvm_pool_axes(xcvm_kernel *k, const xcvm_pooling *p, const xcvm_window *window, xcvm_pool_fold fold)
{
    work w = {.k = k, .pooling = p, .window = window, .fold = fold, .stage = p->in_plane};
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
    xcvm_parallel(k->threads, p->planes, each > THREAD_WORK ? 1 : (size_t)(THREAD_WORK / each) + 1, pool_images, &w);
    return (xcvm_status)w.status;
}
