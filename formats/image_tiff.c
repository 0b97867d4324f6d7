/* TIFF with libtiff, an optional dependency (XCVM_HAVE_TIFF). */
#include "base/lazy_library.h"
#include "formats/image.h"

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

/* The bytes as a file of libtiff. */
typedef struct reader {
    const uint8_t *bytes;
    size_t count, at;
    const xcvm_image_source *source;
} reader;

/* Called once per strip or tile, so decoding stops here when time is up. */
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

/* Orientation of the first row and column: 1 to 8, as in EXIF. */
static int read_orientation(TIFF *tiff)
{
    uint16_t orientation = ORIENTATION_TOPLEFT;
    const bool given = tiff_library.TIFFGetField(tiff, TIFFTAG_ORIENTATION, &orientation) != 0;
    return given && orientation >= ORIENTATION_TOPLEFT && orientation <= ORIENTATION_LEFTBOT ? orientation
                                                                                             : ORIENTATION_TOPLEFT;
}

/* Returns true if libtiff has multiplied colors by an alpha that the file stores unassociated. */
static bool is_multiplied(TIFF *tiff)
{
    uint16_t count = 0, *kinds = NULL;
    return tiff_library.TIFFGetField(tiff, TIFFTAG_EXTRASAMPLES, &count, &kinds) != 0 && count > 0 && kinds != NULL &&
           kinds[0] == EXTRASAMPLE_UNASSALPHA;
}

/* Index in the file of the pixel shown at row y and column x. */
static size_t place_of(int orientation, size_t width, size_t height, size_t y, size_t x)
{
    const bool turned = orientation >= ORIENTATION_LEFTTOP;
    const bool right = orientation == ORIENTATION_TOPRIGHT || orientation == ORIENTATION_BOTRIGHT ||
                       orientation == ORIENTATION_RIGHTTOP || orientation == ORIENTATION_RIGHTBOT;
    const bool bottom = orientation == ORIENTATION_BOTRIGHT || orientation == ORIENTATION_BOTLEFT ||
                        orientation == ORIENTATION_RIGHTBOT || orientation == ORIENTATION_LEFTBOT;
    const size_t rows = turned ? width : height, columns = turned ? height : width;
    if (right)
        x = columns - 1 - x;
    if (bottom)
        y = rows - 1 - y;
    return turned ? x * width + y : y * width + x;
}

static xcvm_status take_pixels(const xcvm_image_source *s, const uint32_t *words, size_t width, size_t height,
                               int orientation, bool multiplied, uint8_t *to)
{
    const bool turned = orientation >= ORIENTATION_LEFTTOP;
    const size_t rows = turned ? width : height, columns = turned ? height : width;
    for (size_t y = 0; y < rows; y++) {
        XCVM_TRY(xcvm_image_poll(s));
        for (size_t x = 0; x < columns; x++, to += s->channels) {
            const uint32_t word = words[place_of(orientation, width, height, y, x)];
            const uint32_t alpha = TIFFGetA(word), color[] = {TIFFGetR(word), TIFFGetG(word), TIFFGetB(word)};
            for (size_t k = 0; k < 3; k++) {
                const uint32_t whole = multiplied && alpha > 0 ? (color[k] * 255 + alpha / 2) / alpha : color[k];
                to[k] = (uint8_t)(whole < 255 ? whole : 255);
            }
            if (s->channels == 4)
                to[3] = (uint8_t)alpha;
        }
    }
    return XCVM_OK;
}

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
    /* libtiff keeps the strip or tile that it decodes, for up to four channels. */
    const uint64_t piece =
        tiff_library.TIFFIsTiled(tiff) ? tiff_library.TIFFTileSize64(tiff) : tiff_library.TIFFStripSize64(tiff);
    XCVM_CHECK(s->error, piece <= PTRDIFF_MAX / 8, OUT_OF_RANGE, "the TIFF image has pieces of %llu bytes",
               (unsigned long long)piece);
    XCVM_TRY(xcvm_image_claim(s, 4 * (size_t)piece + s->count));
    const int orientation = read_orientation(tiff);
    const bool turned = orientation >= ORIENTATION_LEFTTOP;
    uint8_t *rows = turned ? s->room(s->user, width, height) : s->room(s->user, height, width);
    if (rows == NULL)
        return s->error->status;
    /* The result is RGBA words, in file order if that orientation is requested. */
    uint32_t *words = xcvm_image_allocate(s->budget, (size_t)width * height * sizeof *words);
    XCVM_CHECK(s->error, words != NULL, OUT_OF_MEMORY, "no memory for the TIFF image");
    const bool whole = tiff_library.TIFFReadRGBAImageOriented(tiff, width, height, words, orientation, 1) != 0;
    const xcvm_status status =
        !whole ? XCVM_OK : take_pixels(s, words, width, height, orientation, is_multiplied(tiff), rows);
    xcvm_image_release(words);
    XCVM_CHECK(s->error, whole, INVALID_ARGUMENT, "the TIFF image cannot be decoded");
    return status;
}

/* Otherwise libtiff prints its messages. */
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
    /* The pixels are checked by their claimed size; this limits the directory before them. */
    const size_t left = xcvm_heap_left(s->budget->heap);
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
    return xcvm_error_set(s->error, XCVM_UNSUPPORTED,
                          "this build does not support TIFF images: it was built without libtiff");
}

#endif
