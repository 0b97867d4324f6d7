/* WebP with libwebp, an optional dependency (XCVM_HAVE_WEBP). */
#include "base/lazy_library.h"
#include "formats/image.h"

#ifdef XCVM_HAVE_WEBP

#include <webp/decode.h>

#define FUNCTIONS(X)                                                                                                   \
    X(WebPGetInfo)                                                                                                     \
    X(WebPDecodeRGBInto)                                                                                               \
    X(WebPDecodeRGBAInto)
XCVM_LAZY_LIBRARY(webp, XCVM_WEBP_FILE, FUNCTIONS)

xcvm_status xcvm_image_decode_webp(const xcvm_image_source *s)
{
    XCVM_TRY(load_webp(s->error));
    int width, height;
    XCVM_CHECK(s->error, webp.WebPGetInfo(s->bytes, s->count, &width, &height) != 0, INVALID_ARGUMENT,
               "the WebP image is broken");
    uint8_t *rows = s->room(s->user, (size_t)height, (size_t)width);
    if (rows == NULL)
        return s->error->status;
    /* libwebp keeps a word per pixel of a lossless image, and predictor data per block. */
    XCVM_TRY(xcvm_image_claim(s, ((size_t)width + 64) * ((size_t)height + 64) * 6));
    XCVM_TRY(xcvm_image_poll(s));
    const size_t stride = (size_t)width * s->channels;
    const bool decoded =
        (s->channels == 4
             ? webp.WebPDecodeRGBAInto(s->bytes, s->count, rows, (size_t)height * stride, (int)stride)
             : webp.WebPDecodeRGBInto(s->bytes, s->count, rows, (size_t)height * stride, (int)stride)) != NULL;
    XCVM_CHECK(s->error, decoded, INVALID_ARGUMENT, "the WebP image cannot be decoded");
    return XCVM_OK;
}

#else

xcvm_status xcvm_image_decode_webp(const xcvm_image_source *s)
{
    return xcvm_error_set(s->error, XCVM_UNSUPPORTED,
                          "this build does not support WebP images: it was built without libwebp");
}

#endif
