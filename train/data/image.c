/* Images as tensors: decoding, turning as EXIF says, resizing, and the layout that is wanted. */
#include "formats/image_header.h"
#include "train/data/images.h"
#include "train/data/mapping.h"
#include "train/data/resample.h"

#include "base/clock.h"
#include "base/element.h"
#include "ops/image/image_decoder.h"
#include "proto/recognize.h"
#include "vm/options.h"
#include "xcvm/train.h"

#include <string.h>

/* ---- Layouts ---- */

/* Axes of channels, rows and columns of an image in a tensor. Sizes below 0 are dynamic. */
typedef struct layout {
    xcvm_dtype dtype;
    int rank;
    int lead;        /* axes of size 1 before the image's, or, if `flat`, before its elements */
    bool last, flat; /* channels are the last axis; all is one axis */
    int64_t channels, height, width;
} layout;

static bool is_one(int64_t dim) { return dim < 0 || dim == 1; }

/* Returns true if channels are the last axis of three. An axis of size 1 or 3 decides, or else a dynamic axis. The
 * first axis takes precedence over the last. */
static bool choose_last(const int64_t *dims, bool *found)
{
    static const int64_t numbers[] = {1, 3, 4};
    *found = true;
    for (size_t pass = 0; pass < 2; pass++) {
        const size_t first = pass == 0 ? 0 : 2, count = pass == 0 ? 2 : 3;
        for (int last = 0; last < 2; last++)
            for (size_t i = first; i < count; i++)
                if (dims[last * 2] == numbers[i])
                    return last != 0;
    }
    *found = dims[0] < 0 || dims[2] < 0;
    return dims[0] >= 0;
}

static xcvm_status misfit(const xcvm_type *wanted, const char *why, xcvm_error *error)
{
    char text[100];
    XCVM_FAIL(
        error, SHAPE_MISMATCH,
        "an image cannot become a tensor of %s: %s; 1xCxHxW, 1xHxWxC, CxHxW, HxWxC or HxW with 1, 3 or 4 channels "
        "is expected",
        wanted->rank >= 0 ? xcvm_dims_describe(wanted->rank, wanted->dims, text, sizeof text) : "any shape", why);
}

static xcvm_status check_type(xcvm_dtype dtype, xcvm_error *error)
{
    const bool real = xcvm_float_format_of(dtype) != NULL;
    const bool integer = dtype == XCVM_U8 || dtype == XCVM_I16 || dtype == XCVM_U16 || dtype == XCVM_I32 ||
                         dtype == XCVM_U32 || dtype == XCVM_I64 || dtype == XCVM_U64;
    XCVM_CHECK(error, (real && xcvm_dtype_bits(dtype) >= 8) || integer, TYPE_MISMATCH,
               "an image cannot become %s, whose elements do not hold 0 to 255; floats, u8 or wider integers are "
               "expected",
               xcvm_dtype_name(dtype));
    return XCVM_OK;
}

/* Layout that `wanted` declares (NULL: HxWxC of u8). */
static xcvm_status read_layout(const xcvm_type *wanted, layout *l, xcvm_error *error)
{
    *l = (layout){.dtype = XCVM_U8, .rank = 3, .last = true, .channels = -1, .height = -1, .width = -1};
    if (wanted == NULL)
        return XCVM_OK;
    XCVM_CHECK(error, wanted->kind == XCVM_KIND_TENSOR || wanted->kind == XCVM_KIND_NULL, TYPE_MISMATCH,
               "an image becomes a tensor, which is not what is wanted");
    if (wanted->dtype != XCVM_NO_DTYPE)
        l->dtype = wanted->dtype;
    XCVM_TRY(check_type(l->dtype, error));
    if (wanted->rank < 0)
        return XCVM_OK;
    l->rank = wanted->rank;
    l->lead = l->rank == 4 ? 1 : 0;
    const int64_t *dims = wanted->dims + l->lead;
    XCVM_CHECK(error, l->rank > 0 && l->rank <= XCVM_MAX_RANK, SHAPE_MISMATCH,
               "an image cannot become a tensor of rank %d", l->rank);
    if (l->rank == 2 && wanted->dims[0] != 1 && (wanted->dims[0] >= 0 || wanted->dims[1] < 0)) {
        l->last = false;
        l->channels = 1;
        l->height = dims[0];
        l->width = dims[1];
        return l->height != 0 && l->width != 0 ? XCVM_OK : misfit(wanted, "it has no elements", error);
    }
    bool found = false;
    if (l->rank == 3 || (l->rank == 4 && is_one(wanted->dims[0])))
        l->last = choose_last(dims, &found);
    if (found) {
        l->channels = dims[l->last ? 2 : 0];
        l->height = dims[l->last ? 0 : 1];
        l->width = dims[l->last ? 1 : 2];
        return l->height != 0 && l->width != 0 ? XCVM_OK : misfit(wanted, "it has no elements", error);
    }
    /* All pixels on one axis. */
    l->flat = true;
    l->lead = l->rank - 1;
    l->channels = 1;
    for (int i = 0; i < l->lead; i++)
        if (!is_one(wanted->dims[i]))
            return misfit(wanted, "no axis is that of channels, or it holds several images", error);
    return XCVM_OK;
}

