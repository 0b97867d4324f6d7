/* Resizing as Pillow does it (src/libImaging/Resample.c): two passes of a filter with coefficients in fixed point, and
 * bytes between them. */
#include "train/data/resample.h"

#include <math.h>
#include <string.h>

enum { PRECISION = 32 - 8 - 2 };

/* The filter of one axis: for each place of the result, the first place of the source and how many follow. */
typedef struct filter {
    xcvm_storage *storage;
    size_t width; /* coefficients of a place, at most */
    int32_t *coefficients;
    size_t *first, *count;
} filter;

xcvm_status xct_pixels_create(const xcvm_kernel *k, size_t height, size_t width, size_t channels, xct_pixels *pixels)
{
    size_t bytes;
    *pixels = (xct_pixels){.height = height, .width = width, .channels = channels};
    XCVM_CHECK(k->error, xcvm_size_mul(height, width, &bytes) && xcvm_size_mul(bytes, channels, &bytes), OUT_OF_MEMORY,
               "an image of %zu x %zu is more than memory can hold", height, width);
    XCVM_TRY(xcvm_heap_allocate(k->heap, bytes, &pixels->storage, k->error));
    pixels->at = pixels->storage->data;
    return XCVM_OK;
}

void xct_pixels_release(xct_pixels *pixels)
{
    if (pixels->storage != NULL)
        xcvm_storage_release(pixels->storage);
    *pixels = (xct_pixels){.storage = NULL};
}

static double triangle(double x)
{
    x = fabs(x);
    return x < 1.0 ? 1.0 - x : 0.0;
}

/* The weights of one place, which sum up to 1. */
static void fill_place(filter *f, size_t place, double scale, size_t from)
{
    const double spread = scale < 1.0 ? 1.0 : scale, center = ((double)place + 0.5) * scale;
    const double low = center - spread + 0.5, high = center + spread + 0.5;
    const size_t first = low > 0 ? (size_t)low : 0, end = high < (double)from ? (size_t)high : from;
    int32_t *coefficients = f->coefficients + place * f->width;
    double sum = 0;
    for (size_t x = first; x < end; x++)
        sum += triangle(((double)x - center + 0.5) / spread);
    for (size_t x = first; x < end; x++) {
        const double weight = triangle(((double)x - center + 0.5) / spread) / (sum != 0 ? sum : 1);
        coefficients[x - first] = (int32_t)(0.5 + weight * (1 << PRECISION));
    }
    f->first[place] = first;
    f->count[place] = end - first;
}

static xcvm_status make_filter(const xcvm_kernel *k, size_t from, size_t to, filter *f)
{
    const double scale = (double)from / (double)to, spread = scale < 1.0 ? 1.0 : scale;
    f->width = (size_t)ceil(spread) * 2 + 1;
    size_t bytes, place;
    XCVM_CHECK(k->error,
               xcvm_size_mul(f->width, sizeof *f->coefficients, &place) &&
                   xcvm_size_mul(place + sizeof *f->first + sizeof *f->count, to, &bytes),
               OUT_OF_MEMORY, "an image cannot be resized to %zu pixels", to);
    XCVM_TRY(xcvm_heap_allocate(k->heap, bytes, &f->storage, k->error));
    f->first = f->storage->data;
    f->count = f->first + to;
    f->coefficients = (int32_t *)(void *)(f->count + to);
    for (size_t i = 0; i < to; i++)
        fill_place(f, i, scale, from);
    return XCVM_OK;
}

static uint8_t byte_of(int64_t sum)
{
    sum >>= PRECISION;
    return (uint8_t)(sum < 0 ? 0 : sum > 255 ? 255 : sum);
}

/* Each pixel of a row is the sum of some of its neighbors. */
static xcvm_status resize_rows(const xcvm_kernel *k, const filter *f, const xct_pixels *from, xct_pixels *to)
{
    const size_t channels = from->channels;
    for (size_t y = 0; y < to->height; y++) {
        XCVM_TRY(xcvm_kernel_poll(k));
        const uint8_t *row = from->at + y * from->width * channels;
        uint8_t *out = to->at + y * to->width * channels;
        for (size_t x = 0; x < to->width; x++)
            for (size_t c = 0; c < channels; c++) {
                const int32_t *weights = f->coefficients + x * f->width;
                const uint8_t *at = row + f->first[x] * channels + c;
                int64_t sum = 1 << (PRECISION - 1);
                for (size_t i = 0; i < f->count[x]; i++, at += channels)
                    sum += (int64_t)weights[i] * *at;
                *out++ = byte_of(sum);
            }
    }
    return XCVM_OK;
}

