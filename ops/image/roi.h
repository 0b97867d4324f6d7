/* Sampling images between their pixels, for instructions that look at regions. */
#ifndef XCVM_OPS_IMAGE_ROI_H
#define XCVM_OPS_IMAGE_ROI_H

#include "ops/util/kernel.h"

/* One bilinear sample of the image of x (N x C x H x W) that begins at element `plane`, at a place in [-1, H] x [-1,
 * W]; 0 elsewhere. */
double xcvm_roi_sample(const xcvm_value *x, size_t plane, double row, double column);
/* Types and shape of a result with one image of height x width for each of rois, which has `columns` columns. */
xcvm_status xcvm_roi_shape(const xcvm_inference *t, const xcvm_value *x, const xcvm_value *rois, int64_t columns,
                           int64_t height, int64_t width, xcvm_value *y);
/* Whether there is one index of a sample of x for each of the `count` regions. */
xcvm_status xcvm_roi_check(xcvm_kernel *k, const xcvm_value *x, const xcvm_value *batch_indices, size_t count);

#endif
