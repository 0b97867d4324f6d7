/* RoiAlign: regions of an image sampled between its pixels. */
#include "ops/roi.h"
#include "ops/floats.h"

#include <math.h>

xcvm_status xcvm_roi_shape(const xcvm_typing *t, const xcvm_value *x, const xcvm_value *rois, int64_t columns,
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

XCVM_SHAPE_RULE_OF(RoiAlign) { return xcvm_roi_shape(t, a->x, a->rois, 4, a->output_height, a->output_width, a->y); }

double xcvm_roi_sample(const xcvm_value *x, size_t plane, double row, double column, bool greatest)
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
                        const double sample = xcvm_roi_sample(a->x, from, row, column, greatest);
                        result = !greatest ? result + sample : i + j == 0 ? sample : fmax(result, sample);
                    }
                const float value = (float)(greatest ? result : result / fmax(down * across, 1));
                xcvm_write_floats(&value, 1, a->y,
                                  (size_t)((int64_t)item * a->output_height + y) * (size_t)a->output_width + (size_t)x);
            }
    }
}

xcvm_status xcvm_roi_check(xcvm_kernel *k, const xcvm_value *x, const xcvm_value *batch_indices, size_t count)
{
    XCVM_CHECK(k->error, batch_indices->rank == 1 && (size_t)batch_indices->dims[0] == count, SHAPE_MISMATCH,
               "batch_indices must have one entry for each of the %zu rois", count);
    XCVM_CHECK(k->error, count == 0 || xcvm_element_count(x) != 0, SHAPE_MISMATCH, "x is empty");
    for (size_t i = 0; i < count; i++) {
        const int64_t n = xcvm_element_as_int(batch_indices, i);
        XCVM_CHECK(k->error, n >= 0 && n < x->dims[0], OUT_OF_RANGE, "batch_indices[%zu] is %lld, x has %lld samples",
                   i, (long long)n, (long long)x->dims[0]);
    }
    return XCVM_OK;
}

XCVM_KERNEL(RoiAlign)
{
    const size_t count = (size_t)a->rois->dims[0];
    XCVM_TRY(xcvm_roi_check(k, a->x, a->batch_indices, count));
    xcvm_RoiAlign_args args = *a;
    xcvm_parallel(k->threads, count * (size_t)a->x->dims[1], 1, align_regions, &args);
    return XCVM_OK;
}
