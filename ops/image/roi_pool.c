/* RoiPool and MaxRoiPool: regions of an image pooled pixel by pixel, or sample by sample. */
#include "ops/floats.h"
#include "ops/image/roi.h"

#include <math.h>

XCVM_SHAPE_RULE_OF(MaxRoiPool)
{
    XCVM_REQUIRE(t, a->pooled_shape.count == 2, INVALID_ARGUMENT, "pooled_shape has %zu entries, 2 are needed",
                 a->pooled_shape.count);
    return xcvm_roi_shape(t, a->x, a->rois, 5, a->pooled_shape.at[0], a->pooled_shape.at[1], a->y);
}

XCVM_SHAPE_RULE_OF(RoiPool)
{
    XCVM_REQUIRE(t, a->samples.count == 0 || a->samples.count == 2, INVALID_ARGUMENT,
                 "samples has %zu entries, 2 or none are needed", a->samples.count);
    return xcvm_roi_shape(t, a->x, a->rois, 4, a->output_height, a->output_width, a->y);
}

/* One axis of a region: where it begins, and how large its cells are. */
typedef struct extent {
    double begin, cell;
    int64_t samples; /* of a cell */
} extent;

/* Of what was added. */
typedef struct pooled {
    double sum, greatest;
} pooled;

static inline void add(pooled *p, double value)
{
    p->sum += value;
    p->greatest = fmax(p->greatest, value);
}

/* Corners are rounded to whole pixels, of which a cell takes all that it touches; one without pixels is 0. `inclusive`
 * is 1 where the last pixel belongs to the region. */
static extent whole_pixels(double begin, double end, double inclusive, int64_t cells)
{
    const double first = round(begin), last = round(end);
    return (extent){first, fmax(last - first + inclusive, 1) / (double)cells, 0};
}

static void pixels_of(const extent *e, int64_t cell, int64_t limit, int64_t *first, int64_t *last)
{
    const double low = floor((double)cell * e->cell) + e->begin, high = ceil((double)(cell + 1) * e->cell) + e->begin;
    *first = (int64_t)fmin(fmax(low, 0), (double)limit);
    *last = (int64_t)fmin(fmax(high, 0), (double)limit);
}

static double pool_cell(const xcvm_value *image, size_t plane, const extent *rows, const extent *columns, int64_t y,
                        int64_t x, bool greatest, xcvm_poller *poller)
{
    int64_t top, bottom, left, right;
    pixels_of(rows, y, image->dims[2], &top, &bottom);
    pixels_of(columns, x, image->dims[3], &left, &right);
    if (bottom <= top || right <= left)
        return 0;
    pooled p = {0, -INFINITY};
    for (int64_t i = top; i < bottom && xcvm_poll_after(poller, (size_t)(right - left)) == XCVM_OK; i++)
        for (int64_t j = left; j < right; j++)
            add(&p, xcvm_element_as_double(image, plane + (size_t)(i * image->dims[3] + j)));
    return greatest ? p.greatest : p.sum / (double)((bottom - top) * (right - left));
}

/* ---- MaxRoiPool ---- */

XCVM_KERNEL(MaxRoiPool)
{
    const int64_t *dims = a->x->dims, height = a->pooled_shape.at[0], width = a->pooled_shape.at[1];
    const size_t channels = (size_t)dims[1], plane = (size_t)(dims[2] * dims[3]);
    size_t at = 0;
    xcvm_poller poller = xcvm_poller_of(k);
    for (size_t r = 0; r < (size_t)a->rois->dims[0]; r++) {
        double roi[5]; /* sample, left, top, right, bottom */
        for (size_t i = 0; i < 5; i++) {
            roi[i] = xcvm_element_as_double(a->rois, r * 5 + i) * (i == 0 ? 1 : a->spatial_scale);
            XCVM_CHECK(k->error, fabs(roi[i]) < 1e9, OUT_OF_RANGE, "entry %zu of roi %zu is %g", i, r, roi[i]);
        }
        XCVM_CHECK(k->error, roi[0] >= 0 && roi[0] < (double)dims[0], OUT_OF_RANGE,
                   "roi %zu is of sample %g, x has %lld", r, roi[0], (long long)dims[0]);
        const extent rows = whole_pixels(roi[2], roi[4], 1, height), columns = whole_pixels(roi[1], roi[3], 1, width);
        for (size_t c = 0; c < channels; c++)
            for (int64_t y = 0; y < height; y++)
                for (int64_t x = 0; x < width; x++) {
                    XCVM_TRY(xcvm_poll_after(&poller, 1));
                    xcvm_write_double(
                        a->y, at++,
                        pool_cell(a->x, ((size_t)roi[0] * channels + c) * plane, &rows, &columns, y, x, true, &poller));
                }
    }
    return xcvm_kernel_poll(k);
}

