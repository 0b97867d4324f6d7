/* GridSample: computes positions and weights of a block of points, then the sums of all channels there. Positions and
 * weights are f64. */
#include "ops/util/floats.h"
#include "ops/image/sampling.h"
#include "ops/util/kernel.h"

#include <math.h>

enum {
    POINTS = 64, /* points of a block */
    MOST_TAPS = 4 /* on one dimension */,
    FEW_TAPS = 64,            /* maximum taps of a point for which weights are stored */
    KEPT = FEW_TAPS * POINTS, /* weights; of several blocks if a point has fewer taps */
    MOST_BLOCKS = 16,
    FEW_CHANNELS = 4 /* with fewer channels, preparing weights does not pay off */
};

typedef struct sampling {
    const xcvm_kernel *k;
    const xcvm_GridSample_args *args;
    int spatial;
    size_t taps, all_taps; /* on one dimension; of a point */
    size_t at_once;        /* blocks of points */
    size_t points, plane;  /* points of the grid, and elements of a channel of x, per batch entry */
} sampling;

/* Elements around points on one dimension, and their weights; a negative index reads as zero. */
typedef struct taps {
    int32_t at[MOST_TAPS][POINTS];
    double weight[MOST_TAPS][POINTS];
} taps;

/* Maps coordinates in [-1, 1] to positions among `size` elements. */
static void map_coordinates(const xcvm_GridSample_args *a, size_t count, const float *coordinates, int64_t size,
                            double *x)
{
    const double low = a->align_corners ? 0 : -0.5, high = (double)size - (a->align_corners ? 1 : 0.5);
    const double scale = a->align_corners ? (double)(size - 1) : (double)size, shift = a->align_corners ? 0 : -1;
    for (size_t i = 0; i < count; i++)
        x[i] = xcvm_grid_place((double)coordinates[i], scale, shift);
    if (a->mode == XCVM_GRID_MODE_nearest)
        for (size_t i = 0; i < count; i++)
            x[i] = nearbyint(x[i]);
    /* Cubic interpolation pads each element around a point separately, as PyTorch and ONNX Runtime do. */
    if (a->mode == XCVM_GRID_MODE_cubic)
        return;
    if (a->padding_mode == XCVM_GRID_PADDING_border)
        for (size_t i = 0; i < count; i++)
            x[i] = x[i] >= low && x[i] <= high ? x[i] : fmin(fmax(x[i], 0), (double)(size - 1));
    if (a->padding_mode == XCVM_GRID_PADDING_reflection)
        for (size_t i = 0; i < count; i++)
            if (x[i] < low || x[i] > high)
                x[i] = xcvm_reflect(x[i], low, high);
}

static void find_taps(const sampling *s, size_t count, const float *coordinates, int64_t size, taps *t)
{
    const xcvm_GridSample_args *a = s->args;
    const double low = a->align_corners ? 0 : -0.5, high = (double)size - (a->align_corners ? 1 : 0.5);
    double x[POINTS];
    map_coordinates(a, count, coordinates, size, x);
    for (size_t j = 0; j < s->taps; j++) {
        const double before = s->taps == 4 ? 1 : 0;
        double at[POINTS];
        for (size_t i = 0; i < count; i++) {
            at[i] = floor(x[i]) + (double)j - before;
            t->weight[j][i] = 1 - fabs(at[i] - x[i]);
        }
        for (size_t i = 0; i < count && s->taps != 2; i++)
            t->weight[j][i] = s->taps == 1 ? 1 : xcvm_cubic(XCVM_GRID_SHARPNESS, at[i] - x[i]);
        if (a->padding_mode == XCVM_GRID_PADDING_reflection)
            for (size_t i = 0; i < count; i++)
                if (at[i] < 0 || at[i] >= (double)size)
                    at[i] = trunc(xcvm_reflect(at[i], low, high));
        const double most = (double)(size - 1);
        for (size_t i = 0; i < count; i++) {
            const bool inside = at[i] >= 0 && at[i] <= most;
            const double clipped = at[i] < 0 ? 0 : at[i] > most ? most : at[i];
            t->at[j][i] = inside || a->padding_mode != XCVM_GRID_PADDING_zeros ? (int32_t)clipped : -1;
        }
    }
}

