/* RoiAlign: regions of an image sampled between its pixels.
 *
 * The weight of a pixel in a bilinear sample is the product of a row weight and a column weight. So weights are
 * computed once per region and axis. Pixels are reduced over rows first, then over columns: by weighted sums or,
 * because weights are not negative, by maxima. A vector has the same pixel of several channels. */
#include "ops/util/floats.h"
#include "ops/image/roi.h"
#include "ops/image/sampling.h"
#include "ops/simd/lanes.h"

#include <math.h>

enum {
    CHANNELS = XCVM_LANES, /* channels of a block */
    PIECES = 11            /* parts of a worker's memory */
};

/* A pixel row or column and its weights in a cell: for means the sum of the samples' weights, for maxima the largest
 * and the smallest positive one. */
typedef struct tap {
    size_t at;
    double weight, least;
} tap;

/* The taps of an axis' cells: cell i has [first[i], first[i + 1]). */
typedef struct axis {
    size_t *first;
    tap *taps;
    bool *zero; /* for maxima: cell i has a sample outside, or a neighbor of weight 0 */
} axis;

typedef struct region {
    double begin[2], cell[2]; /* of rows, then columns */
    int64_t samples[2];       /* of a cell */
    size_t plane;             /* first element of channel 0 of its image */
} region;

typedef struct roi_align_loop {
    xcvm_kernel *k;
    const xcvm_RoiAlign_args *a;
    size_t most_taps[2]; /* maximum over regions, of rows and of columns */
    char *scratch;
    size_t scratch_each, offsets[PIECES]; /* of a worker's memory */
} roi_align_loop;

static region region_of(const xcvm_RoiAlign_args *a, size_t r)
{
    const bool legacy = a->coordinate_transformation_mode == XCVM_ROI_COORDINATE_output_half_pixel;
    const int64_t cells[2] = {a->output_height, a->output_width};
    region result = {.plane = (size_t)xcvm_element_as_int(a->batch_indices, r) *
                              (size_t)(a->x->dims[1] * a->x->dims[2] * a->x->dims[3])};
    for (size_t d = 0; d < 2; d++) {
        const double offset = legacy ? 0 : 0.5;
        const double begin = xcvm_element_as_double(a->rois, r * 4 + 1 - d) * a->spatial_scale - offset;
        double size = xcvm_element_as_double(a->rois, r * 4 + 3 - d) * a->spatial_scale - offset - begin;
        if (legacy)
            size = fmax(size, 1);
        result.begin[d] = begin;
        result.cell[d] = size / (double)cells[d];
        result.samples[d] = xcvm_cell_samples(a->sampling_ratio, result.cell[d]);
    }
    return result;
}

static double sample_place(const region *g, int d, int64_t cell, int64_t sample)
{
    return g->begin[d] + (double)cell * g->cell[d] + ((double)sample + 0.5) * g->cell[d] / (double)g->samples[d];
}

/* ---- Taps ---- */

/* Samples come in order of position, so a pixel that already has a tap is one of the last three. `end` is the end of
 * the list; the taps of this cell start at `begin` and are at most `most`. */
static void add_tap(tap *taps, size_t begin, size_t most, size_t *end, size_t at, double weight, bool greatest)
{
    size_t i = *end;
    while (i > begin && i + 3 > *end && taps[i - 1].at != at)
        i--;
    const bool found = i > begin && i + 3 > *end;
    if (!found && *end - begin < most) {
        taps[(*end)++] = (tap){at, weight, weight};
        return;
    }
    tap *t = &taps[found ? i - 1 : *end - 1];
    t->weight = greatest ? fmax(t->weight, weight) : t->weight + weight;
    t->least = fmin(t->least, weight);
}

