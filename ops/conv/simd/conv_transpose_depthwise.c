/* Depthwise transposed convolution. Results whose positions have the same remainder by the stride use the same window
 * positions, so they are a convolution of stride 1 with these. A band of the image is copied with zero padding. Each
 * window position is then the band at a constant offset, and the sums of all rows form one line. Finally, lines of
 * neighboring remainders are interleaved. */
#include "ops/conv/simd/conv.h"
#include "ops/conv/simd/conv_transpose.h"
#include "ops/util/grain.h"

enum {
    TAPS = 64,
    BAND = 10 * 1024, /* floats that stay in the first-level cache */
    VECTORS = 4,
    RUN = VECTORS * XCVM_LANES,
    THREAD_WORK = 50 * 1000
};

/* Window positions on an axis used by results of a remainder: result `remainder` + q * stride uses image position q +
 * shift. */
typedef struct meeting {
    size_t position;
    ptrdiff_t shift;
} meeting;

typedef struct plan {
    size_t rows, columns;    /* results of one remainder on both axes */
    size_t band;             /* rows of those in a band */
    ptrdiff_t above, before; /* smallest shifts, at most 0 */
    size_t lines, pitch;     /* image rows of a band; floats between them */
    size_t image_floats, sum_floats, row_floats;
} plan;

static size_t meetings_of(const xcvm_window *w, int axis, size_t remainder, meeting found[TAPS])
{
    size_t n = 0;
    for (size_t k = 0; k < w->kernel[axis]; k++) {
        const ptrdiff_t at = (ptrdiff_t)remainder + w->pad[axis] - (ptrdiff_t)(k * w->dilation[axis]);
        if (at % (ptrdiff_t)w->stride[axis] == 0)
            found[n++] = (meeting){k, at / (ptrdiff_t)w->stride[axis]};
    }
    return n;
}

/* Smallest and largest shift on an axis, including 0. */
static void reach_of(const xcvm_window *w, int axis, ptrdiff_t *least, ptrdiff_t *greatest)
{
    *least = *greatest = 0;
    for (size_t r = 0; r < w->stride[axis]; r++) {
        meeting found[TAPS];
        const size_t n = meetings_of(w, axis, r, found);
        for (size_t i = 0; i < n; i++) {
            *least = found[i].shift < *least ? found[i].shift : *least;
            *greatest = found[i].shift > *greatest ? found[i].shift : *greatest;
        }
    }
}

static plan plan_of(const xcvm_window *w)
{
    plan p = {.rows = (w->in[1] + w->stride[1] - 1) / w->stride[1],
              .columns = (w->in[2] + w->stride[2] - 1) / w->stride[2]};
    ptrdiff_t below, behind;
    reach_of(w, 1, &p.above, &below);
    reach_of(w, 2, &p.before, &behind);
    const size_t wide = p.columns + (size_t)behind;
    p.pitch = (size_t)-p.before + (wide > w->out[2] ? wide : w->out[2]);
    p.band = BAND / (p.pitch * (1 + w->stride[2]));
    p.band = p.band < 1 ? 1 : p.band < p.rows ? p.band : p.rows;
    p.lines = p.band + (size_t)(below - p.above);
    p.image_floats = xcvm_round_up(p.lines * p.pitch, RUN) + RUN;
    p.sum_floats = xcvm_round_up(p.band * p.pitch, RUN) + RUN;
    p.row_floats = xcvm_round_up((p.columns + XCVM_LANES) * w->stride[2], XCVM_LANES);
    return p;
}

static bool fits(const xcvm_conv_shape *s)
{
    const xcvm_window *w = &s->window;
    if (s->channels != 1 || s->outputs != 1 || !xcvm_window_is_flat(w))
        return false;
    for (int axis = 1; axis < XCVM_WINDOW_AXES; axis++) {
        const double reach = (double)w->kernel[axis] * (double)w->dilation[axis];
        if (w->kernel[axis] > TAPS || reach > 4.0 * (double)(w->in[axis] + 16) || w->stride[axis] > 4 ||
            w->pad[axis] > (ptrdiff_t)(4 * (w->in[axis] + 16)) || w->pad[axis] < -(ptrdiff_t)(4 * (w->in[axis] + 16)))
            return false;
    }
    return w->kernel[1] * w->kernel[2] <= TAPS;
}

static size_t floats_per_worker(const plan *p, const xcvm_window *w)
{
    return p->image_floats + w->stride[2] * p->sum_floats + p->row_floats;
}

static size_t scratch_of(const xcvm_conv_shape *s, int threads)
{
    const plan p = plan_of(&s->window);
    return floats_per_worker(&p, &s->window) * (size_t)threads * sizeof(float);
}

typedef struct transposed_loop {
    const xcvm_kernel *k;
    const xcvm_transposed *t;
    plan plan;
    float *scratch;
} transposed_loop;

/* Copies the image rows that results from row `first` of a remainder use, with zero padding. */
static void fill_band(const transposed_loop *l, const float *x, size_t first, float *band)
{
    const xcvm_window *w = &l->t->shape.window;
    const plan *p = &l->plan;
    const size_t before = (size_t)-p->before, behind = p->pitch - before - w->out[2];
    for (size_t i = 0; i < p->lines; i++, band += p->pitch) {
        const ptrdiff_t row = (ptrdiff_t)(first + i) + p->above;
        if (row < 0 || row >= (ptrdiff_t)w->out[1]) {
            memset(band, 0, p->pitch * sizeof *band);
            continue;
        }
        memset(band, 0, before * sizeof *band);
        xcvm_copy_floats(band + before, x + (size_t)row * w->out[2], w->out[2]);
        memset(band + before + w->out[2], 0, behind * sizeof *band);
    }
}

