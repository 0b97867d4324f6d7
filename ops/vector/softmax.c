/* Softmax, LogSoftmax and Hardmax. */
#include "ops/index.h"

#include "ops/vector/exp_line.h"
#include "ops/vector/lines.h"

static __attribute__((noinline)) float greatest_of(const float *x, size_t count)
{
    return (float)xcvm_fold_extreme(xcvm_lanes_greater, x, count, -INFINITY);
}

static __attribute__((noinline)) double exp_line(const float *x, size_t count, float greatest, float *y)
{
    return xcvm_exp_line(x, count, greatest, y);
}

/* ---- One line ---- */

/* Elements of a line between polls, whose exponentials are summed by themselves. */
enum { STRETCH = 1 << 20 };

static void softmax_line(const xcvm_tile *t)
{
    const float greatest = greatest_of(t->x, t->length);
    double sum = 0.0;
    for (size_t at = 0; at < t->length; at += STRETCH) {
        sum += exp_line(t->x + at, xcvm_least(t->length - at, STRETCH), greatest, t->y + at);
        if (t->length > STRETCH && xcvm_kernel_poll(t->k) != XCVM_OK)
            return;
    }
    float scale = (float)(1.0 / sum);
    for (size_t i = 0; i < t->length; i++)
        t->y[i] *= scale;
}

static void log_softmax_line(const xcvm_tile *t)
{
    float block[1024], greatest = greatest_of(t->x, t->length);
    double sum = 0.0;
    xcvm_poller poller = xcvm_poller_of(t->k);
    for (size_t at = 0; at < t->length && xcvm_poll_after(&poller, 1024) == XCVM_OK; at += 1024)
        sum += exp_line(t->x + at, t->length - at < 1024 ? t->length - at : 1024, greatest, block);
    float logarithm = (float)log(sum);
    XCVM_INDEPENDENT
    for (size_t i = 0; i < t->length; i++)
        t->y[i] = (t->x[i] - greatest) - logarithm;
}

/* ---- Lines side by side ---- */

static __attribute__((noinline)) void greatest_columns(const xcvm_tile *t, float *greatest)
{
    const size_t columns = t->columns;
    for (size_t j = 0; j < columns; j++)
        greatest[j] = -INFINITY;
    xcvm_poller poller = xcvm_poller_of(t->k);
    for (size_t i = 0; i < t->length && xcvm_poll_after(&poller, columns) == XCVM_OK; i++) {
        const float *x = t->x + i * t->x_stride;
        XCVM_INDEPENDENT
        for (size_t j = 0; j < columns; j++)
            greatest[j] = ((x[j] > greatest[j]) | (x[j] != x[j])) ? x[j] : greatest[j];
    }
}

/* y[j] = e to the (x[j] - greatest[j]), added to sum[j]. */
static __attribute__((noinline)) void exp_row(const float *x, const float *greatest, size_t columns, float *y,
                                              float *sum)
{
    XCVM_INDEPENDENT
    for (size_t j = 0; j < columns; j++) {
        float e = xcvm_exp_negative_f32(x[j] - greatest[j]);
        sum[j] += e;
        y[j] = e;
    }
}

static void softmax_columns(const xcvm_tile *t)
{
    float greatest[XCVM_TILE_COLUMNS], sum[XCVM_TILE_COLUMNS] = {0};
    xcvm_poller poller = xcvm_poller_of(t->k);
    greatest_columns(t, greatest);
    for (size_t i = 0; i < t->length && xcvm_poll_after(&poller, t->columns) == XCVM_OK; i++)
        exp_row(t->x + i * t->x_stride, greatest, t->columns, t->y + i * t->y_stride, sum);
    for (size_t j = 0; j < t->columns; j++)
        sum[j] = 1.0f / sum[j];
    for (size_t i = 0; i < t->length && xcvm_poll_after(&poller, t->columns) == XCVM_OK; i++) {
        float *y = t->y + i * t->y_stride;
        XCVM_INDEPENDENT
        for (size_t j = 0; j < t->columns; j++)
            y[j] *= sum[j];
    }
}