/* Each row is the sum of some of the rows, in portions of a row that stay in the cache. */
static xcvm_status resize_columns(const xcvm_kernel *k, const filter *f, const xct_pixels *from, xct_pixels *to)
{
    enum { PORTION = 1024 };
    const size_t row = from->width * from->channels;
    int64_t sums[PORTION];
    for (size_t y = 0; y < to->height; y++) {
        XCVM_TRY(xcvm_kernel_poll(k));
        const int32_t *weights = f->coefficients + y * f->width;
        for (size_t begin = 0; begin < row; begin += PORTION) {
            const size_t count = row - begin < PORTION ? row - begin : PORTION;
            for (size_t i = 0; i < count; i++)
                sums[i] = 1 << (PRECISION - 1);
            for (size_t r = 0; r < f->count[y]; r++) {
                const uint8_t *at = from->at + (f->first[y] + r) * row + begin;
                for (size_t i = 0; i < count; i++)
                    sums[i] += (int64_t)weights[r] * at[i];
            }
            for (size_t i = 0; i < count; i++)
                to->at[y * row + begin + i] = byte_of(sums[i]);
        }
    }
    return XCVM_OK;
}

typedef xcvm_status (*pass)(const xcvm_kernel *k, const filter *f, const xct_pixels *from, xct_pixels *to);

static xcvm_status run_pass(const xcvm_kernel *k, pass run, size_t from, size_t to, size_t height, size_t width,
                            xct_pixels *pixels)
{
    xct_pixels resized = {.storage = NULL};
    filter f = {.storage = NULL};
    xcvm_status status = make_filter(k, from, to, &f);
    if (status == XCVM_OK)
        status = xct_pixels_create(k, height, width, pixels->channels, &resized);
    if (status == XCVM_OK)
        status = run(k, &f, pixels, &resized);
    if (f.storage != NULL)
        xcvm_storage_release(f.storage);
    if (status != XCVM_OK) {
        xct_pixels_release(&resized);
        return status;
    }
    xct_pixels_release(pixels);
    *pixels = resized;
    return XCVM_OK;
}

/* Multiplies colors by alpha, or divides them by it, as Pillow does between RGBA and RGBa. */
static xcvm_status weigh(const xcvm_kernel *k, xct_pixels *pixels, bool divide)
{
    const size_t count = pixels->height * pixels->width;
    for (size_t i = 0; i < count; i++) {
        if (i % XCVM_POLL_STEPS == 0)
            XCVM_TRY(xcvm_kernel_poll(k));
        uint8_t *pixel = pixels->at + 4 * i;
        const unsigned alpha = pixel[3];
        for (size_t c = 0; c < 3; c++) {
            const unsigned product = pixel[c] * alpha + 128;
            const unsigned whole = alpha == 255 || alpha == 0 ? pixel[c] : 255 * pixel[c] / alpha;
            pixel[c] = divide ? (uint8_t)(whole < 255 ? whole : 255) : (uint8_t)(((product >> 8) + product) >> 8);
        }
    }
    return XCVM_OK;
}

xcvm_status xct_resample(const xcvm_kernel *k, xct_pixels *pixels, size_t height, size_t width)
{
    const bool same = pixels->height == height && pixels->width == width;
    if (pixels->channels == 4 && !same)
        XCVM_TRY(weigh(k, pixels, false));
    if (pixels->width != width)
        XCVM_TRY(run_pass(k, resize_rows, pixels->width, width, pixels->height, width, pixels));
    if (pixels->height != height)
        XCVM_TRY(run_pass(k, resize_columns, pixels->height, height, height, width, pixels));
    return pixels->channels == 4 && !same ? weigh(k, pixels, true) : XCVM_OK;
}
