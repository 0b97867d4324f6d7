/* LRN: local response normalization over neighboring channels. */
#include "ops/simd/lines.h"
#include "ops/simd/math.h"

/* Channels [first, last) in the window of channel c. */
static void window_of(const xcvm_LRN_args *a, size_t c, size_t channels, size_t *first, size_t *last)
{
    size_t before = (size_t)(a->size - 1) / 2, after = (size_t)a->size - 1 - before;
    *first = c > before ? c - before : 0;
    *last = channels - c > after ? c + after + 1 : channels;
}

static void lrn_f32(const void *context, const xcvm_tile *t)
{
    const xcvm_LRN_args *a = context;
    const float factor = (float)(a->alpha / (double)a->size), bias = (float)a->bias, beta = (float)a->beta;
    const size_t columns = t->columns;
    xcvm_poller poller = xcvm_poller_of(t->k);
    for (size_t c = 0; c < t->length; c++) {
        float sum[XCVM_TILE_COLUMNS] = {0};
        size_t first, last;
        window_of(a, c, t->length, &first, &last);
        for (size_t w = first; w < last; w++) {
            if (xcvm_poll_after(&poller, columns) != XCVM_OK)
                return;
            const float *x = t->x + w * t->x_stride;
            for (size_t j = 0; j < columns; j++)
                sum[j] += x[j] * x[j];
        }
        const float *x = t->x + c * t->x_stride;
        float *y = t->y + c * t->y_stride;
        if (a->beta == 0.75) {
            for (size_t j = 0; j < XCVM_TILE_COLUMNS; j++) {
                float root = sqrtf(bias + factor * sum[j]);
                sum[j] = 1.0f / (root * sqrtf(root));
            }
        } else {
            for (size_t j = 0; j < XCVM_TILE_COLUMNS; j++)
                sum[j] = xcvm_pow_f32(bias + factor * sum[j], -beta);
        }
        for (size_t j = 0; j < columns; j++)
            y[j] = x[j] * sum[j];
    }
}

static void lrn_f64(const xcvm_kernel *k, const void *context, const double *x, double *y, size_t length, size_t index)
{
    (void)index;
    const xcvm_LRN_args *a = context;
    xcvm_poller poller = xcvm_poller_of(k);
    for (size_t c = 0; c < length; c++) {
        size_t first, last;
        double sum = 0.0;
        window_of(a, c, length, &first, &last);
        for (size_t w = first; w < last; w++) {
            if (xcvm_poll_after(&poller, 1) != XCVM_OK)
                return;
            sum += x[w] * x[w];
        }
        y[c] = x[c] * pow(a->bias + a->alpha / (double)a->size * sum, -a->beta);
    }
}

XCVM_KERNEL(LRN)
{
    XCVM_CHECK(k->error, a->x->rank >= 2, SHAPE_MISMATCH, "x has the wrong rank (%d; expected at least 2)", a->x->rank);
    xcvm_lines lines = {.outer = (size_t)a->x->dims[0],
                        .length = (size_t)a->x->dims[1],
                        .inner = 1,
                        .dtype = a->x->dtype,
                        .x = a->x->data,
                        .y = a->y->data,
                        .f32 = lrn_f32,
                        .f64 = lrn_f64,
                        .context = a,
                        .cost = 8};
    for (int i = 2; i < a->x->rank; i++)
        lines.inner *= (size_t)a->x->dims[i];
    return xcvm_lines_apply(k, &lines);
}
