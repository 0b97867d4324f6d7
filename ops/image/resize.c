/* Resize: resampling of selected axes, one at a time. */
#include "ops/util/floats.h"
#include "ops/image/resize_plan.h"
#include "ops/image/resize_row.h"

#include <math.h>

typedef struct pass {
    const xcvm_kernel *k;
    const xcvm_resize_axis *axis;
    const float *from;
    float *to;
    size_t inner;
} pass;

/* Resamples one axis of float data. Rows are the preceding dimensions times its output positions. */
static void resample_rows(void *context, size_t begin, size_t end, int worker)
{
    (void)worker;
    const pass *p = context;
    const xcvm_resize_axis *axis = p->axis;
    const size_t taps = (size_t)axis->taps, inner = p->inner;
    xcvm_poller poller = xcvm_poller_of(p->k);
    for (size_t row = begin; row < end; row++) {
        const size_t outer = row / (size_t)axis->out, i = row % (size_t)axis->out;
        const float *from = p->from + outer * (size_t)axis->in * inner;
        float *restrict to = p->to + row * inner;
        const int64_t *index = axis->index + i * taps;
        const float *weight = axis->weight + i * taps;
        size_t j = taps % 2;
        const float *first = from + (size_t)index[0] * inner;
        if (j == 1)
            for (size_t c = 0; c < inner; c++)
                to[c] = weight[0] * first[c];
        for (; j < taps; j += 2) {
            const float *restrict left = from + (size_t)index[j] * inner;
            const float *restrict right = from + (size_t)index[j + 1] * inner;
            const float wl = weight[j], wr = weight[j + 1];
            if (xcvm_poll_after(&poller, inner) != XCVM_OK)
                return;
            if (j == 0)
                for (size_t c = 0; c < inner; c++)
                    to[c] = wl * left[c] + wr * right[c];
            else
                for (size_t c = 0; c < inner; c++)
                    to[c] += wl * left[c] + wr * right[c];
        }
    }
}

/* Resamples the last axis. Rows are the preceding dimensions. */
static void resample_columns(void *context, size_t begin, size_t end, int worker)
{
    (void)worker;
    const pass *p = context;
    const xcvm_resize_axis *axis = p->axis;
    const size_t taps = (size_t)axis->taps, out = (size_t)axis->out;
    xcvm_poller poller = xcvm_poller_of(p->k);
    for (size_t row = begin; row < end; row++) {
        const float *from = p->from + row * (size_t)axis->in;
        float *to = p->to + row * out;
        const int64_t *index = axis->index;
        const float *weight = axis->weight;
        if (xcvm_poll_after(&poller, taps == 2 ? out : 0) != XCVM_OK)
            return;
        if (taps == 2)
            for (size_t i = 0; i < out; i++, index += 2, weight += 2)
                to[i] = weight[0] * from[index[0]] + weight[1] * from[index[1]];
        else
            for (size_t i = 0; i < out; i++, index += taps, weight += taps) {
                float sum = 0;
                if (xcvm_poll_after(&poller, taps) != XCVM_OK)
                    return;
                for (size_t j = 0; j < taps; j++)
                    sum += weight[j] * from[index[j]];
                to[i] = sum;
            }
    }
}

/* Copies elements in runs of `size` bytes, which are the dimensions after the last axis that changes. */
typedef struct gather {
    const xcvm_resize_axis *axes;
    const xcvm_value *x;
    xcvm_value *y;
    int last; /* that axis */
    size_t size;
    size_t repeats;                /* repetitions of each run if the last axis grows by an integer factor, else 0 */
    bool doubles;                  /* the last two axes grow by two */
    size_t strides[XCVM_MAX_RANK]; /* strides of the axes of x before the last, in runs */
} gather;

/* Returns true if no position of an axis changes. */
static bool stays(const xcvm_resize_axis *p)
{
    bool same = p->in == p->out;
    for (int64_t i = 0; same && i < p->out; i++)
        same = p->index[i] == i;
    return same;
}

static size_t repeats_of(const xcvm_resize_axis *p)
{
    const int64_t n = p->out / p->in;
    bool same = p->out == n * p->in;
    for (int64_t i = 0; same && i < p->out; i++)
        same = p->index[i] == i / n;
    return same ? (size_t)n : 0;
}