/* Samples in [-1, length] count; those beyond the outer pixels use these. */
static xcvm_status fill_axis(xcvm_poller *poller, const region *g, int d, int64_t cells, int64_t length, size_t most,
                             bool greatest, axis *to)
{
    const double share = greatest || g->samples[d] == 0 ? 1 : 1 / (double)g->samples[d];
    size_t end = 0;
    for (int64_t cell = 0; cell < cells; cell++) {
        const size_t begin = to->first[cell] = end;
        to->zero[cell] = g->samples[d] == 0;
        XCVM_TRY(xcvm_poll_after(poller, 1));
        for (int64_t i = 0; i < g->samples[d]; i++) {
            XCVM_TRY(xcvm_poll_after(poller, 1));
            double place = sample_place(g, d, cell, i);
            if (!(place >= -1 && place <= (double)length)) {
                to->zero[cell] = true;
                continue;
            }
            place = fmin(fmax(place, 0), (double)(length - 1));
            const size_t low = (size_t)place;
            const double beyond = place - (double)low;
            add_tap(to->taps, begin, most, &end, low, share * (1 - beyond), greatest);
            if (beyond > 0)
                add_tap(to->taps, begin, most, &end, low + 1, share * beyond, greatest);
            else
                to->zero[cell] = true;
        }
    }
    to->first[cells] = end;
    return XCVM_OK;
}

/* Lists the pixel rows of the taps, and replaces them in the taps by list indices. */
static xcvm_status list_rows(xcvm_poller *poller, axis *rows, int64_t cells, size_t *list, size_t *listed)
{
    size_t count = 0;
    for (size_t i = 0; i < rows->first[cells]; i++) {
        size_t at = count;
        while (at > 0 && list[at - 1] != rows->taps[i].at)
            at--;
        if (at == 0) {
            XCVM_TRY(xcvm_poll_after(poller, count));
            list[count] = rows->taps[i].at;
            at = ++count;
        }
        XCVM_TRY(xcvm_poll_after(poller, 1 + count - at));
        rows->taps[i].at = at - 1;
    }
    *listed = count;
    return XCVM_OK;
}

/* Memory of one worker. A vector per entry has one number per channel of a block. */
typedef struct desk {
    axis rows, columns;
    size_t *list; /* pixel rows */
    size_t listed;
    size_t left, right; /* pixel columns [left, right) include all that have taps */
    void *line;         /* a vector per pixel of a row: f64 if x is f64, else f32 */
    double *sums;       /* a vector per listed row and column of cells: their reductions */
    double *cells;      /* a vector per cell of a row */
    float *narrow;      /* the same of one channel */
    size_t region;      /* the region of the axes */
} desk;

static desk desk_of(const roi_align_loop *w, int worker)
{
    char *at = w->scratch + (size_t)worker * w->scratch_each;
    void *pieces[PIECES];
    for (size_t i = 0; i < PIECES; i++)
        pieces[i] = at + w->offsets[i];
    return (desk){.line = pieces[0],
                  .sums = pieces[1],
                  .cells = pieces[2],
                  .rows = {pieces[3], pieces[4], pieces[5]},
                  .columns = {pieces[6], pieces[7], pieces[8]},
                  .list = pieces[9],
                  .narrow = pieces[10],
                  .region = SIZE_MAX};
}

static xcvm_status prepare(const roi_align_loop *w, xcvm_poller *poller, size_t r, desk *d)
{
    const xcvm_RoiAlign_args *a = w->a;
    const region g = region_of(a, r);
    const bool greatest = a->mode == XCVM_ROI_MODE_max;
    XCVM_TRY(fill_axis(poller, &g, 0, a->output_height, a->x->dims[2], w->most_taps[0], greatest, &d->rows));
    XCVM_TRY(fill_axis(poller, &g, 1, a->output_width, a->x->dims[3], w->most_taps[1], greatest, &d->columns));
    d->region = r;
    d->left = (size_t)a->x->dims[3];
    d->right = 0;
    for (size_t i = 0; i < d->columns.first[a->output_width]; i++) {
        const size_t at = d->columns.taps[i].at;
        XCVM_TRY(xcvm_poll_after(poller, 1));
        d->left = at < d->left ? at : d->left;
        d->right = at >= d->right ? at + 1 : d->right;
    }
    return list_rows(poller, &d->rows, a->output_height, d->list, &d->listed);
}