/* Taps of a block of points over all dimensions, POINTS of the first tap, then of the next. Offsets into a channel are
 * negative for zero. */
typedef struct weights {
    int32_t *offset;
    float *weight;
    size_t count; /* number of points */
    bool inside;  /* no offset is negative */
    /* Bilinear interpolation: the two horizontal taps of a point are mostly adjacent in memory and are read as one
     * pair. `odd` lists the points, at borders, where they are not. */
    bool pairs;
    int32_t above[POINTS], below[POINTS];
    size_t odd_count;
    uint8_t odd[POINTS];
} weights;

/* Blocks that are processed together for each channel, so that a channel that is read at random positions stays in the
 * cache. */
typedef struct portion {
    int32_t offsets[KEPT];
    float weights[KEPT];
    weights blocks[MOST_BLOCKS];
} portion;

static void combine(const sampling *s, const taps *t, weights *w)
{
    const size_t count = w->count;
    const int64_t *dims = s->args->x->dims + 2;
    int32_t least = 0;
    for (size_t tap = 0; tap < s->all_taps; tap++) {
        double weight[POINTS];
        int32_t *restrict offset = w->offset + tap * POINTS;
        float *restrict to = w->weight + tap * POINTS;
        for (size_t i = 0; i < count; i++) {
            weight[i] = 1;
            offset[i] = 0;
        }
        size_t rest = tap;
        for (int d = 0; d < s->spatial; d++, rest /= s->taps) {
            const int32_t *at = t[d].at[rest % s->taps], dim = (int32_t)dims[d];
            const double *along = t[d].weight[rest % s->taps];
            for (size_t i = 0; i < count; i++) {
                offset[i] = (offset[i] | at[i]) < 0 ? -1 : offset[i] * dim + at[i];
                weight[i] *= along[i];
            }
        }
        for (size_t i = 0; i < count; i++) {
            to[i] = (float)weight[i];
            least |= offset[i];
        }
    }
    w->inside = least >= 0;
}

/* Taps of bilinear interpolation, in this order. */
enum { ABOVE, BELOW, RIGHT_ABOVE, RIGHT_BELOW, PLANE_TAPS };

/* Finds the points whose taps are not pairs, and redirects their reads to offset 0. */
static void find_pairs(const sampling *s, weights *w)
{
    const int32_t *offset = w->offset;
    w->odd_count = 0;
    for (size_t i = 0; i < w->count; i++) {
        const int32_t above = offset[ABOVE * POINTS + i], below = offset[BELOW * POINTS + i];
        const bool pairs = above >= 0 && below >= 0 && offset[RIGHT_ABOVE * POINTS + i] == above + 1 &&
                           offset[RIGHT_BELOW * POINTS + i] == below + 1;
        w->above[i] = pairs ? above : 0;
        w->below[i] = pairs ? below : 0;
        w->odd[w->odd_count] = (uint8_t)i;
        w->odd_count += !pairs;
    }
    w->pairs = s->plane > 1 && w->odd_count <= POINTS / 2;
}

/* The sum at one point. A tap outside contributes 0 for any weight; x[0] is read instead. */
static inline __attribute__((always_inline)) float sum_point(const int32_t *offsets, const float *factors,
                                                             const size_t tap_count, size_t i, const float *x,
                                                             const bool inside)
{
    float sum = 0;
#pragma GCC unroll 8
    for (size_t tap = 0; tap < tap_count; tap++) {
        const int32_t offset = offsets[tap * POINTS + i];
        const float v = x[inside || offset >= 0 ? offset : 0];
        sum += factors[tap * POINTS + i] * (inside || offset >= 0 ? v : 0.0f);
    }
    return sum;
}

/* The sums of one channel. */
static inline __attribute__((always_inline)) void sum_channel(const weights *w, const size_t tap_count, const float *x,
                                                              const bool inside, float *restrict y)
{
    const int32_t *restrict offsets = w->offset;
    const float *restrict factors = w->weight;
    const size_t count = w->count;
    for (size_t i = 0; i < count; i++)
        y[i] = sum_point(offsets, factors, tap_count, i, x, inside);
}

typedef float four __attribute__((vector_size(16), aligned(4), may_alias));
typedef double two __attribute__((vector_size(16)));

