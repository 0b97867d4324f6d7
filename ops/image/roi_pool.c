/* RoiPool and MaxRoiPool: pooling of image regions over pixels or samples. */
#include "ops/util/floats.h"
#include "ops/image/roi.h"
#include "ops/image/sampling.h"

#include <math.h>

XCVM_SHAPE_RULE_OF(MaxRoiPool)
{
    XCVM_CHECK(t->error, a->pooled_shape.count == 2, INVALID_ARGUMENT,
               "pooled_shape has the wrong number of entries (%zu; expected 2)", a->pooled_shape.count);
    return xcvm_roi_shape(t, a->x, a->rois, 5, a->pooled_shape.at[0], a->pooled_shape.at[1], a->y);
}

XCVM_SHAPE_RULE_OF(RoiPool)
{
    XCVM_CHECK(t->error, a->samples.count == 0 || a->samples.count == 2, INVALID_ARGUMENT,
               "samples has the wrong number of entries (%zu; expected 2 or none)", a->samples.count);
    return xcvm_roi_shape(t, a->x, a->rois, 4, a->output_height, a->output_width, a->y);
}

/* One axis of a region: its start and cell size. */
typedef struct extent {
    double begin, cell;
    int64_t samples; /* samples of a cell */
} extent;

typedef struct region {
    size_t image; /* index of the image in x */
    extent rows, columns;
} region;

/* Pixels [first, last) of a cell on an axis. */
typedef struct span {
    int64_t first, last;
} span;

typedef struct job {
    xcvm_kernel *k;
    const xcvm_value *x;
    xcvm_value *y;
    size_t count;    /* number of regions */
    region *regions; /* start of the scratch block, followed by the workers' memory */
    bool align, greatest;
    char *scratch;
    size_t scratch_each;
} job;

/* Memory of one worker. */
typedef struct desk {
    span *rows, *columns; /* of cells */
    int64_t left, right;  /* all `columns` are in [left, right) */
    double *line;         /* one number per pixel of a row */
    const region *region; /* the region of the spans */
} desk;

static inline double greater(double a, double b) { return b > a ? b : a; }

/* ---- Pixels ---- */

/* Corners are rounded to whole pixels. A cell includes all pixels that it touches, and is 0 without pixels. `inclusive`
 * is 1 if the last pixel belongs to the region. */
static extent whole_pixels(double begin, double end, double inclusive, int64_t cells)
{
    const double first = round(begin), last = round(end);
    return (extent){first, fmax(last - first + inclusive, 1) / (double)cells, 0};
}

static span pixels_of(const extent *e, int64_t cell, int64_t limit)
{
    const double low = floor((double)cell * e->cell) + e->begin, high = ceil((double)(cell + 1) * e->cell) + e->begin;
    return (span){(int64_t)fmin(fmax(low, 0), (double)limit), (int64_t)fmin(fmax(high, 0), (double)limit)};
}

static xcvm_status find_spans(const job *s, const region *r, desk *d, xcvm_poller *poller)
{
    for (int64_t i = 0; i < s->y->dims[2]; i++) {
        XCVM_TRY(xcvm_poll_after(poller, 1));
        d->rows[i] = pixels_of(&r->rows, i, s->x->dims[2]);
    }
    d->left = s->x->dims[3];
    d->right = 0;
    for (int64_t i = 0; i < s->y->dims[3]; i++) {
        XCVM_TRY(xcvm_poll_after(poller, 1));
        const span c = d->columns[i] = pixels_of(&r->columns, i, s->x->dims[3]);
        d->left = c.first < d->left ? c.first : d->left;
        d->right = c.last > d->right ? c.last : d->right;
    }
    d->region = r;
    return XCVM_OK;
}

/* Adds the elements of x from `at` to the line, or takes the maximum. */
static void add_row(const xcvm_value *x, size_t at, size_t count, bool greatest, double *restrict line)
{
    const float *restrict from = x->dtype == XCVM_F32 ? XCVM_CDATA(float, x) + at : NULL;
    if (from != NULL && greatest)
        for (size_t i = 0; i < count; i++)
            line[i] = greater(line[i], (double)from[i]);
    else if (from != NULL)
        for (size_t i = 0; i < count; i++)
            line[i] += (double)from[i];
    else
        for (size_t i = 0; i < count; i++) {
            const double v = xcvm_element_as_double(x, at + i);
            line[i] = greatest ? greater(line[i], v) : line[i] + v;
        }
}

/* Pools the cells of one channel, whose pixels begin at element `plane` of x: first over the rows of pixels, then over
 * columns. Empty cells are 0. */
