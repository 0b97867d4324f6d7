/* RoiAlign: regions of an image sampled between its pixels.
 *
 * The mean of a cell's bilinear samples is a sum over pixel rows and columns with weights that are products of one for
 * the row and one for the column. So the weights are made once for each region and axis, and each channel is summed
 * along its rows first, then across them. */
#include "ops/floats.h"
#include "ops/image/roi.h"
#include "ops/simd/lanes.h"

#include <math.h>

/* Of a cell, along an axis, where their number follows from the cell's size. */
enum { MOST_SAMPLES = 4096 };

/* A pixel row or column and its part in a cell. */
typedef struct tap {
    size_t at;
    double weight;
} tap;

/* The taps of an axis' cells: those of cell i are [first[i], first[i + 1]). */
typedef struct axis {
    size_t *first;
    tap *taps;
} axis;

typedef struct region {
    double begin[2], cell[2]; /* of rows, then columns */
    int64_t samples[2];       /* of a cell */
    size_t plane;             /* its image's first element, of channel 0 */
} region;

typedef struct work {
    xcvm_kernel *k;
    const xcvm_RoiAlign_args *a;
    size_t most_taps[2]; /* of a cell of any region, of rows and of columns */
    size_t most_rows;    /* of pixels, in any region */
    char *scratch;
    size_t scratch_each;
} work;

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
        result.samples[d] =
            a->sampling_ratio > 0 ? a->sampling_ratio : (int64_t)fmin(fmax(ceil(result.cell[d]), 0), MOST_SAMPLES);
    }
    return result;
}

static double sample_place(const region *g, int d, int64_t cell, int64_t sample)
{
    return g->begin[d] + (double)cell * g->cell[d] + ((double)sample + 0.5) * g->cell[d] / (double)g->samples[d];
}

/* ---- Means ---- */

/* Samples come in the order of their places, so a pixel that has a tap already has one of the last three. `end` is
 * where the next tap goes; those of this cell begin at `begin` and are `most` at most. */
static void add_tap(tap *taps, size_t begin, size_t most, size_t *end, size_t at, double weight)
{
    size_t i = *end;
    while (i > begin && i + 3 > *end && taps[i - 1].at != at)
        i--;
    const bool found = i > begin && i + 3 > *end;
    if (found || *end - begin == most)
        taps[found ? i - 1 : *end - 1].weight += weight;
    else
        taps[(*end)++] = (tap){at, weight};
}

/* Samples from -1 to `length` count; those beyond the outer pixels take these. */
static xcvm_status fill_axis(xcvm_poller *poller, const region *g, int d, int64_t cells, int64_t length, size_t most,
                             axis *to)
{
    const double share = 1 / (double)(g->samples[d] > 0 ? g->samples[d] : 1);
    size_t end = 0;
    for (int64_t cell = 0; cell < cells; cell++) {
        const size_t begin = to->first[cell] = end;
        XCVM_TRY(xcvm_poll_after(poller, 1));
        for (int64_t i = 0; i < g->samples[d]; i++) {
            XCVM_TRY(xcvm_poll_after(poller, 1));
            double place = sample_place(g, d, cell, i);
            if (!(place >= -1 && place <= (double)length))
                continue;
            place = fmin(fmax(place, 0), (double)(length - 1));
            const size_t low = (size_t)place;
            const double beyond = place - (double)low;
            add_tap(to->taps, begin, most, &end, low, share * (1 - beyond));
            if (beyond > 0)
                add_tap(to->taps, begin, most, &end, low + 1, share * beyond);
        }
    }
    to->first[cells] = end;
    return XCVM_OK;
}

/* Lists the pixel rows that the taps name, and has the taps name places in the list instead. */
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

/* A worker's memory. */
typedef struct desk {
    axis rows, columns;
    size_t *list; /* pixel rows */
    double *sums; /* of each listed row, for each column of cells */
    float *line;  /* a row of cells */
    size_t listed;
    size_t region; /* that the axes are for */
} desk;

