/* RoiAlign and MaxRoiPool: cells of regions of an image. */
#include "ops/floats.h"
#include "ops/kernel.h"

#include <math.h>

static xcvm_status regions(const xcvm_typing *t, const xcvm_value *x, const xcvm_value *rois, int64_t columns,
                           int64_t height, int64_t width, xcvm_value *y)
{
    XCVM_REQUIRE(t, x->rank < 0 || x->rank == 4, SHAPE_MISMATCH, "x has rank %d, 4 is needed", x->rank);
    XCVM_REQUIRE(t, rois->rank < 0 || rois->rank == 2, SHAPE_MISMATCH, "rois has rank %d, 2 is needed", rois->rank);
    XCVM_REQUIRE(t, rois->rank < 0 || rois->dims[1] < 0 || rois->dims[1] == columns, SHAPE_MISMATCH,
                 "rois has %lld columns, %lld are needed", (long long)rois->dims[1], (long long)columns);
    const int64_t dims[] = {rois->rank < 0 ? XCVM_ANY_DIM : rois->dims[0], x->rank < 0 ? XCVM_ANY_DIM : x->dims[1],
                            height, width};
    xcvm_value_set_tensor(y, (xcvm_dtype)x->dtype, 4, dims);
    return XCVM_OK;
}

XCVM_SHAPE_RULE_OF(RoiAlign) { return regions(t, a->x, a->rois, 4, a->output_height, a->output_width, a->y); }

XCVM_SHAPE_RULE_OF(MaxRoiPool)
{
    XCVM_REQUIRE(t, a->pooled_shape.count == 2, INVALID_ARGUMENT, "pooled_shape has %zu entries, 2 are needed",
                 a->pooled_shape.count);
    return regions(t, a->x, a->rois, 5, a->pooled_shape.at[0], a->pooled_shape.at[1], a->y);
}

/* One bilinear sample: four weighted neighbours, of which the mean mode takes the sum and the max mode the greatest, as
 * ONNX's definition has it. */
static double bilinear(const xcvm_value *x, size_t plane, double row, double column, bool greatest)
{
    const int64_t height = x->dims[2], width = x->dims[3];
    if (!(row >= -1 && row <= (double)height && column >= -1 && column <= (double)width))
        return 0;
    row = fmax(row, 0);
    column = fmax(column, 0);
    int64_t r0 = (int64_t)row, c0 = (int64_t)column, r1 = r0 + 1, c1 = c0 + 1;
    if (r0 >= height - 1) {
        r0 = r1 = height - 1;
        row = (double)r0;
    }
    if (c0 >= width - 1) {
        c0 = c1 = width - 1;
        column = (double)c0;
    }
    const double dr = row - (double)r0, dc = column - (double)c0;
#define PIXEL(r, c) xcvm_element_as_double(x, plane + (size_t)((r)*width + (c)))
    const double v00 = (1 - dr) * (1 - dc) * PIXEL(r0, c0), v01 = (1 - dr) * dc * PIXEL(r0, c1);
    const double v10 = dr * (1 - dc) * PIXEL(r1, c0), v11 = dr * dc * PIXEL(r1, c1);
#undef PIXEL
    return greatest ? fmax(fmax(v00, v01), fmax(v10, v11)) : v00 + v01 + v10 + v11;
}

static void align_regions(void *context, size_t begin, size_t end, int worker)
{
    (void)worker;
    const xcvm_RoiAlign_args *a = context;
    const size_t channels = (size_t)a->x->dims[1], plane = (size_t)(a->x->dims[2] * a->x->dims[3]);
    const bool greatest = a->mode == XCVM_ROI_MODE_max;
    const bool legacy = a->coordinate_transformation_mode == XCVM_ROI_COORDINATE_output_half_pixel;
    const double offset = legacy ? 0 : 0.5;
    for (size_t item = begin; item < end; item++) {
        const size_t r = item / channels, c = item % channels;
        double corner[4];
        for (size_t i = 0; i < 4; i++)
            corner[i] = xcvm_element_as_double(a->rois, r * 4 + i) * a->spatial_scale - offset;
        const size_t from = ((size_t)xcvm_element_as_int(a->batch_indices, r) * channels + c) * plane;
        double width = corner[2] - corner[0], height = corner[3] - corner[1];
        if (legacy) {
            width = fmax(width, 1);
            height = fmax(height, 1);
        }
        const double cell_width = width / (double)a->output_width, cell_height = height / (double)a->output_height;
        const double across = a->sampling_ratio > 0 ? (double)a->sampling_ratio : fmin(fmax(ceil(cell_width), 0), 4096);
        const double down = a->sampling_ratio > 0 ? (double)a->sampling_ratio : fmin(fmax(ceil(cell_height), 0), 4096);
        for (int64_t y = 0; y < a->output_height; y++)
            for (int64_t x = 0; x < a->output_width; x++) {
                double result = 0;
                for (int64_t i = 0; i < (int64_t)down; i++)
                    for (int64_t j = 0; j < (int64_t)across; j++) {
                        const double row = corner[1] + (double)y * cell_height + ((double)i + 0.5) * cell_height / down;
                        const double column =
                            corner[0] + (double)x * cell_width + ((double)j + 0.5) * cell_width / across;
                        const double sample = bilinear(a->x, from, row, column, greatest);
                        result = !greatest ? result + sample : i + j == 0 ? sample : fmax(result, sample);
                    }
                const float value = (float)(greatest ? result : result / fmax(down * across, 1));
                xcvm_write_floats(&value, 1, a->y,
                                  (size_t)((int64_t)item * a->output_height + y) * (size_t)a->output_width + (size_t)x);
            }
    }
}