static void gather_rows(void *context, size_t begin, size_t end, int worker)
{
    (void)worker;
    const gather *g = context;
    const int last = g->last;
    const size_t width = (size_t)g->y->dims[last], bytes = width * g->size;
    const int64_t *columns = g->axes[last].index;
    size_t place[XCVM_MAX_RANK];
    size_t rest = begin;
    for (int d = last - 1; d >= 0; d--) {
        place[d] = rest % (size_t)g->y->dims[d];
        rest /= (size_t)g->y->dims[d];
    }
    char *to = (char *)g->y->data + begin * bytes;
    const char *image = NULL; /* position on the axes before the last two */
    for (size_t row = begin, same; row < end; row += same, to += same * bytes) {
        if (image == NULL) {
            size_t from = 0;
            for (int d = 0; d < last - 1; d++)
                from += (size_t)g->axes[d].index[place[d]] * g->strides[d];
            image = (const char *)g->x->data + from * g->size;
        }
        same = 1;
        if (last == 0) {
            xcvm_resize_row(to, image, g->size, width, g->repeats, columns);
            continue;
        }
        const int64_t *index = g->axes[last - 1].index, at = index[place[last - 1]];
        const size_t left = (size_t)g->y->dims[last - 1] - place[last - 1];
        const size_t most = left < end - row ? left : end - row;
        const char *in = image + (size_t)at * g->strides[last - 1] * g->size;
        if (g->doubles && most > 1 && place[last - 1] % 2 == 0 &&
            xcvm_resize_double(to, in, g->size, width / 2, most / 2)) {
            same = most / 2 * 2;
        } else {
            xcvm_resize_row(to, in, g->size, width, g->repeats, columns);
            /* Repeats the same row of x, as when it grows. */
            for (; same < most && index[place[last - 1] + same] == at; same++)
                memcpy(to + same * bytes, to, bytes);
        }
        place[last - 1] += same - 1;
        for (int d = last - 1; d >= 0 && ++place[d] == (size_t)g->y->dims[d]; d--) {
            place[d] = 0;
            image = NULL;
        }
    }
}

static bool is_outside(const xcvm_resize *r, size_t element)
{
    bool outside = false;
    for (int d = r->a->x->rank - 1; d >= 0; d--) {
        outside |= r->axes[d].outside[element % (size_t)r->axes[d].out];
        element /= (size_t)r->axes[d].out;
    }
    return outside;
}

static xcvm_status resize_by_index(const xcvm_kernel *k, const xcvm_resize *r)
{
    const xcvm_Resize_args *a = r->a;
    const size_t count = xcvm_element_count(a->y);
    const bool integer = xcvm_dtype_in((xcvm_dtype)a->y->dtype, XCVM_TYPES_INT);
    const float value = (float)a->extrapolation_value, beyond = integer ? truncf(value) : value;
    gather g = {.axes = r->axes,
                .x = a->x,
                .y = a->y,
                .last = a->y->rank - 1,
                .size = xcvm_dtype_size((xcvm_dtype)a->x->dtype)};
    size_t runs = count;
    while (g.last > 0 && stays(&r->axes[g.last])) {
        runs /= (size_t)a->y->dims[g.last];
        g.size *= (size_t)a->y->dims[g.last--];
    }
    const size_t width = (size_t)a->y->dims[g.last];
    g.repeats = repeats_of(&r->axes[g.last]);
    g.doubles = g.repeats == 2 && g.last > 0 && repeats_of(&r->axes[g.last - 1]) == 2;
    size_t stride = 1;
    for (int d = g.last - 1; d >= 0; d--)
        g.strides[d] = stride *= (size_t)a->x->dims[d + 1];
    XCVM_TRY(xcvm_kernel_parallel(k, runs / width, 1 + 16384 / (count / (runs / width)), gather_rows, &g));
    xcvm_poller poller = xcvm_poller_of(k);
    for (size_t i = 0; r->any_outside && i < count; i++) {
        XCVM_TRY(xcvm_poll_after(&poller, 1));
        if (is_outside(r, i))
            xcvm_write_floats(&beyond, 1, a->y, i);
    }
    return XCVM_OK;
}

static xcvm_status run_pass(const xcvm_kernel *k, const xcvm_resize_axis *axes, int d, const int64_t *dims, int rank,
                            const float *from, float *to)
{
    pass p = {k, &axes[d], from, to, 1};
    size_t outer = 1;
    for (int e = 0; e < rank; e++)
        *(e < d ? &outer : &p.inner) *= e == d ? 1 : (size_t)dims[e];
    if (p.inner == 1) {
        const size_t work = (size_t)(axes[d].taps * axes[d].out);
        return xcvm_kernel_parallel(k, outer, 1 + 16384 / work, resample_columns, &p);
    }
    const size_t work = p.inner * (size_t)axes[d].taps;
    return xcvm_kernel_parallel(k, outer * (size_t)axes[d].out, 1 + 16384 / work, resample_rows, &p);
}