static xcvm_status check_flat(const layout *l, const xcvm_type *wanted, const xct_pixels *pixels, xcvm_error *error)
{
    const int64_t count = l->flat ? wanted->dims[wanted->rank - 1] : -1;
    XCVM_CHECK(
        error, count < 0 || (uint64_t)count == pixels->height * pixels->width, SHAPE_MISMATCH,
        "an image of %zu x %zu has %zu pixels, %lld are expected, and nothing says how high and wide it is to be",
        pixels->height, pixels->width, pixels->height * pixels->width, (long long)count);
    return XCVM_OK;
}

/* Rows and columns that are wanted; where one of them is open, as many as keep the proportions. */
static void choose_size(const layout *l, const xct_pixels *own, size_t *height, size_t *width)
{
    *height = l->height > 0 ? (size_t)l->height : own->height;
    *width = l->width > 0 ? (size_t)l->width : own->width;
    if (l->height > 0 && l->width < 0)
        *width = (size_t)((double)own->width * (double)*height / (double)own->height + 0.5);
    else if (l->width > 0 && l->height < 0)
        *height = (size_t)((double)own->height * (double)*width / (double)own->width + 0.5);
    *height = *height > 0 ? *height : 1;
    *width = *width > 0 ? *width : 1;
}

static int shape_of(const layout *l, const xct_pixels *pixels, int64_t dims[XCVM_MAX_RANK])
{
    const int64_t h = (int64_t)pixels->height, w = (int64_t)pixels->width, c = (int64_t)pixels->channels;
    int rank = 0;
    while (rank < l->lead)
        dims[rank++] = 1;
    if (l->flat) {
        dims[rank++] = h * w;
        return rank;
    }
    if (l->rank != 2 && !l->last)
        dims[rank++] = c;
    dims[rank++] = h;
    dims[rank++] = w;
    if (l->rank != 2 && l->last)
        dims[rank++] = c;
    return rank;
}

/* ---- Pixels ---- */

typedef struct room {
    const xcvm_kernel *k;
    size_t channels;
    xct_pixels pixels;
} room;

static uint8_t *make_room(void *user, size_t height, size_t width)
{
    room *r = user;
    if (height == 0 || width == 0) {
        xcvm_error_set(r->k->error, XCVM_INVALID_ARGUMENT, "the image has no pixels");
        return NULL;
    }
    xct_pixels_release(&r->pixels);
    return xct_pixels_create(r->k, height, width, r->channels, &r->pixels) == XCVM_OK ? r->pixels.at : NULL;
}

/* The pixel of the file that is seen at row y and column x; EXIF's orientations from 5 on exchange rows and columns. */
static size_t place_of(int orientation, const xct_pixels *from, size_t y, size_t x)
{
    const bool turned = orientation >= 5;
    const size_t rows = turned ? from->width : from->height, columns = turned ? from->height : from->width;
    if (orientation == 2 || orientation == 3 || orientation == 6 || orientation == 7)
        x = columns - 1 - x;
    if (orientation == 3 || orientation == 4 || orientation == 7 || orientation == 8)
        y = rows - 1 - y;
    return turned ? x * from->width + y : y * from->width + x;
}

static xcvm_status turn(const xcvm_kernel *k, int orientation, xct_pixels *pixels)
{
    xct_pixels turned;
    if (orientation == 1)
        return XCVM_OK;
    const bool exchanged = orientation >= 5;
    const size_t channels = pixels->channels;
    XCVM_TRY(xct_pixels_create(k, exchanged ? pixels->width : pixels->height,
                               exchanged ? pixels->height : pixels->width, channels, &turned));
    uint8_t *to = turned.at;
    xcvm_status status = XCVM_OK;
    for (size_t y = 0; y < turned.height && status == XCVM_OK; y++) {
        for (size_t x = 0; x < turned.width; x++, to += channels)
            memcpy(to, pixels->at + place_of(orientation, pixels, y, x) * channels, channels);
        status = xcvm_kernel_poll(k);
    }
    xct_pixels_release(status == XCVM_OK ? pixels : &turned);
    if (status == XCVM_OK)
        *pixels = turned;
    return status;
}

