/* LpNormalization. */
#include "ops/simd/lines.h"
#include "ops/simd/reductions.h"

#include <math.h>

static void lp_f32(const void *context, const xcvm_tile *t)
{
    bool squares = *(const int64_t *)context == 2;
    xcvm_poller poller = xcvm_poller_of(t->k);
    for (size_t j = 0; j < t->columns; j++) {
        const float *x = t->x + j;
        float *y = t->y + j;
        double sum = 0.0;
        for (size_t at = 0, n; at < t->length; at += n) {
            n = xcvm_min(t->length - at, XCVM_REDUCE_CHUNK);
            if (xcvm_poll_after(&poller, n) != XCVM_OK)
                return;
            if (t->x_stride == 1)
                sum += squares ? xcvm_reduce_sum(xcvm_lanes_square, x + at, n)
                               : xcvm_reduce_sum(xcvm_lanes_absolute, x + at, n);
            else
                for (size_t i = at; i < at + n; i++) {
                    double v = (double)x[i * t->x_stride];
                    sum += squares ? v * v : fabs(v);
                }
        }
        /* A zero line stays zero. */
        float scale = sum == 0.0 ? 0.0f : (float)(1.0 / (squares ? sqrt(sum) : sum));
        for (size_t at = 0, n; at < t->length; at += n) {
            n = xcvm_min(t->length - at, XCVM_REDUCE_CHUNK);
            if (xcvm_poll_after(&poller, n) != XCVM_OK)
                return;
            for (size_t i = at; i < at + n; i++)
                y[i * t->y_stride] = x[i * t->x_stride] * scale;
        }
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
    return xcvm_lines_along(k, a->y, a->x, a->axis,
                            (xcvm_lines){.f32 = lp_f32, .f64 = lp_f64, .context = &a->p, .cost = 1});
}