static desk desk_of(const work *w, int worker)
{
    const xcvm_RoiAlign_args *a = w->a;
    const size_t height = (size_t)a->output_height, width = (size_t)a->output_width;
    desk d = {.region = SIZE_MAX};
    d.rows.taps = (tap *)(void *)(w->scratch + (size_t)worker * w->scratch_each);
    d.columns.taps = d.rows.taps + w->most_taps[0] * height;
    d.sums = (double *)(void *)(d.columns.taps + w->most_taps[1] * width);
    d.list = (size_t *)(void *)(d.sums + w->most_rows * width);
    d.rows.first = d.list + w->most_rows;
    d.columns.first = d.rows.first + height + 1;
    d.line = (float *)(void *)(d.columns.first + width + 1);
    return d;
}

static xcvm_status prepare(const work *w, xcvm_poller *poller, size_t r, desk *d)
{
    const xcvm_RoiAlign_args *a = w->a;
    const region g = region_of(a, r);
    XCVM_TRY(fill_axis(poller, &g, 0, a->output_height, a->x->dims[2], w->most_taps[0], &d->rows));
    XCVM_TRY(fill_axis(poller, &g, 1, a->output_width, a->x->dims[3], w->most_taps[1], &d->columns));
    d->region = r;
    return list_rows(poller, &d->rows, a->output_height, d->list, &d->listed);
}

/* Sums the listed rows of the image that begins at element `plane` over each column of cells. */
XCVM_INLINE void sum_rows(xcvm_poller *poller, const desk *d, const xcvm_value *x, size_t plane, size_t width,
                          bool is_f32)
{
    for (size_t i = 0; i < d->listed && xcvm_poll_after(poller, width + d->columns.first[width]) == XCVM_OK; i++) {
        const size_t row = plane + d->list[i] * (size_t)x->dims[3];
        const float *from = is_f32 ? XCVM_CDATA(float, x) + row : NULL;
        double *to = d->sums + i * width;
        const tap *t = d->columns.taps;
        for (size_t c = 0; c < width; c++) {
            double sum = 0;
            for (const tap *end = d->columns.taps + d->columns.first[c + 1]; t < end; t++)
                sum += t->weight * (is_f32 ? (double)from[t->at] : xcvm_element_as_double(x, row + t->at));
            to[c] = sum;
        }
    }
}

static void write_cells(xcvm_poller *poller, const desk *d, xcvm_value *y, size_t at, size_t height, size_t width)
{
    for (size_t r = 0; r < height; r++) {
        const tap *begin = d->rows.taps + d->rows.first[r], *end = d->rows.taps + d->rows.first[r + 1];
        if (xcvm_poll_after(poller, width * (size_t)(1 + end - begin)) != XCVM_OK)
            return;
        for (size_t c = 0; c < width; c++) {
            double sum = 0;
            for (const tap *t = begin; t < end; t++)
                sum += t->weight * d->sums[t->at * width + c];
            if (y->dtype == XCVM_F64)
                XCVM_DATA(double, y)[at + r * width + c] = sum;
            else
                d->line[c] = (float)sum;
        }
        if (y->dtype != XCVM_F64)
            xcvm_write_floats(d->line, width, y, at + r * width);
    }
}

static void average_regions(void *context, size_t begin, size_t end, int worker)
{
    const work *w = context;
    const xcvm_RoiAlign_args *a = w->a;
    const size_t channels = (size_t)a->x->dims[1], pixels = (size_t)(a->x->dims[2] * a->x->dims[3]);
    xcvm_poller poller = xcvm_poller_of(w->k);
    const size_t height = (size_t)a->output_height, width = (size_t)a->output_width;
    desk d = desk_of(w, worker);
    for (size_t item = begin; item < end; item++) {
        const size_t r = item / channels, plane = region_of(a, r).plane + item % channels * pixels;
        if (r != d.region && prepare(w, &poller, r, &d) != XCVM_OK)
            return;
        if (a->x->dtype == XCVM_F32)
            sum_rows(&poller, &d, a->x, plane, width, true);
        else
            sum_rows(&poller, &d, a->x, plane, width, false);
        write_cells(&poller, &d, a->y, item * height * width, height, width);
    }
}

/* ---- Maxima ---- */

