/* Regions of interest: shape rules, bilinear samples and checks. */
#include "ops/image/roi.h"

#include <math.h>

xcvm_status xcvm_roi_shape(const xcvm_inference *t, const xcvm_value *x, const xcvm_value *rois, int64_t columns,
                           int64_t height, int64_t width, xcvm_value *y)
{
    XCVM_CHECK(t->error, x->rank < 0 || x->rank == 4, SHAPE_MISMATCH, "x has the wrong rank (%d; expected 4)", x->rank);
    XCVM_CHECK(t->error, rois->rank < 0 || rois->rank == 2, SHAPE_MISMATCH, "rois has the wrong rank (%d; expected 2)",
               rois->rank);
    XCVM_CHECK(t->error, rois->rank < 0 || rois->dims[1] < 0 || rois->dims[1] == columns, SHAPE_MISMATCH,
               "rois has the wrong number of columns (%lld; expected %lld)", (long long)rois->dims[1],
               (long long)columns);
    const int64_t dims[] = {rois->rank < 0 ? XCVM_ANY_DIM : rois->dims[0], x->rank < 0 ? XCVM_ANY_DIM : x->dims[1],
                            height, width};
    xcvm_value_set_tensor(y, (xcvm_dtype)x->dtype, 4, dims);
    return XCVM_OK;
}

XCVM_SHAPE_RULE_OF(RoiAlign) { return xcvm_roi_shape(t, a->x, a->rois, 4, a->output_height, a->output_width, a->y); }

double xcvm_roi_sample(const xcvm_value *x, size_t plane, double row, double column)
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
    return v00 + v01 + v10 + v11;
}

xcvm_status xcvm_roi_check(xcvm_kernel *k, const xcvm_value *x, const xcvm_value *batch_indices, size_t count)
{
    XCVM_CHECK(k->error, batch_indices->rank == 1 && (size_t)batch_indices->dims[0] == count, SHAPE_MISMATCH,
               "batch_indices must have one entry for each of the %zu rois", count);
    XCVM_CHECK(k->error, count == 0 || xcvm_element_count(x) != 0, SHAPE_MISMATCH, "x is empty");
    xcvm_poller poller = xcvm_poller_of(k);
    for (size_t i = 0; i < count; i++) {
        const int64_t n = xcvm_element_as_int(batch_indices, i);
        XCVM_TRY(xcvm_poll_after(&poller, 1));
        XCVM_CHECK(k->error, n >= 0 && n < x->dims[0], OUT_OF_RANGE, "batch_indices[%zu] is %lld, x has %lld samples",
                   i, (long long)n, (long long)x->dims[0]);
    }
    return XCVM_OK;
}
