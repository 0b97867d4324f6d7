/* QuantizedMaxPool and QuantizedAveragePool: loops over the channels of a position, for each window position. */
#include "ops/util/kernel.h"
#include "ops/simd/sums.h"

/* Channels summed at a time; minimum steps of a range. */
enum { CHANNELS = 512, GRAIN = 1 << 14 };

typedef struct pool_loop {
    const xcvm_kernel *k;
    const uint8_t *x;
    uint8_t *y;
    size_t in[2], out[2], kernel[2], stride[2], dilation[2], before[2], after[2], channels;
    bool includes_padding;
    float scale, low, high;
    int32_t x_zero, y_zero;
} pool_loop;

/* Window positions [*first, *last) inside the image at output `o`. Returns their number including those in the padding.
 */
static size_t inside(const pool_loop *t, int axis, size_t o, size_t *first, size_t *last)
{
    const size_t start = o * t->stride[axis], step = t->dilation[axis], in = t->in[axis], before = t->before[axis];
    size_t low = 0, high = t->kernel[axis];
    if (start < before)
        low = xcvm_min((before - start + step - 1) / step, high);
    const size_t end = in + before, padded_end = end + t->after[axis];
    if (start >= end)
        low = high;
    else
        high = xcvm_min(high, (end - start + step - 1) / step);
    *first = xcvm_min(low, high);
    *last = high;
    return start < padded_end ? xcvm_min(t->kernel[axis], (padded_end - start + step - 1) / step) : 0;
}

static void greatest(const uint8_t *restrict x, uint8_t *restrict y, size_t count)
{
    for (size_t i = 0; i < count; i++)
        y[i] = x[i] > y[i] ? x[i] : y[i];
}

static void sum_up(const uint8_t *restrict x, int32_t *restrict sums, size_t count)
{
    for (size_t i = 0; i < count; i++)
        sums[i] += x[i];
}

static const uint8_t *position(const pool_loop *t, size_t image, const size_t o[2], size_t row, size_t column)
{
    const size_t h = o[0] * t->stride[0] + row * t->dilation[0] - t->before[0];
    const size_t w = o[1] * t->stride[1] + column * t->dilation[1] - t->before[1];
    return t->x + ((image * t->in[0] + h) * t->in[1] + w) * t->channels;
}

/* Computes a row of y. Windows entirely in the padding give the lowest number. */
static void max_row(const pool_loop *t, size_t image, size_t row, uint8_t *y, xcvm_poller *poller)
{
    size_t first[2], last[2];
    inside(t, 0, row, &first[0], &last[0]);
    for (size_t column = 0; column < t->out[1]; column++, y += t->channels) {
        const size_t o[] = {row, column};
        inside(t, 1, column, &first[1], &last[1]);
        memset(y, 0, t->channels);
        for (size_t i = first[0]; i < last[0]; i++) {
            for (size_t j = first[1]; j < last[1]; j++)
                greatest(position(t, image, o, i, j), y, t->channels);
            if (xcvm_poll_after(poller, (last[1] - first[1]) * (t->channels / 16 + 1)) != XCVM_OK)
                return;
        }
    }
}

static void mean_row(const pool_loop *t, size_t image, size_t row, uint8_t *y, xcvm_poller *poller)
{
    size_t first[2], last[2];
    const size_t rows = inside(t, 0, row, &first[0], &last[0]);
    for (size_t column = 0; column < t->out[1]; column++, y += t->channels) {
        const size_t o[] = {row, column}, columns = inside(t, 1, column, &first[1], &last[1]);
        const size_t seen = (last[0] - first[0]) * (last[1] - first[1]);
        const size_t counted = t->includes_padding ? rows * columns : seen;
        const float divisor = counted != 0 ? (float)counted : 1.0f;
        for (size_t c = 0, count; c < t->channels; c += count) {
            int32_t sums[CHANNELS + XCVM_LANES] = {0};
            count = xcvm_min(t->channels - c, CHANNELS);
            for (size_t i = first[0]; i < last[0]; i++) {
                for (size_t j = first[1]; j < last[1]; j++)
                    sum_up(position(t, image, o, i, j) + c, sums, count);
                if (xcvm_poll_after(poller, (last[1] - first[1]) * (count / 8 + 1)) != XCVM_OK)
                    return;
            }
            const int32_t zero = (int32_t)((uint32_t)seen * (uint32_t)t->x_zero);
            for (size_t i = 0; i < count; i += XCVM_LANES)
                xcvm_sums_store_bytes(
                    y + c + i, count - i,
                    xcvm_sums_round(xcvm_sums_to_floats(xcvm_sums_load(sums + i) - zero) / divisor * t->scale, t->low,
                                    t->high) +
                        t->y_zero);
        }
    }
}