static void log_softmax_columns(const xcvm_tile *t)
{
    float greatest[XCVM_TILE_COLUMNS], sum[XCVM_TILE_COLUMNS] = {0}, row[XCVM_TILE_COLUMNS];
    xcvm_poller poller = xcvm_poller_of(t->k);
    greatest_columns(t, greatest);
    for (size_t i = 0; i < t->length && xcvm_poll_after(&poller, t->columns) == XCVM_OK; i++)
        exp_row(t->x + i * t->x_stride, greatest, t->columns, row, sum);
    for (size_t j = 0; j < XCVM_TILE_COLUMNS; j++)
        sum[j] = xcvm_log_f32(sum[j]);
    for (size_t i = 0; i < t->length && xcvm_poll_after(&poller, t->columns) == XCVM_OK; i++) {
        const float *x = t->x + i * t->x_stride;
        float *y = t->y + i * t->y_stride;
        XCVM_INDEPENDENT
        for (size_t j = 0; j < t->columns; j++)
            y[j] = (x[j] - greatest[j]) - sum[j];
    }
}

static void softmax_f32(const void *context, const xcvm_tile *t)
{
    (void)context;
    if (t->columns == 1 && t->x_stride == 1)
        softmax_line(t);
    else
        softmax_columns(t);
}

static void log_softmax_f32(const void *context, const xcvm_tile *t)
{
    (void)context;
    if (t->columns == 1 && t->x_stride == 1)
        log_softmax_line(t);
    else
        log_softmax_columns(t);
}

/* The first greatest element; the first NaN if there is one, as NumPy has it. */
static void hardmax_f32(const void *context, const xcvm_tile *t)
{
    (void)context;
    xcvm_poller poller = xcvm_poller_of(t->k);
    for (size_t j = 0; j < t->columns && xcvm_poll_after(&poller, t->length) == XCVM_OK; j++) {
        const float *x = t->x + j;
        float greatest = x[0];
        size_t at = 0;
        for (size_t i = 1; i < t->length && greatest == greatest; i++)
            if (!(x[i * t->x_stride] <= greatest)) {
                greatest = x[i * t->x_stride];
                at = i;
            }
        for (size_t i = 0; i < t->length; i++)
            t->y[i * t->y_stride + j] = 0.0f;
        t->y[at * t->y_stride + j] = 1.0f;
    }
}

/* ---- f64 ---- */

/* Fails as xcvm_kernel_poll does. */
static xcvm_status greatest_f64(xcvm_poller *poller, const double *x, size_t length, size_t *at)
{
    *at = 0;
    for (size_t i = 1; i < length && !isnan(x[*at]); i++) {
        XCVM_TRY(xcvm_poll_after(poller, 1));
        if (!(x[i] <= x[*at]))
            *at = i;
    }
    return XCVM_OK;
}

/* y[i] = e to the (x[i] - greatest), whose sum is *sum; y may be NULL. Fails as xcvm_kernel_poll does. */
static xcvm_status exp_f64(xcvm_poller *poller, const double *x, size_t length, double greatest, double *y, double *sum)
{
    *sum = 0.0;
    for (size_t i = 0; i < length; i++) {
        const double e = exp(x[i] - greatest);
        XCVM_TRY(xcvm_poll_after(poller, 1));
        *sum += e;
        if (y != NULL)
            y[i] = e;
    }
    return XCVM_OK;
}

static void softmax_f64(const xcvm_kernel *k, const void *context, const double *x, double *y, size_t length,
                        size_t index)
{
    (void)context;
    (void)index;
    xcvm_poller poller = xcvm_poller_of(k);
    size_t at;
    double sum;
    if (greatest_f64(&poller, x, length, &at) != XCVM_OK || exp_f64(&poller, x, length, x[at], y, &sum) != XCVM_OK)
        return;
    for (size_t i = 0; i < length && xcvm_poll_after(&poller, 1) == XCVM_OK; i++)
        y[i] /= sum;
}

static void log_softmax_f64(const xcvm_kernel *k, const void *context, const double *x, double *y, size_t length,
                            size_t index)
{
    (void)context;
    (void)index;
    xcvm_poller poller = xcvm_poller_of(k);
    size_t at;
    double sum;
    if (greatest_f64(&poller, x, length, &at) != XCVM_OK || exp_f64(&poller, x, length, x[at], NULL, &sum) != XCVM_OK)
        return;
    sum = log(sum);
    for (size_t i = 0; i < length && xcvm_poll_after(&poller, 1) == XCVM_OK; i++)
        y[i] = (x[i] - x[at]) - sum;
}

