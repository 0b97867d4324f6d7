/* Tensors as PNG files, by stb_image_write. */
#include "tensors/png.h"
#include "cli/memory.h"
#include "values/number.h"
#include "cli/report.h"
#include "values/value.h"

#define STBI_WRITE_NO_STDIO
#include <stb/stb_image_write.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Axes of channels, rows and columns of an image in a tensor. */
struct layout {
    int rank;
    int64_t dims[XCVM_MAX_RANK];
    int64_t channels, height, width;
    bool channels_last;
};

static bool is_color(int64_t dim) { return dim == 1 || dim == 3; }

static bool layout_of(const xcvm_value *tensor, struct layout *layout)
{
    int rank = xcvm_value_rank(tensor);
    const int64_t *dims = xcvm_value_dims(tensor);
    for (; rank > 3 && *dims == 1; rank--)
        dims++;
    if (rank == 2)
        *layout = (struct layout){.channels = 1, .height = dims[0], .width = dims[1]};
    else if (rank == 3 && (is_color(dims[0]) || (dims[0] == 4 && !is_color(dims[2]))))
        *layout = (struct layout){.channels = dims[0], .height = dims[1], .width = dims[2]};
    else if (rank == 3 && (is_color(dims[2]) || dims[2] == 4))
        *layout = (struct layout){.channels = dims[2], .height = dims[0], .width = dims[1], .channels_last = true};
    else
        return false;
    return layout->height > 0 && layout->width > 0 && layout->height <= 1 << 15 && layout->width <= 1 << 15;
}

struct sink {
    xcvm_sink function;
    bool failed;
};

static void write_piece(void *context, void *data, int size)
{
    struct sink *sink = context;
    if (!sink->failed && size > 0)
        sink->failed = !sink->function.call(sink->function.user, data, (size_t)size);
}

xcvm_status png_write(const xcvm_value *tensor, xcvm_sink sink, xcvm_error *error)
{
    struct layout layout;
    xcvm_dtype dtype = xcvm_value_dtype(tensor);
    if (xcvm_value_kind(tensor) != XCVM_KIND_TENSOR || dtype == XCVM_STRING || number_parts(dtype) != 1 ||
        !layout_of(tensor, &layout))
        return error_set(
            error, XCVM_INVALID_ARGUMENT,
            "the tensor is not an image (expected numbers of shape HxW, CxHxW or HxWxC with 1, 3 or 4 channels)");
    size_t channels = (size_t)layout.channels, plane = (size_t)(layout.height * layout.width);
    unsigned char *pixels = memory_take(plane, channels);
    number scale = number_is_float(dtype) ? 255 : 1;
    for (size_t pixel = 0; pixel < plane; pixel++)
        for (size_t c = 0; c < channels; c++) {
            size_t from = layout.channels_last ? pixel * channels + c : c * plane + pixel;
            number value = number_get(dtype, xcvm_value_data(tensor), from) * scale;
            pixels[pixel * channels + c] = (unsigned char)(value > 0 ? value < 255 ? rintl(value) : 255 : 0);
        }
    struct sink out = {sink, false};
    int good =
        stbi_write_png_to_func(write_piece, &out, (int)layout.width, (int)layout.height, (int)channels, pixels, 0);
    free(pixels);
    if (!good || out.failed)
        return error_set(error, XCVM_IO, "the image cannot be written");
    return XCVM_OK;
}