#define ROWS(name)                                                                                                     \
    static void name##s(void *context, size_t begin, size_t end, int worker)                                           \
    {                                                                                                                  \
        (void)worker;                                                                                                  \
        const pool_loop *t = context;                                                                                  \
        xcvm_poller poller = xcvm_poller_of(t->k);                                                                     \
        for (size_t i = begin; i < end; i++)                                                                           \
            name(t, i / t->out[0], i % t->out[0], t->y + i * t->out[1] * t->channels, &poller);                        \
    }
ROWS(max_row)
ROWS(mean_row)

static xcvm_status run_rows(const xcvm_kernel *k, const xcvm_value *x, const xcvm_value *y, pool_loop *t,
                            xcvm_range_body body)
{
    t->k = k;
    t->x = x->data;
    t->y = y->data;
    t->channels = (size_t)x->dims[3];
    for (int i = 0; i < 2; i++) {
        t->in[i] = (size_t)x->dims[1 + i];
        t->out[i] = (size_t)y->dims[1 + i];
    }
    if (xcvm_element_count(y) == 0)
        return XCVM_OK;
    const double row = (double)t->out[1] * (double)t->kernel[0] * (double)t->kernel[1] * (double)t->channels / 16;
    return xcvm_kernel_parallel(k, (size_t)x->dims[0] * t->out[0], row > GRAIN ? 1 : (size_t)(GRAIN / (row + 1)) + 1,
                                body, t);
}

static void set_axes(pool_loop *t, xcvm_ints kernel, xcvm_ints strides, xcvm_ints pads)
{
    for (int i = 0; i < 2; i++) {
        t->kernel[i] = (size_t)kernel.at[i];
        t->stride[i] = (size_t)strides.at[i];
        t->before[i] = (size_t)pads.at[i];
        t->after[i] = (size_t)pads.at[2 + i];
    }
}

XCVM_KERNEL(QuantizedMaxPool)
{
    pool_loop t = {.dilation = {(size_t)a->dilations.at[0], (size_t)a->dilations.at[1]}};
    set_axes(&t, a->kernel_shape, a->strides, a->pads);
    return run_rows(k, a->x, a->y, &t, max_rows);
}

XCVM_KERNEL(QuantizedAveragePool)
{
    pool_loop t = {.kernel = {(size_t)a->x->dims[1], (size_t)a->x->dims[2]},
                   .stride = {1, 1},
                   .dilation = {1, 1},
                   .includes_padding = a->count_include_pad != 0,
                   .scale = (float)a->scale,
                   .x_zero = (int32_t)a->x_zero_point,
                   .y_zero = (int32_t)a->y_zero_point,
                   .low = (float)(a->low - a->y_zero_point),
                   .high = (float)(a->high - a->y_zero_point)};
    if (a->kernel_shape.count != 0)
        set_axes(&t, a->kernel_shape, a->strides, a->pads);
    XCVM_CHECK(k->error, (double)t.kernel[0] * (double)t.kernel[1] * UINT8_MAX < INT32_MAX, OUT_OF_RANGE,
               "the window has %zu x %zu positions, whose sum may not fit 32 bits", t.kernel[0], t.kernel[1]);
    return run_rows(k, a->x, a->y, &t, mean_rows);
}