/* ITU-R 601-2, as Pillow computes it; in place. */
static xcvm_status make_gray(const xcvm_kernel *k, xct_pixels *pixels)
{
    const size_t count = pixels->height * pixels->width;
    for (size_t i = 0; i < count; i++) {
        if (i % XCVM_POLL_STEPS == 0)
            XCVM_TRY(xcvm_kernel_poll(k));
        const uint8_t *p = pixels->at + 3 * i;
        pixels->at[i] = (uint8_t)((19595U * p[0] + 38470U * p[1] + 7471U * p[2] + 0x8000U) >> 16);
    }
    pixels->channels = 1;
    return XCVM_OK;
}

/* The pixels of a file, as they are to be seen, with the channels that are wanted (below 0: its own). */
static xcvm_status decode(xcvm_kernel *k, const void *bytes, size_t count, int64_t channels, xct_pixels *pixels)
{
    char text[400];
    const size_t own = (size_t)(channels > 0 ? channels : xcvm_image_channels(bytes, count));
    XCVM_CHECK(k->error, xcvm_recognize(bytes, count, XCVM_FILE_IMAGE, text, sizeof text) != XCVM_FILE_OTHER,
               INVALID_ARGUMENT, "%s", text);
    room r = {.k = k, .channels = own == 4 ? 4 : 3};
    xcvm_status status = xcvm_image_decode_any(k, bytes, count, r.channels, make_room, &r);
    if (status == XCVM_OK && own == 1)
        status = make_gray(k, &r.pixels);
    if (status == XCVM_OK)
        status = turn(k, xcvm_image_orientation(bytes, count), &r.pixels);
    if (status != XCVM_OK)
        xct_pixels_release(&r.pixels);
    *pixels = r.pixels;
    return status;
}

/* ---- Elements ---- */

/* Floats are the byte / 255, or the byte * scale if scale is not 0. */
static void set_element(xcvm_dtype dtype, const xcvm_float_format *format, double scale, void *to, size_t index,
                        uint8_t byte)
{
    bool exceeds;
    if (scale != 0 && format != NULL)
        xcvm_element_set(xcvm_dtype_bits(dtype), to, index, xcvm_float_encode(format, (double)byte * scale, &exceeds));
    else if (dtype == XCVM_F32)
        ((float *)to)[index] = (float)byte / 255.0F;
    else if (dtype == XCVM_U8)
        ((uint8_t *)to)[index] = byte;
    else if (dtype == XCVM_F64)
        ((double *)to)[index] = (double)byte / 255.0;
    else
        xcvm_element_set(xcvm_dtype_bits(dtype), to, index,
                         format != NULL ? xcvm_float_encode(format, (double)byte / 255.0, &exceeds) : byte);
}

static xcvm_status fill(const xcvm_kernel *k, const layout *l, double scale, const xct_pixels *pixels, void *to)
{
    const xcvm_float_format *format = xcvm_float_format_of(l->dtype);
    const size_t channels = pixels->channels, plane = pixels->height * pixels->width;
    for (size_t i = 0; i < plane; i++) {
        if (i % XCVM_POLL_STEPS == 0)
            XCVM_TRY(xcvm_kernel_poll(k));
        for (size_t c = 0; c < channels; c++)
            set_element(l->dtype, format, scale, to, l->last ? i * channels + c : c * plane + i,
                        pixels->at[i * channels + c]);
    }
    return XCVM_OK;
}

/* ---- One image ---- */

static xcvm_status load(xcvm_kernel *k, const void *bytes, size_t count, const xcvm_type *wanted,
                        const xcvm_allocator *allocator, xct_image_info *info, xcvm_value **image)
{
    layout l;
    xct_pixels pixels = {.storage = NULL};
    size_t height = 0, width = 0;
    int64_t dims[XCVM_MAX_RANK];
    XCVM_TRY(read_layout(wanted, &l, k->error));
    xcvm_status status = decode(k, bytes, count, l.channels, &pixels);
    if (status == XCVM_OK) {
        choose_size(&l, &pixels, &height, &width);
        *info = (xct_image_info){.height = (int64_t)pixels.height,
                                 .width = (int64_t)pixels.width,
                                 .channels = xcvm_image_channels(bytes, count),
                                 .to_height = (int64_t)height,
                                 .to_width = (int64_t)width};
        status = check_flat(&l, wanted, &pixels, k->error);
    }
    if (status == XCVM_OK)
        status = xct_resample(k, &pixels, height, width);
    if (status == XCVM_OK) {
        const int rank = shape_of(&l, &pixels, dims);
        status = xcvm_tensor_create(allocator, l.dtype, rank, dims, image, k->error);
    }
    if (status == XCVM_OK) {
        status = fill(k, &l, 0, &pixels, xcvm_value_data(*image));
        if (status != XCVM_OK)
            xcvm_value_release(*image);
    }
    xct_pixels_release(&pixels);
    return status;
}