/* ---- Reductions ---- */

/* Half a block of channels. */
typedef double half __attribute__((vector_size(4 * XCVM_LANES), aligned(8), may_alias));
typedef int64_t half_mask __attribute__((vector_size(4 * XCVM_LANES)));
typedef float half_narrow __attribute__((vector_size(2 * XCVM_LANES), aligned(4), may_alias));

enum { HALF = CHANNELS / 2 };

XCVM_INLINE half choose(half_mask mask, half a, half b)
{
    return (half)(((half_mask)a & mask) | ((half_mask)b & ~mask));
}

/* Returns the larger one; NaN only if both are. */
XCVM_INLINE half greater(half a, half b) { return choose((b > a) | (a != a), b, a); }

XCVM_INLINE half reduce_op(half so_far, const tap *t, half v, bool greatest)
{
    if (!greatest)
        return so_far + t->weight * v;
    const half most = t->weight * v, least = t->least * v;
    return greater(so_far, choose(most > least, most, least));
}

/* For `greater`, NaN is lower than any number. */
XCVM_INLINE half nothing_yet(bool greatest) { return (half){0} + (greatest ? (double)NAN : 0.0); }

/* Loads the pixels of row `row` that taps may use, of the channels whose images begin at elements `planes`. */
static void load_line(const desk *d, const xcvm_value *x, const size_t planes[CHANNELS], size_t row)
{
    const size_t width = (size_t)x->dims[3], start = row * width;
    if (x->dtype != XCVM_F32 || width < XCVM_LANES) {
        for (size_t i = d->left; i < d->right; i++)
            for (size_t c = 0; c < CHANNELS; c++) {
                const double v = xcvm_element_as_double(x, planes[c] + start + i);
                if (x->dtype == XCVM_F64)
                    ((double *)d->line)[i * CHANNELS + c] = v;
                else
                    ((float *)d->line)[i * CHANNELS + c] = (float)v;
            }
        return;
    }
    for (size_t i = d->left; i < d->right; i += XCVM_LANES) {
        /* The last vector may overlap the previous one. */
        const size_t at = i + XCVM_LANES <= width ? i : width - XCVM_LANES;
        xcvm_lanes block[XCVM_LANES];
        for (size_t c = 0; c < CHANNELS; c++)
            block[c] = xcvm_lanes_load(XCVM_CDATA(float, x) + planes[c] + start + at);
        xcvm_lanes_transpose(block);
        for (size_t j = 0; j < XCVM_LANES; j++)
            xcvm_lanes_store((float *)d->line + (at + j) * CHANNELS, block[j]);
    }
}

/* Reduces the line over each column of cells. */
XCVM_INLINE void fold_line(const desk *d, size_t width, bool wide, bool greatest, double *sums)
{
    const tap *t = d->columns.taps;
    for (size_t c = 0; c < width; c++, sums += CHANNELS) {
        half low = nothing_yet(greatest), high = low;
        for (const tap *end = d->columns.taps + d->columns.first[c + 1]; t < end; t++) {
            const double *from = (const double *)d->line + t->at * CHANNELS;
            const float *narrow = (const float *)d->line + t->at * CHANNELS;
            low = reduce_op(low, t,
                            wide ? *(const half *)from : __builtin_convertvector(*(const half_narrow *)narrow, half),
                            greatest);
            high = reduce_op(high, t,
                             wide ? *(const half *)(from + HALF)
                                  : __builtin_convertvector(*(const half_narrow *)(narrow + HALF), half),
                             greatest);
        }
        *(half *)sums = low;
        *(half *)(sums + HALF) = high;
    }
}