static xcvm_status pool_pixels(const job *s, const desk *d, size_t plane, size_t at, xcvm_poller *poller)
{
    const double nothing = s->greatest ? -(double)INFINITY : 0;
    const size_t width = d->right > d->left ? (size_t)(d->right - d->left) : 0;
    for (int64_t y = 0; y < s->y->dims[2]; y++) {
        const span rows = d->rows[y];
        for (size_t i = 0; i < width && rows.first < rows.last; i++)
            d->line[i] = nothing;
        for (int64_t i = rows.first; i < rows.last; i++) {
            XCVM_TRY(xcvm_poll_after(poller, 1 + width));
            add_row(s->x, plane + (size_t)(i * s->x->dims[3] + d->left), width, s->greatest, d->line);
        }
        for (int64_t x = 0; x < s->y->dims[3]; x++, at++) {
            const span columns = d->columns[x];
            double result = nothing;
            if (rows.last <= rows.first || columns.last <= columns.first) {
                xcvm_write_double(s->y, at, 0);
                continue;
            }
            XCVM_TRY(xcvm_poll_after(poller, (size_t)(columns.last - columns.first)));
            for (int64_t i = columns.first - d->left; i < columns.last - d->left; i++)
                result = s->greatest ? greater(result, d->line[i]) : result + d->line[i];
            if (!s->greatest)
                result /= (double)((rows.last - rows.first) * (columns.last - columns.first));
            if (s->y->dtype == XCVM_F32)
                XCVM_DATA(float, s->y)[at] = (float)result;
            else
                xcvm_write_double(s->y, at, result);
        }
        XCVM_TRY(xcvm_poll_after(poller, 1 + (size_t)s->y->dims[3]));
    }
    return XCVM_OK;
}

/* ---- Samples ---- */

/* If the number of samples is not given, there is one per pixel of a cell. */
static extent sampled(double begin, double end, int64_t cells, int64_t samples)
{
    const double cell = fmax(end - begin, 1) / (double)cells;
    return (extent){begin, cell, xcvm_cell_samples(samples, cell)};
}

static double place_of(const extent *e, int64_t cell, int64_t sample)
{
    return e->begin + (double)cell * e->cell + ((double)sample + 0.5) * e->cell / (double)e->samples;
}

/* Samples outside the image count as 0 for the mean, and are ignored for the maximum. */
static double align_cell(const job *s, size_t plane, const extent *rows, const extent *columns, int64_t y, int64_t x,
                         xcvm_poller *poller)
{
    double sum = 0, greatest = -INFINITY;
    for (int64_t i = 0; i < rows->samples; i++) {
        const double row = place_of(rows, y, i);
        if (!(row >= -1 && row <= (double)s->x->dims[2]))
            continue;
        if (xcvm_poll_after(poller, (size_t)columns->samples) != XCVM_OK)
            break;
        for (int64_t j = 0; j < columns->samples; j++) {
            const double column = place_of(columns, x, j);
            if (column >= -1 && column <= (double)s->x->dims[3]) {
                const double sample = xcvm_roi_sample(s->x, plane, row, column);
                sum += sample;
                greatest = greater(greatest, sample);
            }
        }
    }
    return s->greatest ? greatest : sum / (double)(rows->samples * columns->samples);
}

static xcvm_status pool_samples(const job *s, const region *r, size_t plane, size_t at, xcvm_poller *poller)
{
    for (int64_t y = 0; y < s->y->dims[2]; y++)
        for (int64_t x = 0; x < s->y->dims[3]; x++) {
            XCVM_TRY(xcvm_poll_after(poller, 1));
            xcvm_write_double(s->y, at++, align_cell(s, plane, &r->rows, &r->columns, y, x, poller));
        }
    return XCVM_OK;
}

/* ---- All regions ---- */

static desk desk_of(const job *s, int worker)
{
    desk d = {.line = (double *)(void *)(s->scratch + (size_t)worker * s->scratch_each)};
    d.rows = (span *)(void *)(d.line + s->x->dims[3]);
    d.columns = d.rows + s->y->dims[2];
    return d;
}

/* Items are channels of regions. */
static void pool_regions(void *context, size_t begin, size_t end, int worker)
{
    const job *s = context;
    const size_t channels = (size_t)s->x->dims[1], plane = (size_t)(s->x->dims[2] * s->x->dims[3]);
    xcvm_poller poller = xcvm_poller_of(s->k);
    desk d = desk_of(s, worker);
    xcvm_status status = XCVM_OK;
    for (size_t item = begin; item < end && status == XCVM_OK; item++) {
        const region *r = &s->regions[item / channels];
        const size_t from = (r->image * channels + item % channels) * plane;
        const size_t at = item * (size_t)(s->y->dims[2] * s->y->dims[3]);
        if (s->align) {
            status = pool_samples(s, r, from, at, &poller);
            continue;
        }
        if (d.region != r && find_spans(s, r, &d, &poller) != XCVM_OK)
            return;
        status = pool_pixels(s, &d, from, at, &poller);
    }
}

