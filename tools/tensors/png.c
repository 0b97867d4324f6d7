/* PNG and other images as tensors, by stb_image. */
#include "tensors/png.h"
#include "cli/memory.h"
#include "values/number.h"
#include "cli/report.h"
#include "values/value.h"

#define STBI_ONLY_PNG
#define STBI_NO_STDIO
#define STBI_WRITE_NO_STDIO
#include <stb/stb_image.h>
#include <stb/stb_image_write.h>

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Where the channels, rows and columns of an image lie in a tensor. */
struct layout {
    int rank;
    int64_t dims[XCVM_MAX_RANK];
    int64_t channels, height, width;
    bool channels_last;
};

static bool is_channels(int64_t dim) { return dim == 1 || dim == 3 || dim == 4; }
static bool fits(int64_t declared, int64_t size) { return declared < 0 || declared == size; }

/* Channels in `dims` at the given position; 0 if the declaration cannot be read so. */
static int64_t channels_at(const xcvm_type *wanted, int position, int64_t own)
{
    int64_t dim = wanted->dims[position];
    return dim < 0 ? own : is_channels(dim) ? dim : 0;
}

/* The layout that `wanted` declares for an image of the given size with `own` channels. */
static bool choose_layout(const xcvm_type *wanted, int64_t height, int64_t width, int64_t own, struct layout *layout)
{
    *layout = (struct layout){.rank = wanted != NULL ? wanted->rank : 3, .height = height, .width = width};
    if (wanted == NULL || wanted->rank < 0) {
        *layout = (struct layout){.rank = 3,
                                  .dims = {height, width, own},
                                  .channels = own,
                                  .height = height,
                                  .width = width,
                                  .channels_last = true};
        return true;
    }
    int lead = wanted->rank == 4 ? 1 : 0;
    if (wanted->rank == 3 || (wanted->rank == 4 && fits(wanted->dims[0], 1))) {
        const int64_t *dims = wanted->dims + lead;
        int64_t first = channels_at(wanted, lead, own), last = channels_at(wanted, lead + 2, own);
        layout->dims[0] = 1;
        if (first != 0 && fits(dims[1], height) && fits(dims[2], width)) {
            layout->channels = first;
            memcpy(layout->dims + lead, (int64_t[]){first, height, width}, 3 * sizeof(int64_t));
            return true;
        }
        if (last != 0 && fits(dims[0], height) && fits(dims[1], width)) {
            layout->channels = last;
            layout->channels_last = true;
            memcpy(layout->dims + lead, (int64_t[]){height, width, last}, 3 * sizeof(int64_t));
            return true;
        }
        return false;
    }
    layout->channels = 1;
    if (wanted->rank == 2 && fits(wanted->dims[0], height) && fits(wanted->dims[1], width)) {
        memcpy(layout->dims, (int64_t[]){height, width}, 2 * sizeof(int64_t));
        return true;
    }
    /* A flattened image. */
    for (int i = 0; i < wanted->rank; i++)
        layout->dims[i] = i + 1 < wanted->rank ? 1 : height * width;
    for (int i = 0; i < wanted->rank; i++)
        if (!fits(wanted->dims[i], layout->dims[i]))
            return false;
    return wanted->rank > 0;
}

static xcvm_status fill(const struct layout *layout, const unsigned char *pixels, const struct value_budget *budget,
                        xcvm_value *tensor, xcvm_error *error)
{
    xcvm_dtype dtype = xcvm_value_dtype(tensor);
    void *data = xcvm_value_data(tensor);
    bool floating = number_is_float(dtype);
    size_t channels = (size_t)layout->channels, plane = (size_t)(layout->height * layout->width);
    for (size_t pixel = 0; pixel < plane; pixel++) {
        TRY(value_budget_poll(budget, pixel, error));
        for (size_t c = 0; c < channels; c++) {
            size_t to = layout->channels_last ? pixel * channels + c : c * plane + pixel;
            unsigned char byte = pixels[pixel * channels + c];
            if (!number_set(dtype, data, to, floating ? (number)byte / 255 : (number)byte))
                return error_set(error, XCVM_TYPE_MISMATCH, "a pixel is %u, which %s cannot hold", byte,
                                 xcvm_dtype_name(dtype));
        }
    }
    return XCVM_OK;
}

static xcvm_status misfit(const xcvm_type *wanted, int width, int height, xcvm_error *error)
{
    struct buffer type = {0};
    type_print(&type, wanted);
    xcvm_status status =
        error_set(error, XCVM_SHAPE_MISMATCH, "the image is %d wide and %d high, which does not fit %.100s", width,
                  height, buffer_string(&type));
    buffer_release(&type);
    return status;
}

/* What decoding takes beside the file: rows as they are filtered, pixels of the file's own channels, and those of the
 * channels that are wanted, of up to two bytes each. Fails, too, if the file is too small for what it declares, as
 * Deflate makes no more than 1032 bytes of one. */
static xcvm_status check_size(const unsigned char *bytes, size_t count, int width, int height, int own,
                              const struct layout *layout, struct value_budget *budget, xcvm_error *error)
{
    enum { DEPTH_AT = 24, MOST_DEFLATED = 1032 };
    const uint64_t depth = count > DEPTH_AT ? bytes[DEPTH_AT] : 8, wide = depth > 8 ? 2 : 1;
    const uint64_t pixels = (uint64_t)width * (uint64_t)height;
    if (pixels * depth / 8 / MOST_DEFLATED > count)
        return error_set(error, XCVM_INVALID_ARGUMENT, "an image of %d x %d does not fit into %zu bytes", height, width,
                         count);
    return value_budget_check(budget, pixels * wide * (uint64_t)(2 * own + layout->channels), error);
}