/* Reduces the sums over row `r` of cells. */
XCVM_INLINE void fold_sums(const desk *d, size_t r, size_t width, bool greatest)
{
    const tap *begin = d->rows.taps + d->rows.first[r], *end = d->rows.taps + d->rows.first[r + 1];
    for (size_t c = 0; c < width; c++) {
        half low = nothing_yet(greatest), high = low;
        for (const tap *t = begin; t < end; t++) {
            const double *from = d->sums + (t->at * width + c) * CHANNELS;
            low = reduce_op(low, t, *(const half *)from, greatest);
            high = reduce_op(high, t, *(const half *)(from + HALF), greatest);
        }
        if (greatest && (d->rows.zero[r] || d->columns.zero[c])) {
            low = greater(low, (half){0});
            high = greater(high, (half){0});
        }
        *(half *)(d->cells + c * CHANNELS) = low;
        *(half *)(d->cells + c * CHANNELS + HALF) = high;
    }
}

/* Writes `count` channels of a row of cells, `cells` elements of y apart, from element `at`. */
static void write_cells(const desk *d, xcvm_value *y, size_t at, size_t cells, size_t width, size_t count)
{
    for (size_t channel = 0; channel < count; channel++, at += cells) {
        const double *from = d->cells + channel;
        float *to = y->dtype == XCVM_F32 ? XCVM_DATA(float, y) + at : d->narrow;
        if (y->dtype == XCVM_F64) {
            for (size_t c = 0; c < width; c++)
                XCVM_DATA(double, y)[at + c] = from[c * CHANNELS];
            continue;
        }
        for (size_t c = 0; c < width; c++)
            to[c] = (float)from[c * CHANNELS];
        if (to == d->narrow)
            xcvm_write_floats(to, width, y, at);
    }
}

/* Computes a block of channels of the region of the axes. */
XCVM_INLINE xcvm_status pool_block(const roi_align_loop *w, xcvm_poller *poller, const desk *d, size_t first,
                                   size_t count, bool wide, bool greatest)
{
    const xcvm_RoiAlign_args *a = w->a;
    const size_t height = (size_t)a->output_height, width = (size_t)a->output_width;
    const size_t pixels = (size_t)(a->x->dims[2] * a->x->dims[3]), image = region_of(a, d->region).plane;
    size_t planes[CHANNELS];
    for (size_t c = 0; c < CHANNELS; c++)
        planes[c] = image + (first + (c < count ? c : 0)) * pixels;
    for (size_t i = 0; i < d->listed; i++) {
        XCVM_TRY(xcvm_poll_after(poller, width + d->columns.first[width] + (d->right - d->left)));
        load_line(d, a->x, planes, d->list[i]);
        fold_line(d, width, wide, greatest, d->sums + i * width * CHANNELS);
    }
    for (size_t r = 0; r < height; r++) {
        XCVM_TRY(xcvm_poll_after(poller, width * (count + d->rows.first[r + 1] - d->rows.first[r])));
        fold_sums(d, r, width, greatest);
        write_cells(d, a->y, ((d->region * (size_t)a->x->dims[1] + first) * height + r) * width, height * width, width,
                    count);
    }
    return XCVM_OK;
}

/* Items are blocks of channels of regions. */
static void pool_regions(void *context, size_t begin, size_t end, int worker)
{
    const roi_align_loop *w = context;
    const xcvm_RoiAlign_args *a = w->a;
    const size_t channels = (size_t)a->x->dims[1], blocks = (channels + CHANNELS - 1) / CHANNELS;
    const bool wide = a->x->dtype == XCVM_F64, greatest = a->mode == XCVM_ROI_MODE_max;
    xcvm_poller poller = xcvm_poller_of(w->k);
    desk d = desk_of(w, worker);
    xcvm_status status = XCVM_OK;
    for (size_t item = begin; item < end && status == XCVM_OK; item++) {
        const size_t r = item / blocks, first = item % blocks * CHANNELS;
        const size_t count = channels - first < CHANNELS ? channels - first : CHANNELS;
        if (r != d.region && prepare(w, &poller, r, &d) != XCVM_OK)
            return;
        if (greatest)
            status = wide ? pool_block(w, &poller, &d, first, count, true, true)
                          : pool_block(w, &poller, &d, first, count, false, true);
        else
            status = wide ? pool_block(w, &poller, &d, first, count, true, false)
                          : pool_block(w, &poller, &d, first, count, false, false);
    }
}

