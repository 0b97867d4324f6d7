/* Image decoding: one function per library. */
#ifndef XCVM_FORMATS_IMAGE_H
#define XCVM_FORMATS_IMAGE_H

#include "base/heap.h"

/* Provides memory for an image, which the decoder fills with rows of RGB bytes, or RGBA with 4 channels. Returns NULL
 * with the error set on failure. */
typedef uint8_t *(*xcvm_image_room)(void *user, size_t height, size_t width);

/* Limits of decoding. */
typedef struct xcvm_image_budget {
    xcvm_heap *heap;
    xcvm_status (*poll)(void *user, xcvm_error *error); /* fails where decoding must stop */
    void *user;
    size_t claimed;     /* bytes counted against the session's limit */
    xcvm_error refused; /* the first refusal of memory or time; it determines the error, whatever the library reports */
} xcvm_image_budget;

typedef struct xcvm_image_source {
    const uint8_t *bytes;
    size_t count;
    size_t channels; /* 3, or 4 with alpha, which is 255 if the image has none */
    xcvm_image_room room;
    void *user;
    xcvm_image_budget *budget;
    xcvm_error *error; /* never NULL */
} xcvm_image_source;

/* Counts memory that a library will allocate from the system against the session's limit until the image is decoded.
 * Must be called before the allocation, with the sizes that the image declares. */
xcvm_status xcvm_image_claim(const xcvm_image_source *s, size_t bytes);
/* Returns CANCELLED or OUT_OF_TIME if decoding must stop. For callbacks of libraries. */
xcvm_status xcvm_image_poll(const xcvm_image_source *s);
/* malloc, realloc and free from the session's heap, for libraries with allocation callbacks. They also poll. */
void *xcvm_image_allocate(xcvm_image_budget *budget, size_t bytes);
void *xcvm_image_reallocate(xcvm_image_budget *budget, void *memory, size_t bytes);
void xcvm_image_release(void *memory);

/* Maximum height and width. */
enum { XCVM_IMAGE_LARGEST = 1 << 16 };

/* Fail with INVALID_ARGUMENT if the image is broken, and UNSUPPORTED if the library does not support its variant. */
xcvm_status xcvm_image_decode_jpeg(const xcvm_image_source *s);
xcvm_status xcvm_image_decode_jpeg2000(const xcvm_image_source *s);
xcvm_status xcvm_image_decode_tiff(const xcvm_image_source *s);
xcvm_status xcvm_image_decode_webp(const xcvm_image_source *s);
/* Decodes PNG, BMP, and binary PGM and PPM. */
xcvm_status xcvm_image_decode_stb(const xcvm_image_source *s);

/* Decodes an image of any of these formats, recognized by its first bytes, into the channels of the source. The caller
 * applies an orientation in EXIF data; TIFF has a tag for it, which its decoder applies. */
xcvm_status xcvm_image_decode_source(const xcvm_image_source *s);
/* Takes back what was claimed, and returns the failure of a decoding: the refusal of memory or time, if there was one.
 */
const xcvm_error *xcvm_image_finish(xcvm_image_budget *budget, const xcvm_error *error);

#endif