static xcvm_status greatest_of_cell(const work *w, xcvm_poller *poller, const region *g, size_t plane, int64_t y,
                                    int64_t x, double *result)
{
    XCVM_TRY(xcvm_poll_after(poller, 1));
    *result = 0;
    for (int64_t i = 0; i < g->samples[0]; i++)
        for (int64_t j = 0; j < g->samples[1]; j++) {
            XCVM_TRY(xcvm_poll_after(poller, 1));
            const double sample =
                xcvm_roi_sample(w->a->x, plane, sample_place(g, 0, y, i), sample_place(g, 1, x, j), true);
            *result = i == 0 && j == 0 ? sample : fmax(*result, sample);
        }
    return XCVM_OK;
}

static void greatest_of_regions(void *context, size_t begin, size_t end, int worker)
{
    (void)worker;
    const work *w = context;
    xcvm_poller poller = xcvm_poller_of(w->k);
    const xcvm_RoiAlign_args *a = w->a;
    const size_t channels = (size_t)a->x->dims[1], pixels = (size_t)(a->x->dims[2] * a->x->dims[3]);
    for (size_t item = begin; item < end; item++) {
        const region g = region_of(a, item / channels);
        const size_t plane = g.plane + item % channels * pixels;
        for (int64_t y = 0; y < a->output_height; y++)
            for (int64_t x = 0; x < a->output_width; x++) {
                double greatest;
                if (greatest_of_cell(w, &poller, &g, plane, y, x, &greatest) != XCVM_OK)
                    return;
                xcvm_write_double(a->y,
                                  (size_t)((int64_t)item * a->output_height + y) * (size_t)a->output_width + (size_t)x,
                                  greatest);
            }
    }
}

/* ---- */

/* Memory for the regions with the most samples. */
static xcvm_status take_memory(work *w, size_t count)
{
    const xcvm_RoiAlign_args *a = w->a;
    const size_t height = (size_t)a->output_height, width = (size_t)a->output_width;
    size_t bytes = 0, sums, row_taps = 0;
    for (size_t d = 0; d < 2; d++) {
        int64_t most = 0;
        for (size_t r = 0; r < count; r++) {
            const int64_t samples = region_of(a, r).samples[d];
            most = samples > most ? samples : most;
        }
        const int64_t pixels = a->x->dims[2 + d];
        w->most_taps[d] = (size_t)(2 * most < pixels ? 2 * most : pixels);
        XCVM_CHECK(w->k->error,
                   xcvm_size_mul(w->most_taps[d], d == 0 ? height : width, &sums) &&
                       xcvm_size_mul(sums, sizeof(tap), &sums) && xcvm_size_add(bytes, sums, &bytes),
                   OUT_OF_MEMORY, "the regions have too many samples");
        row_taps = d == 0 ? sums / sizeof(tap) : row_taps;
    }
    w->most_rows = (size_t)a->x->dims[2] < row_taps ? (size_t)a->x->dims[2] : row_taps;
    const size_t fixed = (w->most_rows + height + width + 2) * sizeof(size_t) + width * sizeof(float);
    XCVM_CHECK(w->k->error,
               xcvm_size_mul(w->most_rows * sizeof(double), width, &sums) && xcvm_size_add(bytes, sums, &bytes) &&
                   xcvm_size_add(bytes, fixed + XCVM_ALIGNMENT, &bytes),
               OUT_OF_MEMORY, "the regions have too many samples");
    w->scratch_each = xcvm_round_up(bytes, XCVM_ALIGNMENT);
    XCVM_CHECK(w->k->error, xcvm_size_mul(w->scratch_each, (size_t)xcvm_threads_count(w->k->threads), &bytes),
               OUT_OF_MEMORY, "the regions have too many samples");
    w->scratch = xcvm_kernel_scratch(w->k, bytes);
    return w->scratch != NULL ? XCVM_OK : w->k->error != NULL ? w->k->error->status : XCVM_OUT_OF_MEMORY;
}

XCVM_KERNEL(RoiAlign)
{
    const size_t count = (size_t)a->rois->dims[0];
    work w = {.k = k, .a = a};
    XCVM_TRY(xcvm_roi_check(k, a->x, a->batch_indices, count));
    if (xcvm_element_count(a->y) == 0)
        return XCVM_OK;
    if (a->mode == XCVM_ROI_MODE_avg)
        XCVM_TRY(take_memory(&w, count));
    xcvm_parallel(k->threads, count * (size_t)a->x->dims[1], 1,
                  a->mode == XCVM_ROI_MODE_avg ? average_regions : greatest_of_regions, &w);
    return xcvm_kernel_poll(k);
}