/* The pairs of a point: above, right above, below, right below. */
static inline four read_pairs(const float *x, int32_t above, int32_t below)
{
    double first, second;
    memcpy(&first, x + above, sizeof first);
    memcpy(&second, x + below, sizeof second);
    return (four)(two){first, second};
}

/* The same sums from pairs, for four points at a time, which are transposed. */
static void sum_pairs(const weights *w, const float *restrict x, float *restrict y)
{
    const int32_t *restrict offsets = w->offset;
    const float *restrict factors = w->weight;
    size_t i = 0;
    for (; i + 4 <= w->count; i += 4) {
        four v[4], sum = {0, 0, 0, 0};
        for (size_t j = 0; j < 4; j++) {
            v[j] = read_pairs(x, w->above[i + j], w->below[i + j]);
        }
        const four a = __builtin_shufflevector(v[0], v[1], 0, 4, 1, 5),
                   b = __builtin_shufflevector(v[2], v[3], 0, 4, 1, 5);
        const four c = __builtin_shufflevector(v[0], v[1], 2, 6, 3, 7),
                   d = __builtin_shufflevector(v[2], v[3], 2, 6, 3, 7);
        sum += *(const four *)(factors + ABOVE * POINTS + i) * __builtin_shufflevector(a, b, 0, 1, 4, 5);
        sum += *(const four *)(factors + BELOW * POINTS + i) * __builtin_shufflevector(c, d, 0, 1, 4, 5);
        sum += *(const four *)(factors + RIGHT_ABOVE * POINTS + i) * __builtin_shufflevector(a, b, 2, 3, 6, 7);
        sum += *(const four *)(factors + RIGHT_BELOW * POINTS + i) * __builtin_shufflevector(c, d, 2, 3, 6, 7);
        *(four *)(y + i) = sum;
    }
    for (; i < w->count; i++)
        y[i] = sum_point(offsets, factors, PLANE_TAPS, i, x, false);
    for (i = 0; i < w->odd_count; i++)
        y[w->odd[i]] = sum_point(offsets, factors, PLANE_TAPS, w->odd[i], x, false);
}

static void sum_taps(const weights *w, size_t tap_count, const float *restrict x, float *restrict y)
{
#define SUM(n)                                                                                                         \
    do {                                                                                                               \
        if (w->inside)                                                                                                 \
            sum_channel(w, n, x, true, y);                                                                             \
        else                                                                                                           \
            sum_channel(w, n, x, false, y);                                                                            \
    } while (0)
    switch (tap_count) {
    case 1:
        SUM(1);
        break;
    case 2:
        SUM(2);
        break;
    case PLANE_TAPS:
        if (w->pairs)
            sum_pairs(w, x, y);
        else
            SUM(4);
        break;
    case 8:
        SUM(8);
        break;
    default:
        SUM(tap_count);
        break;
    }
#undef SUM
}

/* Computes points [first, first + count) of batch entry n for rare types or numbers of taps. */
static void sum_seldom(const sampling *s, size_t n, size_t first, size_t count, const taps *t, xcvm_poller *poller)
{
    const xcvm_GridSample_args *a = s->args;
    const size_t channels = (size_t)a->x->dims[1];
    for (size_t c = n * channels; c < (n + 1) * channels && xcvm_poll_after(poller, count * s->all_taps) == XCVM_OK;
         c++)
        for (size_t i = 0; i < count; i++) {
            double sum = 0;
            for (size_t tap = 0; tap < s->all_taps; tap++) {
                double weight = 1;
                int64_t at = 0;
                size_t rest = tap;
                for (int d = 0; d < s->spatial && at >= 0; d++, rest /= s->taps) {
                    const size_t j = rest % s->taps;
                    weight *= t[d].weight[j][i];
                    at = t[d].at[j][i] < 0 ? -1 : at * a->x->dims[2 + d] + t[d].at[j][i];
                }
                if (at >= 0)
                    sum += weight * xcvm_element_as_double(a->x, c * s->plane + (size_t)at);
            }
            xcvm_write_double(a->y, c * s->points + first + i, sum);
        }
}

static bool is_seldom(const sampling *s)
{
    return s->args->x->dtype != XCVM_F32 || s->all_taps > FEW_TAPS || s->plane > INT32_MAX;
}