/* sums[i] = bias + sum of weights[t] * band[offsets[t] + i] */
XCVM_INLINE void sum_taps(const float *band, const size_t *offsets, const float *weights, const size_t taps, float bias,
                          size_t count, float *sums)
{
    for (size_t i = 0; i < count; i += RUN) {
        xcvm_lanes sum[VECTORS];
#pragma GCC unroll 4
        for (int j = 0; j < VECTORS; j++)
            sum[j] = xcvm_lanes_all(bias);
        for (size_t t = 0; t < taps; t++) {
            const xcvm_lanes weight = xcvm_lanes_all(weights[t]);
            const float *at = band + offsets[t] + i;
#pragma GCC unroll 4
            for (int j = 0; j < VECTORS; j++)
                sum[j] = xcvm_lanes_add_product(sum[j], weight, xcvm_lanes_load(at + j * XCVM_LANES));
        }
#pragma GCC unroll 4
        for (int j = 0; j < VECTORS; j++)
            xcvm_lanes_store(sums + i + j * XCVM_LANES, sum[j]);
    }
}

static void sum_remainder(const transposed_loop *l, const float *filter, float bias, const float *band, size_t down,
                          size_t across, size_t count, float *sums)
{
    const xcvm_window *w = &l->t->shape.window;
    const plan *p = &l->plan;
    meeting of_rows[TAPS], of_columns[TAPS];
    size_t offsets[TAPS], taps = 0;
    float weights[TAPS];
    const size_t rows = meetings_of(w, 1, down, of_rows), columns = meetings_of(w, 2, across, of_columns);
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < columns; j++, taps++) {
            offsets[taps] =
                (size_t)(of_rows[i].shift - p->above) * p->pitch + (size_t)(of_columns[j].shift - p->before);
            weights[taps] = filter[of_rows[i].position * w->kernel[2] + of_columns[j].position];
        }
    if (taps == 1)
        sum_taps(band, offsets, weights, 1, bias, count, sums);
    else if (taps == 2)
        sum_taps(band, offsets, weights, 2, bias, count, sums);
    else if (taps == 4)
        sum_taps(band, offsets, weights, 4, bias, count, sums);
    else
        sum_taps(band, offsets, weights, taps, bias, count, sums);
}

/* Interleaves a row of results from the sums of each remainder, which are sum_floats apart. */
static void merge_row(const transposed_loop *l, const float *sums, float *row, float *y)
{
    const xcvm_window *w = &l->t->shape.window;
    const plan *p = &l->plan;
    const size_t stride = w->stride[2];
    if (stride == 1) {
        xcvm_copy_floats(y, sums, w->in[2]);
        return;
    }
    if (stride == 2)
        for (size_t j = 0; j < p->columns; j += XCVM_LANES) {
            const xcvm_lanes even = xcvm_lanes_load(sums + j), odd = xcvm_lanes_load(sums + p->sum_floats + j);
            xcvm_lanes_store(row + 2 * j, xcvm_lanes_interleave_low(even, odd));
            xcvm_lanes_store(row + 2 * j + XCVM_LANES, xcvm_lanes_interleave_high(even, odd));
        }
    else
        for (size_t r = 0; r < stride; r++)
            for (size_t j = 0; j < p->columns; j++)
                row[j * stride + r] = sums[r * p->sum_floats + j];
    xcvm_copy_floats(y, row, w->in[2]);
}

static void run_channels(void *context, size_t begin, size_t end, int worker)
{
    const transposed_loop *l = context;
    const xcvm_transposed *t = l->t;
    const xcvm_window *w = &t->shape.window;
    const plan *p = &l->plan;
    float *band = l->scratch + (size_t)worker * floats_per_worker(p, w), *sums = band + p->image_floats;
    float *row = sums + w->stride[2] * p->sum_floats;
    xcvm_poller poller = xcvm_poller_of(l->k);
    memset(band, 0, p->image_floats * sizeof *band);
    for (size_t i = begin; i < end; i++) {
        const size_t channel = i % t->shape.group;
        const float *filter = t->w + channel * w->kernel_size, bias = t->b != NULL ? t->b[channel] : 0.0f;
        float *y = t->y + i * w->in_size;
        for (size_t first = 0; first < p->rows; first += p->band) {
            const size_t rows = p->rows - first < p->band ? p->rows - first : p->band;
            if (xcvm_poll_after(&poller, p->lines * p->pitch * (w->kernel_size + 4) / XCVM_LANES) != XCVM_OK)
                return;
            fill_band(l, t->x + i * w->out_size, first, band);
            for (size_t down = 0; down < w->stride[1]; down++) {
                for (size_t across = 0; across < w->stride[2]; across++)
                    sum_remainder(l, filter, bias, band, down, across, (rows - 1) * p->pitch + p->columns,
                                  sums + across * p->sum_floats);
                for (size_t q = 0; q < rows; q++) {
                    const size_t at = (first + q) * w->stride[1] + down;
                    if (at < w->in[1])
                        merge_row(l, sums + q * p->pitch, row, y + at * w->in[2]);
                }
            }
        }
    }
}

static xcvm_status run_depthwise(const xcvm_kernel *k, const xcvm_transposed *t, void *scratch)
{
    const xcvm_conv_shape *s = &t->shape;
    transposed_loop l = {.k = k, .t = t, .plan = plan_of(&s->window), .scratch = scratch};
    const double each = (double)s->window.in_size * (double)(s->window.kernel_size + 8);
    return xcvm_kernel_parallel(k, s->batch * s->group, xcvm_grain(THREAD_WORK, each), run_channels, &l);
}

const xcvm_transposed_algorithm xcvm_transposed_depthwise = {fits, true, true, scratch_of, run_depthwise};
