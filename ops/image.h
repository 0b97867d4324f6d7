/* Decoding images: one function for each library. */
#ifndef XCVM_OPS_IMAGE_H
#define XCVM_OPS_IMAGE_H

#include "base/status.h"

/* Makes room for an image, which the decoder fills with rows of red, green and blue bytes; NULL with the error set if
 * there is none. */
typedef uint8_t *(*xcvm_image_room)(void *user, size_t height, size_t width);

typedef struct xcvm_image_source {
    const uint8_t *bytes;
    size_t count;
    xcvm_image_room room;
    void *user;
    xcvm_error *error;
} xcvm_image_source;

/* Largest height and width. */
enum { XCVM_IMAGE_LARGEST = 1 << 16 };

/* INVALID_ARGUMENT if the image is broken, UNSUPPORTED if it is a variety that the library leaves out. */
xcvm_status xcvm_image_decode_jpeg(const xcvm_image_source *s);
xcvm_status xcvm_image_decode_jpeg2000(const xcvm_image_source *s);
xcvm_status xcvm_image_decode_tiff(const xcvm_image_source *s);
xcvm_status xcvm_image_decode_webp(const xcvm_image_source *s);
/* PNG, BMP, and the binary PGM and PPM. */
xcvm_status xcvm_image_decode_stb(const xcvm_image_source *s);

#endif