/* ---- RoiPool ---- */

/* Without a number of samples there is one for each pixel that a cell covers. */
static extent sampled(double begin, double end, int64_t cells, int64_t samples)
{
    enum { MOST_SAMPLES = 4096 };
    const double cell = fmax(end - begin, 1) / (double)cells;
    return (extent){begin, cell, samples > 0 ? samples : (int64_t)fmin(ceil(cell), MOST_SAMPLES)};
}

static double place_of(const extent *e, int64_t cell, int64_t sample)
{
    return e->begin + (double)cell * e->cell + ((double)sample + 0.5) * e->cell / (double)e->samples;
}

/* Samples outside of the image count as 0 in the mean, and not at all for the greatest. */
static double align_cell(const xcvm_RoiPool_args *a, size_t plane, const extent *rows, const extent *columns, int64_t y,
                         int64_t x, xcvm_poller *poller)
{
    pooled p = {0, -INFINITY};
    for (int64_t i = 0; i < rows->samples; i++) {
        const double row = place_of(rows, y, i);
        if (!(row >= -1 && row <= (double)a->x->dims[2]))
            continue;
        if (xcvm_poll_after(poller, (size_t)columns->samples) != XCVM_OK)
            break;
        for (int64_t j = 0; j < columns->samples; j++) {
            const double column = place_of(columns, x, j);
            if (column >= -1 && column <= (double)a->x->dims[3])
                add(&p, xcvm_roi_sample(a->x, plane, row, column, false));
        }
    }
    return a->mode == XCVM_ROI_MODE_max ? p.greatest : p.sum / (double)(rows->samples * columns->samples);
}

typedef struct job {
    xcvm_kernel *k;
    const xcvm_RoiPool_args *a;
} job;

/* Items are channels of regions. */
static void pool_regions(void *context, size_t begin, size_t end, int worker)
{
    (void)worker;
    const job *s = context;
    const xcvm_RoiPool_args *a = s->a;
    const size_t channels = (size_t)a->x->dims[1], plane = (size_t)(a->x->dims[2] * a->x->dims[3]);
    xcvm_poller poller = xcvm_poller_of(s->k);
    const bool align = a->samples.count == 2, greatest = a->mode == XCVM_ROI_MODE_max;
    for (size_t item = begin; item < end; item++) {
        const size_t r = item / channels;
        double corner[4]; /* top, left, bottom, right */
        for (size_t i = 0; i < 4; i++)
            corner[i] = xcvm_element_as_double(a->rois, r * 4 + i) * a->spatial_scale;
        const size_t from = ((size_t)xcvm_element_as_int(a->batch_indices, r) * channels + item % channels) * plane;
        const extent rows = align ? sampled(corner[0], corner[2], a->output_height, a->samples.at[0])
                                  : whole_pixels(corner[0], corner[2], 0, a->output_height);
        const extent columns = align ? sampled(corner[1], corner[3], a->output_width, a->samples.at[1])
                                     : whole_pixels(corner[1], corner[3], 0, a->output_width);
        size_t at = item * (size_t)(a->output_height * a->output_width);
        for (int64_t y = 0; y < a->output_height; y++)
            for (int64_t x = 0; x < a->output_width; x++) {
                if (xcvm_poll_after(&poller, 1) != XCVM_OK)
                    return;
                xcvm_write_double(a->y, at++,
                                  align ? align_cell(a, from, &rows, &columns, y, x, &poller)
                                        : pool_cell(a->x, from, &rows, &columns, y, x, greatest, &poller));
            }
    }
}

XCVM_KERNEL(RoiPool)
{
    const size_t count = (size_t)a->rois->dims[0];
    XCVM_TRY(xcvm_roi_check(k, a->x, a->batch_indices, count));
    for (size_t i = 0; i < 4 * count; i++) {
        const double corner = xcvm_element_as_double(a->rois, i) * a->spatial_scale;
        XCVM_CHECK(k->error, fabs(corner) < 1e9, OUT_OF_RANGE, "entry %zu of roi %zu is %g", i % 4, i / 4, corner);
    }
    job s = {k, a};
    return xcvm_kernel_parallel(k, count * (size_t)a->x->dims[1], 1, pool_regions, &s);
}
