/* Image files as tensors. */
#ifndef XCVM_TOOLS_TENSORS_IMAGE_H
#define XCVM_TOOLS_TENSORS_IMAGE_H

#include "values/budget.h"

/* As xct_image_load, within a budget (may be NULL). Without `resize`, an image of another size than `wanted` is refused
 * with SHAPE_MISMATCH; with it, a note says what it is resized to, and calls it `name`. */
xcvm_status image_read(const void *bytes, size_t count, const xcvm_type *wanted, bool resize, const char *name,
                       struct value_budget *budget, xcvm_value **tensor, xcvm_error *error);

#endif