XCVM_KERNEL(RoiAlign)
{
    const size_t count = (size_t)a->rois->dims[0];
    XCVM_CHECK(k->error, a->batch_indices->rank == 1 && (size_t)a->batch_indices->dims[0] == count, SHAPE_MISMATCH,
               "batch_indices must have one entry for each of the %zu rois", count);
    XCVM_CHECK(k->error, count == 0 || xcvm_element_count(a->x) != 0, SHAPE_MISMATCH, "x is empty");
    for (size_t i = 0; i < count; i++) {
        const int64_t n = xcvm_element_as_int(a->batch_indices, i);
        XCVM_CHECK(k->error, n >= 0 && n < a->x->dims[0], OUT_OF_RANGE,
                   "batch_indices[%zu] is %lld, x has %lld samples", i, (long long)n, (long long)a->x->dims[0]);
    }
    xcvm_RoiAlign_args args = *a;
    xcvm_parallel(k->threads, count * (size_t)a->x->dims[1], 1, align_regions, &args);
    return XCVM_OK;
}

XCVM_KERNEL(MaxRoiPool)
{
    const int64_t *dims = a->x->dims, rows = a->pooled_shape.at[0], columns = a->pooled_shape.at[1];
    const size_t channels = (size_t)dims[1], plane = (size_t)(dims[2] * dims[3]);
    for (size_t r = 0; r < (size_t)a->rois->dims[0]; r++) {
        double roi[5];
        for (size_t i = 0; i < 5; i++) {
            roi[i] = xcvm_element_as_double(a->rois, r * 5 + i);
            XCVM_CHECK(k->error, fabs(roi[i] * (i == 0 ? 1 : a->spatial_scale)) < 1e9, OUT_OF_RANGE,
                       "entry %zu of roi %zu is %g", i, r, roi[i]);
        }
        XCVM_CHECK(k->error, roi[0] >= 0 && roi[0] < (double)dims[0], OUT_OF_RANGE,
                   "roi %zu is of sample %g, x has %lld", r, roi[0], (long long)dims[0]);
        const int64_t left = (int64_t)round(roi[1] * a->spatial_scale), top = (int64_t)round(roi[2] * a->spatial_scale);
        const int64_t right = (int64_t)round(roi[3] * a->spatial_scale);
        const int64_t bottom = (int64_t)round(roi[4] * a->spatial_scale);
        const double cell_height = fmax((double)(bottom - top + 1), 1) / (double)rows;
        const double cell_width = fmax((double)(right - left + 1), 1) / (double)columns;
        for (size_t c = 0; c < channels; c++)
            for (int64_t y = 0; y < rows; y++) {
                XCVM_TRY(xcvm_kernel_poll(k));
                for (int64_t x = 0; x < columns; x++) {
#define CLAMPED(value, size) (int64_t) fmin(fmax((value), 0), (double)(size))
                    const int64_t y0 = CLAMPED(floor((double)y * cell_height) + (double)top, dims[2]);
                    const int64_t y1 = CLAMPED(ceil((double)(y + 1) * cell_height) + (double)top, dims[2]);
                    const int64_t x0 = CLAMPED(floor((double)x * cell_width) + (double)left, dims[3]);
                    const int64_t x1 = CLAMPED(ceil((double)(x + 1) * cell_width) + (double)left, dims[3]);
#undef CLAMPED
                    double greatest = y1 <= y0 || x1 <= x0 ? 0 : -INFINITY;
                    for (int64_t i = y0; i < y1; i++)
                        for (int64_t j = x0; j < x1; j++)
                            greatest =
                                fmax(greatest, xcvm_element_as_double(a->x, ((size_t)roi[0] * channels + c) * plane +
                                                                                (size_t)(i * dims[3] + j)));
                    const float value = (float)greatest;
                    xcvm_write_floats(&value, 1, a->y,
                                      (size_t)((((int64_t)(r * channels + c)) * rows + y) * columns + x));
                }
            }
    }
    return XCVM_OK;
}
