/* The generic pooling kernel: one window at a time, for any type. */
#include "ops/pool/pool_generic.h"

#include "ops/util/floats.h"
#include "ops/conv/window.h"

#include <math.h>

typedef struct position {
    const xcvm_kernel *k;
    const xcvm_pooling *w;
    int64_t *indices;
    bool columns_first;
} position;

/* Positions [begin, end) of the window on an axis that are inside `limit` elements, if the first is at `start`. */
static void clip(const xcvm_pooling *w, int d, int64_t start, int64_t limit, int64_t *begin, int64_t *end)
{
    const int64_t dilation = w->dilations[d];
    const int64_t first = start < 0 ? (dilation - 1 - start) / dilation : 0;
    const int64_t last = start < limit ? (limit - start + dilation - 1) / dilation : 0;
    *end = last < w->kernel[d] ? last : w->kernel[d];
    *begin = first < *end ? first : *end;
}

/* The part of a window inside the image. */
typedef struct box {
    int64_t start[XCVM_MAX_RANK], size[XCVM_MAX_RANK]; /* of each axis; index of the first position */
    size_t count;                                      /* product of the sizes */
    int64_t extent; /* window positions inside the padded extent, for means that count padding */
} box;

/* Computes the box of result `i` and returns the index of its plane. */
static size_t clip_window(const xcvm_pooling *w, size_t i, box *b)
{
    b->count = 1;
    b->extent = 1;
    for (int d = w->axes - 1; d >= 0; d--) {
        const int64_t start = (int64_t)(i % (size_t)w->out[d]) * w->strides[d] - w->pads[d];
        int64_t begin, end, unused, extent;
        i /= (size_t)w->out[d];
        clip(w, d, start, w->in[d], &begin, &end);
        clip(w, d, start, w->in[d] + w->pads[d + w->axes], &unused, &extent);
        b->start[d] = start + begin * w->dilations[d];
        b->size[d] = end - begin;
        b->count *= (size_t)b->size[d];
        b->extent *= extent;
    }
    return i;
}

static void pool_positions(void *context, size_t begin, size_t end, int worker)
{
    (void)worker;
    const position *p = context;
    const xcvm_pooling *w = p->w;
    const size_t size = xcvm_dtype_size((xcvm_dtype)w->x->dtype);
    xcvm_poller poller = xcvm_poller_of(p->k);
    for (size_t i = begin; i < end; i++) {
        box b;
        const size_t plane = clip_window(w, i, &b) * w->in_plane;
        double result = w->kind == XCVM_POOL_MAX ? -INFINITY : 0;
        int64_t best = -1;
        for (size_t j = 0; j < b.count; j++) {
            size_t offset = j, at = 0, stride = 1;
            int64_t column = 0, column_stride = 1, where[XCVM_MAX_RANK];
            if (xcvm_poll_after(&poller, 1) != XCVM_OK)
                return;
            for (int d = w->axes - 1; d >= 0; d--) {
                where[d] = b.start[d] + (int64_t)(offset % (size_t)b.size[d]) * w->dilations[d];
                offset /= (size_t)b.size[d];
                at += (size_t)where[d] * stride;
                stride *= (size_t)w->in[d];
            }
            for (int d = 0; d < w->axes; d++) {
                column += where[d] * column_stride;
                column_stride *= w->in[d];
            }
            const double value = xcvm_element_as_double(w->x, plane + at);
            if (w->kind == XCVM_POOL_MAX) {
                if (best < 0 || value > result || (isnan(value) && !isnan(result))) {
                    result = value;
                    best = (int64_t)(plane + at);
                    if (p->indices != NULL)
                        p->indices[i] = p->columns_first ? (int64_t)plane + column : best;
                }
            } else {
                result += w->kind == XCVM_POOL_MEAN ? value : pow(fabs(value), (double)w->p);
            }
        }
        if (w->kind == XCVM_POOL_MAX && best >= 0) {
            memcpy((char *)w->y->data + i * size, (const char *)w->x->data + (size_t)best * size, size);
        } else if (w->kind == XCVM_POOL_MAX) {
            xcvm_write_double(w->y, i, result);
            if (p->indices != NULL)
                p->indices[i] = (int64_t)plane;
        } else if (w->kind == XCVM_POOL_MEAN) {
            const double count = w->count_pads ? (double)b.extent : b.count > 0 ? (double)b.count : 1;
            xcvm_write_double(w->y, i, result / count);
        } else {
            xcvm_write_double(w->y, i, pow(result, 1 / (double)w->p));
        }
    }
}

xcvm_status xcvm_pool_positions(xcvm_kernel *k, const xcvm_pooling *w, int64_t *indices, bool columns_first)
{
    position p = {k, w, indices, columns_first};
    return xcvm_kernel_parallel(k, w->planes * w->out_plane, 1 + 4096 / w->kernel_size, pool_positions, &p);
}

float xcvm_pool_counted(const xcvm_pooling *w, int d, int64_t o)
{
    /* Element j is at first + j * dilation and counts if it is before `end`. */
    const int64_t first = o * w->strides[d] - w->pads[d], dilation = w->dilations[d];
    const int64_t end = w->count_pads ? w->in[d] + w->pads[d + w->axes] : w->in[d];
    const int64_t outside = w->count_pads || first >= 0 ? 0 : (dilation - 1 - first) / dilation;
    int64_t count = end <= first ? 0 : (end - first + dilation - 1) / dilation;
    count = (count < w->kernel[d] ? count : w->kernel[d]) - outside;
    return count > 0 ? (float)count : 1.0f;
}

xcvm_status xcvm_pooling_make(xcvm_kernel *k, xcvm_pooling *w, const xcvm_value *x, xcvm_value *y, xcvm_ints kernel,
                              xcvm_ints strides, xcvm_ints pads, xcvm_ints dilations, int auto_pad)
{
    const xcvm_window_attributes attributes = {kernel, strides, pads, dilations};
    w->x = x;
    w->y = y;
    w->axes = (int)kernel.count;
    w->kernel = kernel.at;
    w->strides = strides.at;
    w->pads = xcvm_window_pads(auto_pad, x, &attributes, w->room).at;
    w->dilations = dilations.at;
    w->in = x->dims + 2;
    w->out = y->dims + 2;
    w->planes = (size_t)x->dims[0] * (size_t)x->dims[1];
    w->in_plane = w->out_plane = w->kernel_size = 1;
    for (int d = 0; d < w->axes; d++) {
        w->in_plane *= (size_t)w->in[d];
        w->out_plane *= (size_t)w->out[d];
        XCVM_CHECK(k->error, xcvm_size_mul(w->kernel_size, (size_t)w->kernel[d], &w->kernel_size), OUT_OF_RANGE,
                   "the window is too large");
    }
    return XCVM_OK;
}