static void place_block(const sampling *s, size_t n, size_t first, size_t count, taps *t)
{
    const xcvm_GridSample_args *a = s->args;
    const size_t spatial = (size_t)s->spatial;
    float grid[POINTS * XCVM_MAX_RANK], along[POINTS];
    xcvm_read_floats(a->grid, (n * s->points + first) * spatial, count * spatial, grid);
    for (size_t d = 0; d < spatial; d++) {
        /* The first coordinate belongs to the last dimension. */
        for (size_t i = 0; i < count; i++)
            along[i] = grid[i * spatial + spatial - 1 - d];
        find_taps(s, count, along, a->x->dims[2 + d], &t[d]);
    }
}

/* Computes blocks [begin, end) of batch entry n. */
static void sample_portion(const sampling *s, size_t n, size_t begin, size_t end, xcvm_poller *poller)
{
    const xcvm_GridSample_args *a = s->args;
    const size_t channels = (size_t)a->x->dims[1];
    taps t[XCVM_MAX_RANK];
    portion p;
    for (size_t i = begin; i < end && xcvm_poll_after(poller, POINTS * (size_t)s->spatial) == XCVM_OK; i++) {
        const size_t first = i * POINTS, count = s->points - first < POINTS ? s->points - first : POINTS;
        const size_t kept = (i - begin) * s->all_taps * POINTS;
        place_block(s, n, first, count, t);
        if (is_seldom(s)) {
            sum_seldom(s, n, first, count, t, poller);
            continue;
        }
        weights *w = &p.blocks[i - begin];
        w->offset = p.offsets + kept;
        w->weight = p.weights + kept;
        w->count = count;
        w->pairs = false;
        combine(s, t, w);
        if (s->spatial == 2 && s->taps == 2 && channels >= FEW_CHANNELS)
            find_pairs(s, w);
    }
    for (size_t c = n * channels; !is_seldom(s) && c < (n + 1) * channels; c++)
        for (size_t i = begin; i < end && xcvm_poll_after(poller, s->all_taps) == XCVM_OK; i++)
            sum_taps(&p.blocks[i - begin], s->all_taps, XCVM_CDATA(float, a->x) + c * s->plane,
                     XCVM_DATA(float, a->y) + c * s->points + i * POINTS);
}

/* The range is over blocks of points. */
static void sample_blocks(void *context, size_t begin, size_t end, int worker)
{
    (void)worker;
    const sampling *s = context;
    const size_t blocks = (s->points + POINTS - 1) / POINTS;
    xcvm_poller poller = xcvm_poller_of(s->k);
    for (size_t i = begin, next; i < end && xcvm_poll_after(&poller, 1) == XCVM_OK; i = next) {
        const size_t n = i / blocks, first = i % blocks;
        next = i + s->at_once;
        next = next < end ? next : end;
        next = next < (n + 1) * blocks ? next : (n + 1) * blocks;
        sample_portion(s, n, first, first + (next - i), &poller);
    }
}

XCVM_KERNEL(GridSample)
{
    if (xcvm_element_count(a->y) == 0)
        return XCVM_OK;
    XCVM_CHECK(k->error, xcvm_element_count(a->x) != 0, SHAPE_MISMATCH, "x is empty, it cannot be sampled");
    sampling s = {.k = k, .args = a, .spatial = a->x->rank - 2, .points = 1, .plane = 1, .all_taps = 1};
    s.taps = a->mode == XCVM_GRID_MODE_nearest ? 1 : a->mode == XCVM_GRID_MODE_linear ? 2 : 4;
    for (int d = 2; d < a->x->rank; d++) {
        s.points *= (size_t)a->y->dims[d];
        s.plane *= (size_t)a->x->dims[d];
        s.all_taps *= s.taps;
    }
    const size_t blocks = (s.points + POINTS - 1) / POINTS;
    s.at_once = is_seldom(&s) || a->x->dims[1] < FEW_CHANNELS ? 1
                : FEW_TAPS / s.all_taps < MOST_BLOCKS         ? FEW_TAPS / s.all_taps
                                                              : MOST_BLOCKS;
    return xcvm_kernel_parallel(k, (size_t)a->x->dims[0] * blocks, s.at_once < 4 ? 4 : s.at_once, sample_blocks, &s);
}