/* With stb's reason, which may be missing, or end with the beginning of another line. */
static xcvm_status undecodable(xcvm_error *error)
{
    const char *reason = stbi_failure_reason();
    const int length = reason != NULL ? (int)strcspn(reason, "\n") : 0;
    return error_set(error, XCVM_INVALID_ARGUMENT, "the image cannot be decoded%s%.*s", length != 0 ? ": " : "", length,
                     reason != NULL ? reason : "");
}

xcvm_status png_read(const void *bytes, size_t count, const xcvm_type *wanted, struct value_budget *budget,
                     xcvm_value **tensor, xcvm_error *error)
{
    int width = 0, height = 0, own = 0;
    if (count > INT_MAX || !stbi_info_from_memory(bytes, (int)count, &width, &height, &own))
        return error_set(error, XCVM_INVALID_ARGUMENT, "not a PNG image that can be read");
    xcvm_dtype dtype = wanted != NULL && wanted->dtype != XCVM_NO_DTYPE ? wanted->dtype : XCVM_U8;
    if (dtype == XCVM_STRING || dtype == XCVM_BOOL || number_parts(dtype) != 1 || xcvm_dtype_bits(dtype) < 8)
        return error_set(error, XCVM_TYPE_MISMATCH, "an image cannot become %s", xcvm_dtype_name(dtype));
    struct layout layout;
    if (!choose_layout(wanted, height, width, own == 2 ? 4 : own, &layout))
        return misfit(wanted, width, height, error);
    TRY(check_size(bytes, count, width, height, own, &layout, budget, error));
    unsigned char *pixels = stbi_load_from_memory(bytes, (int)count, &width, &height, &own, (int)layout.channels);
    if (pixels == NULL)
        return undecodable(error);
    const uint64_t held = (uint64_t)layout.width * (uint64_t)layout.height * (uint64_t)layout.channels;
    value_budget_hold(budget, held);
    xcvm_status status =
        xcvm_tensor_create(value_budget_allocator(budget), dtype, layout.rank, layout.dims, tensor, error);
    value_budget_let_go(budget, held);
    if (status == XCVM_OK) {
        status = fill(&layout, pixels, budget, *tensor, error);
        if (status != XCVM_OK)
            xcvm_value_release(*tensor);
    }
    stbi_image_free(pixels);
    return status;
}

/* ---- Writing ---- */

static bool layout_of(const xcvm_value *tensor, struct layout *layout)
{
    int rank = xcvm_value_rank(tensor);
    const int64_t *dims = xcvm_value_dims(tensor);
    for (; rank > 3 && *dims == 1; rank--)
        dims++;
    if (rank == 2)
        *layout = (struct layout){.channels = 1, .height = dims[0], .width = dims[1]};
    else if (rank == 3 && is_channels(dims[0]))
        *layout = (struct layout){.channels = dims[0], .height = dims[1], .width = dims[2]};
    else if (rank == 3 && is_channels(dims[2]))
        *layout = (struct layout){.channels = dims[2], .height = dims[0], .width = dims[1], .channels_last = true};
    else
        return false;
    return layout->height > 0 && layout->width > 0 && layout->height <= 1 << 15 && layout->width <= 1 << 15;
}

struct sink {
    xcvm_sink function;
    void *user;
    bool failed;
};

static void write_piece(void *context, void *data, int size)
{
    struct sink *sink = context;
    if (!sink->failed && size > 0)
        sink->failed = !sink->function(sink->user, data, (size_t)size);
}

xcvm_status png_write(const xcvm_value *tensor, xcvm_sink sink, void *user, xcvm_error *error)
{
    struct layout layout;
    xcvm_dtype dtype = xcvm_value_dtype(tensor);
    if (xcvm_value_kind(tensor) != XCVM_KIND_TENSOR || dtype == XCVM_STRING || number_parts(dtype) != 1 ||
        !layout_of(tensor, &layout))
        return error_set(error, XCVM_INVALID_ARGUMENT,
                         "an image is a tensor of numbers of HxW, CxHxW or HxWxC, with 1, 3 "
                         "or 4 channels");
    size_t channels = (size_t)layout.channels, plane = (size_t)(layout.height * layout.width);
    unsigned char *pixels = memory_take(plane, channels);
    number scale = number_is_float(dtype) ? 255 : 1;
    for (size_t pixel = 0; pixel < plane; pixel++)
        for (size_t c = 0; c < channels; c++) {
            size_t from = layout.channels_last ? pixel * channels + c : c * plane + pixel;
            number value = number_get(dtype, xcvm_value_data(tensor), from) * scale;
            pixels[pixel * channels + c] = (unsigned char)(value > 0 ? value < 255 ? rintl(value) : 255 : 0);
        }
    struct sink out = {sink, user, false};
    int good =
        stbi_write_png_to_func(write_piece, &out, (int)layout.width, (int)layout.height, (int)channels, pixels, 0);
    free(pixels);
    if (!good || out.failed)
        return error_set(error, XCVM_IO, "the image cannot be written");
    return XCVM_OK;
}
