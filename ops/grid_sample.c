/* GridSample: sampling at given points, in any number of spatial dimensions. */
#include "ops/floats.h"
#include "ops/kernel.h"

#include <math.h>

XCVM_SHAPE_RULE_OF(GridSample)
{
    const xcvm_value *x = a->x, *grid = a->grid;
    XCVM_REQUIRE(t, x->rank < 0 || x->rank >= 3, SHAPE_MISMATCH, "x has rank %d, at least 3 is needed", x->rank);
    XCVM_REQUIRE(t, x->rank < 0 || grid->rank < 0 || x->rank == grid->rank, SHAPE_MISMATCH,
                 "grid has rank %d, that of x is %d", grid->rank, x->rank);
    const int rank = x->rank < 0 ? grid->rank : x->rank;
    int64_t dims[XCVM_MAX_RANK];
    for (int d = 0; d < rank; d++)
        dims[d] = XCVM_ANY_DIM;
    if (x->rank >= 0) {
        dims[0] = x->dims[0];
        dims[1] = x->dims[1];
    }
    if (grid->rank >= 0) {
        const int64_t points = grid->dims[rank - 1];
        XCVM_REQUIRE(t, points < 0 || points == rank - 2, SHAPE_MISMATCH,
                     "the last dimension of grid is %lld, %d coordinates are needed", (long long)points, rank - 2);
        XCVM_REQUIRE(t, dims[0] < 0 || grid->dims[0] < 0 || dims[0] == grid->dims[0], SHAPE_MISMATCH,
                     "x has %lld samples, grid %lld", (long long)dims[0], (long long)grid->dims[0]);
        for (int d = 2; d < rank; d++)
            dims[d] = grid->dims[d - 1];
    }
    xcvm_value_set_tensor(a->y, (xcvm_dtype)x->dtype, rank, dims);
    return XCVM_OK;
}

static double reflect(double x, double low, double high)
{
    const double range = high - low;
    if (range <= 0)
        return low;
    const double beyond = x < low ? low - x : x > high ? x - high : -1;
    if (beyond < 0)
        return x;
    const double times = floor(beyond / range), rest = beyond - times * range;
    return (fmod(times, 2) == 0) == (x < low) ? low + rest : high - rest;
}

/* Up to four positions and weights along one dimension; position -1 reads as zero. */
typedef struct taps {
    int count;
    int64_t at[4];
    double weight[4];
} taps;

static double keys(double x)
{
    const double a = -0.75;
    x = fabs(x);
    if (x <= 1)
        return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

static void find_taps(const xcvm_GridSample_args *a, double point, int64_t size, taps *t)
{
    const double low = a->align_corners ? 0 : -0.5, high = (double)size - (a->align_corners ? 1 : 0.5);
    double x = a->align_corners ? (point + 1) / 2 * (double)(size - 1) : ((point + 1) * (double)size - 1) / 2;
    if (!(fabs(x) < 1e9))
        x = isnan(x) || x < 0 ? -1e9 : 1e9;
    if (a->mode == XCVM_GRID_MODE_nearest)
        x = nearbyint(x);
    if (x < low || x > high) {
        if (a->padding_mode == XCVM_GRID_PADDING_border)
            x = fmin(fmax(x, 0), (double)(size - 1));
        else if (a->padding_mode == XCVM_GRID_PADDING_reflection)
            x = reflect(x, low, high);
    }
    const double left = floor(x);
    const int before = a->mode == XCVM_GRID_MODE_cubic ? 1 : 0;
    t->count = a->mode == XCVM_GRID_MODE_nearest ? 1 : a->mode == XCVM_GRID_MODE_linear ? 2 : 4;
    for (int i = 0; i < t->count; i++) {
        const double at = left + i - before, distance = fabs(at - x);
        t->weight[i] = t->count == 1 ? 1 : t->count == 2 ? 1 - distance : keys(distance);
        int64_t index = (int64_t)at;
        if (index < 0 || index >= size) {
            if (a->padding_mode == XCVM_GRID_PADDING_zeros) {
                index = -1;
            } else {
                if (a->padding_mode == XCVM_GRID_PADDING_reflection)
                    index = (int64_t)reflect(at, low, high);
                index = index < 0 ? 0 : index >= size ? size - 1 : index;
            }
        }
        t->at[i] = index;
    }
}

typedef struct sampling {
    const xcvm_kernel *k;
    const xcvm_GridSample_args *args;
    int spatial;
    size_t points, plane; /* points of the grid and elements of a channel of x, for each sample */
} sampling;

static void sample_points(void *context, size_t begin, size_t end, int worker)
{
    (void)worker;
    const sampling *s = context;
    const xcvm_GridSample_args *a = s->args;
    const size_t channels = (size_t)a->x->dims[1];
    xcvm_poller poller = xcvm_poller_of(s->k);
    for (size_t p = begin; p < end; p++) {
        const size_t n = p / s->points;
        taps t[XCVM_MAX_RANK];
        int combinations = 1;
        for (int d = 0; d < s->spatial; d++) {
            /* The first coordinate is that of the last dimension. */
            float point;
            xcvm_read_floats(a->grid, p * (size_t)s->spatial + (size_t)(s->spatial - 1 - d), 1, &point);
            find_taps(a, (double)point, a->x->dims[2 + d], &t[d]);
            combinations *= t[d].count;
        }
        for (size_t c = 0; c < channels; c++) {
            double sum = 0;
            if (xcvm_poll_after(&poller, (size_t)combinations) != XCVM_OK)
                return;
            for (int i = 0; i < combinations; i++) {
                double weight = 1;
                int64_t at = 0;
                for (int d = 0, rest = i; d < s->spatial && at >= 0; d++) {
                    const int j = rest % t[d].count;
                    rest /= t[d].count;
                    weight *= t[d].weight[j];
                    at = t[d].at[j] < 0 ? -1 : at * a->x->dims[2 + d] + t[d].at[j];
                }
                if (at >= 0)
                    sum += weight * xcvm_element_as_double(a->x, (n * channels + c) * s->plane + (size_t)at);
            }
            const float value = (float)sum;
            xcvm_write_floats(&value, 1, a->y, (n * channels + c) * s->points + p % s->points);
        }
    }
}

XCVM_KERNEL(GridSample)
{
    if (xcvm_element_count(a->y) == 0)
        return XCVM_OK;
    XCVM_CHECK(k->error, xcvm_element_count(a->x) != 0, SHAPE_MISMATCH, "x is empty, it cannot be sampled");
    sampling s = {.k = k, .args = a, .spatial = a->x->rank - 2, .points = 1, .plane = 1};
    for (int d = 2; d < a->x->rank; d++) {
        s.points *= (size_t)a->y->dims[d];
        s.plane *= (size_t)a->x->dims[d];
    }
    return xcvm_kernel_parallel(k, (size_t)a->x->dims[0] * s.points, 256, sample_points, &s);
}
