/* Image files as tensors. */
#ifndef XCVM_TOOLS_TENSORS_IMAGE_H
#define XCVM_TOOLS_TENSORS_IMAGE_H

#include "values/budget.h"

/* xct_image_load within a budget (may be NULL). Without `resize`, an image of another size fails with
 * SHAPE_MISMATCH. With it, a note about `name` states the new size. */
xcvm_status image_read(const void *bytes, size_t count, const xcvm_type *wanted, bool resize, const char *name,
                       struct value_budget *budget, xcvm_value **tensor, xcvm_error *error);

#endif