/* Integers truncate, as in ONNX's reference. Integer results with a small rounding error are kept. */
static xcvm_status write_integers(const xcvm_kernel *k, float *from, size_t count, xcvm_value *y)
{
    const float hair = 1e-4f;
    for (size_t done = 0, n; done < count; done += n, from += n) {
        n = xcvm_min(count - done, XCVM_POLL_STEPS);
        if (y->dtype == XCVM_U8) {
            uint8_t *to = XCVM_DATA(uint8_t, y) + done;
            for (size_t i = 0; i < n; i++) {
                const float x = from[i] + hair;
                to[i] = (uint8_t)(int32_t)(!(x > 0) ? 0 : x < 255 ? x : 255);
            }
        } else {
            for (size_t i = 0; i < n; i++)
                from[i] = truncf(from[i] + copysignf(hair, from[i]));
            xcvm_write_floats(from, n, y, done);
        }
        XCVM_TRY(xcvm_kernel_poll(k));
    }
    return XCVM_OK;
}

/* Reads the elements of x as floats. */
static xcvm_status read_elements(const xcvm_kernel *k, const xcvm_value *x, float *to)
{
    const size_t count = xcvm_element_count(x);
    if (x->dtype != XCVM_U8)
        return xcvm_kernel_read_floats(k, x, 0, count, to);
    for (size_t done = 0, n; done < count; done += n) {
        n = xcvm_min(count - done, XCVM_POLL_STEPS);
        for (size_t i = done; i < done + n; i++)
            to[i] = XCVM_CDATA(uint8_t, x)[i];
        XCVM_TRY(xcvm_kernel_poll(k));
    }
    return XCVM_OK;
}

static xcvm_status resize_by_weights(const xcvm_kernel *k, const xcvm_resize *r, float *buffers[2])
{
    const xcvm_Resize_args *a = r->a;
    const size_t count = xcvm_element_count(a->y);
    int64_t dims[XCVM_MAX_RANK];
    float *result = buffers[0];
    const float *from = r->direct ? XCVM_CDATA(float, a->x) : buffers[0];
    if (!r->direct)
        XCVM_TRY(read_elements(k, a->x, buffers[0]));
    memcpy(dims, a->x->dims, sizeof dims);
    for (int i = 0; i < r->passes; i++) {
        const int d = r->order[i];
        result = r->direct && i == r->passes - 1 ? XCVM_DATA(float, a->y) : buffers[from == buffers[0]];
        XCVM_TRY(run_pass(k, r->axes, d, dims, a->x->rank, from, result));
        dims[d] = r->axes[d].out;
        from = result;
    }
    xcvm_poller poller = xcvm_poller_of(k);
    for (size_t i = 0; r->any_outside && i < count; i++) {
        XCVM_TRY(xcvm_poll_after(&poller, 1));
        if (is_outside(r, i))
            result[i] = (float)a->extrapolation_value;
    }
    if (xcvm_dtype_in((xcvm_dtype)a->y->dtype, XCVM_TYPES_INT))
        return write_integers(k, result, count, a->y);
    return r->direct ? XCVM_OK : xcvm_kernel_write_floats(k, result, count, a->y, 0);
}

XCVM_KERNEL(Resize)
{
    xcvm_resize r;
    if (xcvm_element_count(a->y) == 0)
        return XCVM_OK;
    XCVM_CHECK(k->error, xcvm_element_count(a->x) != 0, SHAPE_MISMATCH, "x is empty, it cannot be resized");
    if (a->x->rank == 0) {
        memcpy(a->y->data, a->x->data, a->x->bytes);
        return XCVM_OK;
    }
    XCVM_TRY(xcvm_resize_plan(k->error, a, &r));
    /* After the tables, there are two float buffers, which passes read and write alternately. */
    const size_t buffer = r.by_index ? 0 : xcvm_round_up(r.largest * sizeof(float), XCVM_ALIGNMENT);
    char *const tables = xcvm_kernel_scratch(k, r.table_bytes + 2 * buffer);
    if (tables == NULL)
        return XCVM_OUT_OF_MEMORY;
    xcvm_poller poller = xcvm_poller_of(k);
    XCVM_TRY(xcvm_resize_fill(&r, tables, &poller));
    char *const buffers = tables + r.table_bytes;
    if (r.by_index)
        return resize_by_index(k, &r);
    return resize_by_weights(k, &r, (float *[]){(float *)(void *)buffers, (float *)(void *)(buffers + buffer)});
}
