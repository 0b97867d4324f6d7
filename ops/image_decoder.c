/* ImageDecoder. */
#include "ops/image.h"
#include "ops/kernel.h"

XCVM_SHAPE_RULE_OF(ImageDecoder)
{
    XCVM_REQUIRE(t, a->x->rank < 0 || a->x->rank == 1, SHAPE_MISMATCH, "x has rank %d, 1 is needed", a->x->rank);
    const int64_t channels = a->pixel_format == XCVM_PIXEL_FORMAT_Grayscale ? 1 : 3;
    xcvm_value_set_tensor(a->y, XCVM_U8, 3, (const int64_t[]){XCVM_ANY_DIM, XCVM_ANY_DIM, channels});
    return XCVM_OK;
}

typedef struct target {
    xcvm_kernel *k;
    xcvm_value *y;
    uint8_t *pixels; /* red, green and blue: y's memory, or scratch if it has one channel */
    size_t count;    /* pixels */
} target;

static uint8_t *make_room(void *user, size_t height, size_t width)
{
    target *to = user;
    const bool gray = to->y->dims[2] == 1;
    const int64_t dims[] = {(int64_t)height, (int64_t)width, gray ? 1 : 3};
    if (height == 0 || width == 0) {
        xcvm_error_set(to->k->error, XCVM_INVALID_ARGUMENT, "the image has no pixels");
        return NULL;
    }
    if (xcvm_kernel_allocate(to->k, to->y, XCVM_U8, 3, dims) != XCVM_OK)
        return NULL;
    to->count = height * width;
    return to->pixels = gray ? xcvm_kernel_scratch(to->k, 3 * to->count) : to->y->data;
}

static bool begins(const xcvm_image_source *s, size_t at, const char *with, size_t length)
{
    return s->count >= at + length && memcmp(s->bytes + at, with, length) == 0;
}

static xcvm_status decode(const xcvm_image_source *s)
{
    if (begins(s, 0, "\xff\xd8\xff", 3))
        return xcvm_image_decode_jpeg(s);
    if (begins(s, 0, "RIFF", 4) && begins(s, 8, "WEBP", 4))
        return xcvm_image_decode_webp(s);
    if (begins(s, 0, "\x89PNG\r\n\x1a\n", 8) || begins(s, 0, "BM", 2) || begins(s, 0, "P5", 2) || begins(s, 0, "P6", 2))
        return xcvm_image_decode_stb(s);
    if (begins(s, 0, "II*\0", 4) || begins(s, 0, "MM\0*", 4))
        return xcvm_image_decode_tiff(s);
    if (begins(s, 4, "jP  ", 4) || begins(s, 0, "\xff\x4f\xff\x51", 4))
        return xcvm_image_decode_jpeg2000(s);
    return xcvm_error_set(s->error, XCVM_INVALID_ARGUMENT,
                          "x is no image that is known; JPEG, JPEG 2000, PNG, BMP, TIFF, WebP, PGM or PPM is needed");
}

XCVM_KERNEL(ImageDecoder)
{
    target to = {.k = k, .y = a->y};
    const xcvm_image_source source = {a->x->data, xcvm_element_count(a->x), make_room, &to, k->error};
    XCVM_TRY(decode(&source));
    uint8_t *y = a->y->data;
    if (a->pixel_format == XCVM_PIXEL_FORMAT_BGR)
        for (size_t i = 0; i < to.count; i++) {
            const uint8_t red = y[3 * i];
            y[3 * i] = y[3 * i + 2];
            y[3 * i + 2] = red;
        }
    /* ITU-R 601-2, as Pillow computes it. */
    for (size_t i = 0; i < to.count && a->pixel_format == XCVM_PIXEL_FORMAT_Grayscale; i++)
        y[i] = (uint8_t)((19595U * to.pixels[3 * i] + 38470U * to.pixels[3 * i + 1] + 7471U * to.pixels[3 * i + 2] +
                          0x8000U) >>
                         16);
    return XCVM_OK;
}