xcvm_status xct_image_load(const void *bytes, size_t count, const xcvm_type *wanted, const xct_image_options *options,
                           xct_image_info *info, xcvm_value **image, xcvm_error *error)
{
    xct_image_options o;
    xcvm_error own;
    xct_image_info found = {0};
    error = error != NULL ? error : &own;
    XCVM_CHECK(error, (bytes != NULL || count == 0) && image != NULL, INVALID_ARGUMENT, "bytes or image is NULL");
    XCVM_TRY(xcvm_options_read(&o, sizeof o, options, error));
    xcvm_kernel k = {.error = error,
                     .deadline_ns = xcvm_clock_deadline(o.timeout_ns),
                     .allocator = xcvm_allocator_or_default(o.allocator)};
    XCVM_TRY(xcvm_heap_create(k.allocator, o.memory_limit, &k.heap, error));
    const xcvm_status status = load(&k, bytes, count, wanted, o.allocator, &found, image);
    xcvm_heap_destroy(k.heap);
    if (status == XCVM_OK && info != NULL) {
        const size_t size = info->size;
        memcpy(info, &found, size < sizeof found ? size : sizeof found);
        info->size = size;
    }
    return status;
}

/* ---- Images of a data set ---- */

struct xct_decoder {
    const xcvm_allocator *allocator;
    xcvm_heap *heap; /* keeps its blocks for the next image */
    layout layout;
    double scale; /* of bytes; 0: 1/255 */
};

xcvm_status xct_decoder_create(xcvm_dtype dtype, int rank, const int64_t *dims, double scale,
                               const xcvm_allocator *allocator, size_t memory_limit, xct_decoder **decoder,
                               xcvm_error *error)
{
    xcvm_type wanted = {.kind = XCVM_KIND_TENSOR, .dtype = dtype, .rank = rank};
    layout l;
    XCVM_CHECK(error, rank == 4, SHAPE_MISMATCH, "images are for an input of 4 axes, [N, C, H, W] or [N, H, W, C]");
    memcpy(wanted.dims, dims, 4 * sizeof *dims);
    wanted.dims[0] = 1;
    XCVM_TRY(read_layout(&wanted, &l, error));
    XCVM_CHECK(error, !l.flat && l.channels > 0 && l.height > 0 && l.width > 0, SHAPE_MISMATCH,
               "images can be resized for an input of known channels, height and width alone; fix them with their "
               "names");
    xct_decoder *d = xcvm_allocate_zeroed(allocator, sizeof *d);
    XCVM_CHECK(error, d != NULL, OUT_OF_MEMORY, "no memory for the decoder of images");
    d->allocator = allocator;
    d->layout = l;
    /* A byte times 1/255 can differ from the byte divided by 255 in the last bit. */
    d->scale = scale == 1.0 / 255.0 ? 0 : scale;
    const xcvm_status status = xcvm_heap_create(allocator, memory_limit, &d->heap, error);
    if (status == XCVM_OK)
        *decoder = d;
    else
        xcvm_deallocate(allocator, d, sizeof *d);
    return status;
}

void xct_decoder_destroy(xct_decoder *d)
{
    if (d == NULL)
        return;
    xcvm_heap_destroy(d->heap);
    xcvm_deallocate(d->allocator, d, sizeof *d);
}

xcvm_status xct_decoder_read(xct_decoder *d, const char *path, uint64_t deadline_ns, void *to, size_t bytes,
                             xcvm_error *error)
{
    xct_mapping file;
    xct_pixels pixels = {.storage = NULL};
    xcvm_error own;
    error = error != NULL ? error : &own;
    XCVM_TRY(xct_mapping_open(&file, path, error));
    xcvm_kernel k = {.error = error, .heap = d->heap, .deadline_ns = deadline_ns, .allocator = d->allocator};
    xcvm_status status = decode(&k, file.bytes, file.count, d->layout.channels, &pixels);
    if (status == XCVM_OK)
        status = xct_resample(&k, &pixels, (size_t)d->layout.height, (size_t)d->layout.width);
    if (status == XCVM_OK && pixels.height * pixels.width * pixels.channels * xcvm_dtype_size(d->layout.dtype) != bytes)
        status = xcvm_error_set(error, XCVM_SHAPE_MISMATCH, "the image does not have the size of an example");
    if (status == XCVM_OK)
        status = fill(&k, &d->layout, d->scale, &pixels, to);
    xct_pixels_release(&pixels);
    if (status != XCVM_OK)
        xcvm_error_prefix(error, "%s", path);
    xct_mapping_close(&file);
    return status;
}
