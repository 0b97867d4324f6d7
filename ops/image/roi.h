/* Bilinear sampling of images, for instructions on regions of interest. */
#ifndef XCVM_OPS_IMAGE_ROI_H
#define XCVM_OPS_IMAGE_ROI_H

#include "ops/util/kernel.h"

/* Returns one bilinear sample of the plane of x (N x C x H x W) that begins at element `plane`, at a position in [-1,
 * H] x [-1, W]; 0 elsewhere. */
double xcvm_roi_sample(const xcvm_value *x, size_t plane, double row, double column);
/* Sets type and shape of a result with one image of height x width per region. rois has `columns` columns. */
xcvm_status xcvm_roi_shape(const xcvm_inference *t, const xcvm_value *x, const xcvm_value *rois, int64_t columns,
                           int64_t height, int64_t width, xcvm_value *y);
/* Checks that there is one valid batch index for each of the `count` regions. */
xcvm_status xcvm_roi_check(xcvm_kernel *k, const xcvm_value *x, const xcvm_value *batch_indices, size_t count);

#endif
