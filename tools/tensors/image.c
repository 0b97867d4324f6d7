/* Image files as tensors, by the library's reader. */
#include "tensors/image.h"
#include "cli/report.h"
#include "values/type.h"

#include <xcvm/train.h>

#include <inttypes.h>

/* An image that would be resized, and must not be. */
static xcvm_status misfit(const xcvm_type *wanted, const xct_image_info *info, xcvm_error *error)
{
    struct buffer type = {0};
    type_print(&type, wanted);
    xcvm_status status = error_set(error, XCVM_SHAPE_MISMATCH,
                                   "the image of width %" PRId64 " and height %" PRId64 " does not fit %.100s",
                                   info->width, info->height, buffer_string(&type));
    buffer_release(&type);
    return status;
}

xcvm_status image_read(const void *bytes, size_t count, const xcvm_type *wanted, bool resize, const char *name,
                       struct value_budget *budget, xcvm_value **tensor, xcvm_error *error)
{
    xct_image_options options = {.size = sizeof options,
                                 .allocator = value_budget_allocator(budget),
                                 .timeout_ns = value_budget_time_left(budget)};
    xct_image_info info = {.size = sizeof info};
    const uint64_t left = value_budget_left(budget);
    if (left != UINT64_MAX)
        options.memory_limit = left != 0 ? (size_t)left : 1;
    TRY(xct_image_load(bytes, count, wanted, &options, &info, tensor, error));
    if (info.height == info.to_height && info.width == info.to_width)
        return XCVM_OK;
    if (resize) {
        report_line("note: %s: the image of %" PRId64 " x %" PRId64 " is resized to %" PRId64 " x %" PRId64
                    " (height x width)",
                    name, info.height, info.width, info.to_height, info.to_width);
        return XCVM_OK;
    }
    xcvm_value_release(*tensor);
    *tensor = NULL;
    return misfit(wanted, &info, error);
}