/* ---- Kernel ---- */

/* Allocates memory for the regions with the most samples. */
static xcvm_status take_memory(roi_align_loop *w, size_t count)
{
    const xcvm_RoiAlign_args *a = w->a;
    const size_t cells[2] = {(size_t)a->output_height, (size_t)a->output_width}, vector = CHANNELS * sizeof(double);
    size_t taps[2], bytes = 0;
    xcvm_poller poller = xcvm_poller_of(w->k);
    for (size_t d = 0; d < 2; d++) {
        int64_t most = 0;
        for (size_t r = 0; r < count; r++) {
            const int64_t samples = region_of(a, r).samples[d];
            XCVM_TRY(xcvm_poll_after(&poller, 1));
            most = samples > most ? samples : most;
        }
        const int64_t pixels = a->x->dims[2 + d];
        w->most_taps[d] = (size_t)(2 * most < pixels ? 2 * most : pixels);
        XCVM_CHECK(w->k->error, xcvm_size_mul(w->most_taps[d], cells[d], &taps[d]), OUT_OF_MEMORY,
                   "the regions have too many samples");
    }
    const size_t rows = (size_t)a->x->dims[2] < taps[0] ? (size_t)a->x->dims[2] : taps[0];
    const struct {
        size_t count, times, size;
    } pieces[PIECES] = {
        {(size_t)a->x->dims[3], 1, vector}, {rows, cells[1], vector},     {cells[1], 1, vector},
        {cells[0] + 1, 1, sizeof(size_t)},  {taps[0], 1, sizeof(tap)},    {cells[0], 1, sizeof(bool)},
        {cells[1] + 1, 1, sizeof(size_t)},  {taps[1], 1, sizeof(tap)},    {cells[1], 1, sizeof(bool)},
        {rows, 1, sizeof(size_t)},          {cells[1], 1, sizeof(float)},
    };
    for (size_t i = 0; i < PIECES; i++) {
        size_t piece;
        w->offsets[i] = bytes;
        XCVM_CHECK(w->k->error,
                   xcvm_size_mul(pieces[i].count, pieces[i].times, &piece) &&
                       xcvm_size_mul(piece, pieces[i].size, &piece) && xcvm_size_add(bytes, piece, &bytes) &&
                       bytes <= PTRDIFF_MAX,
                   OUT_OF_MEMORY, "the regions have too many samples");
        bytes = xcvm_round_up(bytes, XCVM_ALIGNMENT);
    }
    w->scratch_each = bytes;
    XCVM_CHECK(w->k->error, xcvm_size_mul(bytes, (size_t)xcvm_threads_count(w->k->threads), &bytes), OUT_OF_MEMORY,
               "the regions have too many samples");
    w->scratch = xcvm_kernel_scratch(w->k, bytes);
    return w->scratch != NULL ? XCVM_OK : w->k->error != NULL ? w->k->error->status : XCVM_OUT_OF_MEMORY;
}

XCVM_KERNEL(RoiAlign)
{
    const size_t count = (size_t)a->rois->dims[0];
    roi_align_loop w = {.k = k, .a = a};
    XCVM_TRY(xcvm_roi_check(k, a->x, a->batch_indices, count));
    if (xcvm_element_count(a->y) == 0)
        return XCVM_OK;
    XCVM_TRY(take_memory(&w, count));
    xcvm_parallel(k->threads, count * (((size_t)a->x->dims[1] + CHANNELS - 1) / CHANNELS), 1, pool_regions, &w);
    return xcvm_kernel_poll(k);
}