/* Allocates memory for the regions, which the caller fills in, and for the workers. */
static xcvm_status take_memory(job *s)
{
    size_t regions, bytes;
    XCVM_CHECK(s->k->error,
               xcvm_size_mul((size_t)(s->y->dims[2] + s->y->dims[3]), sizeof(span), &s->scratch_each) &&
                   xcvm_size_mul((size_t)s->x->dims[3], sizeof(double), &bytes) &&
                   xcvm_size_add(s->scratch_each, bytes, &s->scratch_each) && s->scratch_each <= PTRDIFF_MAX &&
                   xcvm_size_mul(s->count, sizeof(region), &regions) && regions <= PTRDIFF_MAX,
               OUT_OF_MEMORY, "there are too many cells");
    s->scratch_each = s->align ? 0 : xcvm_round_up(s->scratch_each, XCVM_ALIGNMENT);
    regions = xcvm_round_up(regions, XCVM_ALIGNMENT);
    XCVM_CHECK(s->k->error,
               xcvm_size_mul(s->scratch_each, (size_t)xcvm_threads_count(s->k->threads), &bytes) &&
                   xcvm_size_add(bytes, regions, &bytes),
               OUT_OF_MEMORY, "there are too many cells");
    s->regions = xcvm_kernel_scratch(s->k, bytes);
    if (s->regions == NULL)
        return XCVM_OUT_OF_MEMORY;
    s->scratch = (char *)s->regions + regions;
    return XCVM_OK;
}

static xcvm_status pool_all(job *s)
{
    xcvm_parallel(s->k->threads, s->count * (size_t)s->x->dims[1], 1, pool_regions, s);
    return xcvm_kernel_poll(s->k);
}

XCVM_KERNEL(MaxRoiPool)
{
    job s = {.k = k, .x = a->x, .y = a->y, .count = (size_t)a->rois->dims[0], .greatest = true};
    XCVM_TRY(take_memory(&s));
    xcvm_poller poller = xcvm_poller_of(k);
    for (size_t r = 0; r < s.count; r++) {
        double roi[5]; /* sample, left, top, right, bottom */
        XCVM_TRY(xcvm_poll_after(&poller, 1));
        for (size_t i = 0; i < 5; i++) {
            roi[i] = xcvm_element_as_double(a->rois, r * 5 + i) * (i == 0 ? 1 : a->spatial_scale);
            XCVM_CHECK(k->error, fabs(roi[i]) < 1e9, OUT_OF_RANGE, "entry %zu of roi %zu is %g", i, r, roi[i]);
        }
        XCVM_CHECK(k->error, roi[0] >= 0 && roi[0] < (double)a->x->dims[0], OUT_OF_RANGE,
                   "roi %zu is of sample %g, x has %lld", r, roi[0], (long long)a->x->dims[0]);
        s.regions[r] = (region){.image = (size_t)roi[0],
                                .rows = whole_pixels(roi[2], roi[4], 1, a->y->dims[2]),
                                .columns = whole_pixels(roi[1], roi[3], 1, a->y->dims[3])};
    }
    return pool_all(&s);
}

XCVM_KERNEL(RoiPool)
{
    job s = {.k = k,
             .x = a->x,
             .y = a->y,
             .count = (size_t)a->rois->dims[0],
             .align = a->samples.count == 2,
             .greatest = a->mode == XCVM_ROI_MODE_max};
    XCVM_TRY(xcvm_roi_check(k, a->x, a->batch_indices, s.count));
    XCVM_TRY(take_memory(&s));
    xcvm_poller poller = xcvm_poller_of(k);
    for (size_t r = 0; r < s.count; r++) {
        double corner[4]; /* top, left, bottom, right */
        XCVM_TRY(xcvm_poll_after(&poller, 1));
        for (size_t i = 0; i < 4; i++) {
            corner[i] = xcvm_element_as_double(a->rois, r * 4 + i) * a->spatial_scale;
            XCVM_CHECK(k->error, fabs(corner[i]) < 1e9, OUT_OF_RANGE, "entry %zu of roi %zu is %g", i, r, corner[i]);
        }
        s.regions[r] = (region){.image = (size_t)xcvm_element_as_int(a->batch_indices, r),
                                .rows = s.align ? sampled(corner[0], corner[2], a->output_height, a->samples.at[0])
                                                : whole_pixels(corner[0], corner[2], 0, a->output_height),
                                .columns = s.align ? sampled(corner[1], corner[3], a->output_width, a->samples.at[1])
                                                   : whole_pixels(corner[1], corner[3], 0, a->output_width)};
    }
    return pool_all(&s);
}
