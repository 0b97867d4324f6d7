/* TIFF, by libtiff: an optional dependency, XCVM_HAVE_TIFF. */
#include "base/lazy_library.h"
#include "ops/image/image.h"

#ifdef XCVM_HAVE_TIFF

#include <string.h>

#include <tiffio.h>

#define FUNCTIONS(X)                                                                                                   \
    X(TIFFGetField)                                                                                                    \
    X(TIFFRGBAImageOK)                                                                                                 \
    X(TIFFIsTiled)                                                                                                     \
    X(TIFFTileSize64)                                                                                                  \
    X(TIFFStripSize64)                                                                                                 \
    X(TIFFReadRGBAImageOriented)                                                                                       \
    X(TIFFOpenOptionsAlloc)                                                                                            \
    X(TIFFOpenOptionsFree)                                                                                             \
    X(TIFFOpenOptionsSetMaxSingleMemAlloc)                                                                             \
    X(TIFFOpenOptionsSetErrorHandlerExtR)                                                                              \
    X(TIFFOpenOptionsSetWarningHandlerExtR)                                                                            \
    X(TIFFClientOpenExt)                                                                                               \
    X(TIFFClose)
XCVM_LAZY_LIBRARY(tiff_library, XCVM_TIFF_FILE, FUNCTIONS)

/* The bytes as libtiff's file. */
typedef struct reader {
    const uint8_t *bytes;
    size_t count, at;
    const xcvm_image_source *source;
} reader;

/* Once for each strip or tile: where decoding stops when time is up. */
static tmsize_t read_bytes(thandle_t handle, void *to, tmsize_t size)
{
    reader *r = handle;
    if (xcvm_image_poll(r->source) != XCVM_OK)
        return -1;
    const size_t left = r->at < r->count ? r->count - r->at : 0;
    const size_t n = size < 0 ? 0 : (size_t)size < left ? (size_t)size : left;
    memcpy(to, r->bytes + (r->at < r->count ? r->at : 0), n);
    r->at += n;
    return (tmsize_t)n;
}

static tmsize_t write_nothing(thandle_t handle, void *from, tmsize_t size)
{
    (void)handle;
    (void)from;
    (void)size;
    return -1;
}

static toff_t seek(thandle_t handle, toff_t offset, int whence)
{
    reader *r = handle;
    const toff_t from = whence == SEEK_CUR ? r->at : whence == SEEK_END ? r->count : 0;
    if (__builtin_add_overflow(from, offset, &r->at))
        r->at = SIZE_MAX;
    return r->at;
}

static int close_nothing(thandle_t handle)
{
    (void)handle;
    return 0;
}

static toff_t size_of(thandle_t handle) { return ((const reader *)handle)->count; }

static xcvm_status read_image(const xcvm_image_source *s, TIFF *tiff)
{
    uint32_t width = 0, height = 0;
    char why[1024] = "";
    XCVM_CHECK(s->error,
               tiff_library.TIFFGetField(tiff, TIFFTAG_IMAGEWIDTH, &width) != 0 &&
                   tiff_library.TIFFGetField(tiff, TIFFTAG_IMAGELENGTH, &height) != 0,
               INVALID_ARGUMENT, "the TIFF image cannot be decoded: it has no size");
    XCVM_CHECK(s->error, width <= XCVM_IMAGE_LARGEST && height <= XCVM_IMAGE_LARGEST, OUT_OF_RANGE,
               "the image is too large");
    XCVM_CHECK(s->error, tiff_library.TIFFRGBAImageOK(tiff, why) != 0, UNSUPPORTED,
               "the TIFF image is not supported: %.150s", why);
    /* libtiff keeps the strip or tile that it decodes, for each of up to four channels. */
    const uint64_t piece =
        tiff_library.TIFFIsTiled(tiff) ? tiff_library.TIFFTileSize64(tiff) : tiff_library.TIFFStripSize64(tiff);
    XCVM_CHECK(s->error, piece <= PTRDIFF_MAX / 8, OUT_OF_RANGE, "the TIFF image has pieces of %llu bytes",
               (unsigned long long)piece);
    XCVM_TRY(xcvm_image_claim(s, 4 * (size_t)piece + s->count));
    uint8_t *rows = s->room(s->user, height, width);
    if (rows == NULL)
        return s->error->status;
    /* It gives words of red, green, blue and alpha. */
    uint32_t *words = xcvm_image_allocate(s->budget, (size_t)width * height * sizeof *words);
    XCVM_CHECK(s->error, words != NULL, OUT_OF_MEMORY, "no memory for the TIFF image");
    const bool whole = tiff_library.TIFFReadRGBAImageOriented(tiff, width, height, words, ORIENTATION_TOPLEFT, 1) != 0;
    for (size_t i = 0; i < (size_t)width * height && whole; i++) {
        rows[3 * i] = (uint8_t)TIFFGetR(words[i]);
        rows[3 * i + 1] = (uint8_t)TIFFGetG(words[i]);
        rows[3 * i + 2] = (uint8_t)TIFFGetB(words[i]);
    }
    xcvm_image_release(words);
    XCVM_CHECK(s->error, whole, INVALID_ARGUMENT, "the TIFF image cannot be decoded");
    return XCVM_OK;
}

/* libtiff would print what it says. */
static int say_nothing(TIFF *tiff, void *user, const char *module, const char *format, va_list arguments)
{
    (void)tiff;
    (void)user;
    (void)module;
    (void)format;
    (void)arguments;
    return 1;
}

xcvm_status xcvm_image_decode_tiff(const xcvm_image_source *s)
{
    XCVM_TRY(load_tiff_library(s->error));
    reader r = {s->bytes, s->count, 0, s};
    TIFFOpenOptions *options = tiff_library.TIFFOpenOptionsAlloc();
    XCVM_CHECK(s->error, options != NULL, OUT_OF_MEMORY, "no memory for the TIFF image");
    /* What is claimed for the pixels is checked by their sizes; this is for what stands in front of them. */
    const size_t left = xcvm_heap_left(s->budget->k->heap);
    if (left <= PTRDIFF_MAX)
        tiff_library.TIFFOpenOptionsSetMaxSingleMemAlloc(options, left != 0 ? (tmsize_t)left : 1);
    tiff_library.TIFFOpenOptionsSetErrorHandlerExtR(options, say_nothing, NULL);
    tiff_library.TIFFOpenOptionsSetWarningHandlerExtR(options, say_nothing, NULL);
    TIFF *tiff = tiff_library.TIFFClientOpenExt("x", "rm", &r, read_bytes, write_nothing, seek, close_nothing, size_of,
                                                NULL, NULL, options);
    tiff_library.TIFFOpenOptionsFree(options);
    XCVM_CHECK(s->error, tiff != NULL, INVALID_ARGUMENT, "the TIFF image cannot be decoded: its header is broken");
    const xcvm_status status = read_image(s, tiff);
    tiff_library.TIFFClose(tiff);
    return status;
}

#else

xcvm_status xcvm_image_decode_tiff(const xcvm_image_source *s)
{
    return xcvm_error_set(s->error, XCVM_UNSUPPORTED, "this build leaves TIFF images out: libtiff was not there");
}

#endif