static void hardmax_f64(const xcvm_kernel *k, const void *context, const double *x, double *y, size_t length,
                        size_t index)
{
    (void)context;
    (void)index;
    xcvm_poller poller = xcvm_poller_of(k);
    size_t at;
    if (greatest_f64(&poller, x, length, &at) != XCVM_OK || xcvm_kernel_fill(k, y, 0, length * sizeof *y) != XCVM_OK)
        return;
    y[at] = 1.0;
}

static xcvm_status along_axis(xcvm_kernel *k, xcvm_value *y, const xcvm_value *x, int64_t axis, xcvm_lines lines)
{
    /* A scalar is one line of one element. */
    xcvm_around around = {1, 1, 1};
    if (x->rank != 0) {
        int resolved;
        XCVM_TRY(xcvm_resolve_axis(k->error, axis, x->rank, &resolved));
        around = xcvm_around_axis(x, resolved);
    }
    lines.outer = around.outer;
    lines.length = around.dim;
    lines.inner = around.inner;
    lines.dtype = x->dtype;
    lines.x = x->data;
    lines.y = y->data;
    return xcvm_lines_apply(k, &lines);
}

XCVM_KERNEL(Softmax)
{
    return along_axis(k, a->y, a->x, a->axis, (xcvm_lines){.f32 = softmax_f32, .f64 = softmax_f64, .cost = 4});
}

XCVM_KERNEL(LogSoftmax)
{
    return along_axis(k, a->y, a->x, a->axis, (xcvm_lines){.f32 = log_softmax_f32, .f64 = log_softmax_f64, .cost = 4});
}

XCVM_KERNEL(Hardmax)
{
    return along_axis(k, a->y, a->x, a->axis, (xcvm_lines){.f32 = hardmax_f32, .f64 = hardmax_f64, .cost = 4});
}

/* ---- LpNormalization, which divides by a norm in the same way ---- */

static void lp_f32(const void *context, const xcvm_tile *t)
{
    bool squares = *(const int64_t *)context == 2;
    xcvm_poller poller = xcvm_poller_of(t->k);
    for (size_t j = 0; j < t->columns && xcvm_poll_after(&poller, t->length) == XCVM_OK; j++) {
        const float *x = t->x + j;
        float *y = t->y + j;
        double sum = 0.0;
        if (t->x_stride == 1)
            sum = squares ? xcvm_fold_sum(xcvm_lanes_square, x, t->length)
                          : xcvm_fold_sum(xcvm_lanes_absolute, x, t->length);
        else
            for (size_t i = 0; i < t->length; i++) {
                double v = (double)x[i * t->x_stride];
                sum += squares ? v * v : fabs(v);
            }
        /* A line of zeros stays one. */
        float scale = sum == 0.0 ? 0.0f : (float)(1.0 / (squares ? sqrt(sum) : sum));
        for (size_t i = 0; i < t->length; i++)
            y[i * t->y_stride] = x[i * t->x_stride] * scale;
    }
}

static void lp_f64(const xcvm_kernel *k, const void *context, const double *x, double *y, size_t length, size_t index)
{
    (void)index;
    bool squares = *(const int64_t *)context == 2;
    double sum = 0.0;
    xcvm_poller poller = xcvm_poller_of(k);
    for (size_t i = 0; i < length && xcvm_poll_after(&poller, 1) == XCVM_OK; i++)
        sum += squares ? x[i] * x[i] : fabs(x[i]);
    double norm = squares ? sqrt(sum) : sum;
    for (size_t i = 0; i < length && xcvm_poll_after(&poller, 1) == XCVM_OK; i++)
        y[i] = norm == 0.0 ? 0.0 : x[i] / norm;
}

XCVM_KERNEL(LpNormalization)
{
    return along_axis(k, a->y, a->x, a->axis, (xcvm_lines){.f32 = lp_f32, .f64 = lp_f64, .context = &a->p, .cost = 1});
}
