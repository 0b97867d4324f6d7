/* ImageDecoder, and decoding images with the limits of a kernel. */
#include "ops/image/image_decoder.h"

XCVM_SHAPE_RULE_OF(ImageDecoder)
{
    XCVM_CHECK(t->error, a->x->rank < 0 || a->x->rank == 1, SHAPE_MISMATCH, "x has the wrong rank (%d; expected 1)",
               a->x->rank);
    const int64_t channels = a->pixel_format == XCVM_PIXEL_FORMAT_Grayscale ? 1 : 3;
    xcvm_value_set_tensor(a->y, XCVM_U8, 3, (const int64_t[]){XCVM_ANY_DIM, XCVM_ANY_DIM, channels});
    return XCVM_OK;
}

typedef struct target {
    xcvm_kernel *k;
    xcvm_value *y;
    uint8_t *pixels; /* RGB: y's memory, or scratch if it has one channel */
    size_t count;    /* number of pixels */
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

static xcvm_status poll_kernel(void *user, xcvm_error *error)
{
    const xcvm_kernel *k = user;
    const xcvm_status status = xcvm_kernel_poll(k);
    if (status != XCVM_OK)
        *error = *k->error;
    return status;
}

/* Uses its own error, which is never NULL. A refusal by the session takes precedence over it. */
xcvm_status xcvm_image_decode_any(xcvm_kernel *k, const void *bytes, size_t count, size_t channels,
                                  xcvm_image_room room, void *user)
{
    xcvm_error *const outer = k->error;
    xcvm_error error = {.status = XCVM_OK};
    xcvm_image_budget budget = {.heap = k->heap, .poll = poll_kernel, .user = k};
    const xcvm_image_source source = {bytes, count, channels, room, user, &budget, &error};
    k->error = &error;
    const xcvm_status status = xcvm_image_decode_source(&source);
    k->error = outer;
    const xcvm_error *cause = xcvm_image_finish(&budget, &error);
    return status == XCVM_OK ? XCVM_OK : xcvm_error_set(outer, cause->status, "%s", cause->message);
}

XCVM_KERNEL(ImageDecoder)
{
    target to = {.k = k, .y = a->y};
    XCVM_TRY(xcvm_image_decode_any(k, a->x->data, xcvm_element_count(a->x), 3, make_room, &to));
    uint8_t *y = a->y->data;
    if (a->pixel_format == XCVM_PIXEL_FORMAT_BGR)
        for (size_t i = 0; i < to.count; i++) {
            const uint8_t red = y[3 * i];
            y[3 * i] = y[3 * i + 2];
            y[3 * i + 2] = red;
        }
    /* ITU-R 601-2, with Pillow's arithmetic. */
    for (size_t i = 0; i < to.count && a->pixel_format == XCVM_PIXEL_FORMAT_Grayscale; i++)
        y[i] = (uint8_t)((19595U * to.pixels[3 * i] + 38470U * to.pixels[3 * i + 1] + 7471U * to.pixels[3 * i + 2] +
                          0x8000U) >>
                         16);
    return XCVM_OK;
}
