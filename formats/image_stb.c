/* PNG, BMP, PGM and PPM with stb_image, an optional dependency (XCVM_HAVE_STB). */
#include "formats/image.h"

#ifdef XCVM_HAVE_STB

/* stb_image allocates from the budget of the image that this thread decodes. */
static _Thread_local xcvm_image_budget *current;

#define STBI_MALLOC(bytes) xcvm_image_allocate(current, bytes)
#define STBI_REALLOC(memory, bytes) xcvm_image_reallocate(current, memory, bytes)
#define STBI_FREE(memory) xcvm_image_release(memory)
#define STBI_ASSERT(condition) ((void)0)

#define STB_IMAGE_IMPLEMENTATION
#define STB_IMAGE_STATIC
#define STBI_ONLY_PNG
#define STBI_ONLY_BMP
#define STBI_ONLY_PNM
#define STBI_NO_STDIO
#define STBI_MAX_DIMENSIONS XCVM_IMAGE_LARGEST
#include <stb/stb_image.h>

#include <stdlib.h>
#include <string.h>

/* Loads 16-bit images with their own channel count: when asked for three channels, stb_image reads a one-channel PNM
 * beyond its end. It also does not swap the big-endian samples of a PNM. Returns RGB bytes, or RGBA if wanted, to be
 * freed with stbi_image_free. */
static stbi_uc *load_wide(const xcvm_image_source *s, int *width, int *height)
{
    int channels;
    stbi_us *wide = stbi_load_16_from_memory(s->bytes, (int)s->count, width, height, &channels, 0);
    if (wide == NULL)
        return NULL;
    const size_t count = (size_t)*width * (size_t)*height, step = (size_t)channels;
    const int shift = s->bytes[0] == 'P' ? 0 : 8;
    const bool alpha = step == 2 || step == 4;
    stbi_uc *pixels = STBI_MALLOC(s->channels * count);
    for (size_t i = 0; i < count && pixels != NULL; i++) {
        for (size_t k = 0; k < 3; k++)
            pixels[s->channels * i + k] = (stbi_uc)(wide[i * step + (step >= 3 ? k : 0)] >> shift);
        if (s->channels == 4)
            pixels[4 * i + 3] = alpha ? (stbi_uc)(wide[i * step + step - 1] >> shift) : 255;
    }
    stbi_image_free(wide);
    return pixels;
}

static uint32_t little_endian(const uint8_t *bytes, int count)
{
    uint32_t value = 0;
    for (int i = 0; i < count; i++)
        value |= (uint32_t)bytes[i] << 8 * i;
    return value;
}

/* The place of a PNM's pixels: behind the width, the height, the greatest sample and one more byte. Reads as stb_image
 * does. */
static size_t pnm_header(const xcvm_image_source *s)
{
    size_t at = 2;
    for (int number = 0; number < 3; number++) {
        while (at < s->count && memchr(" \t\n\v\f\r#", s->bytes[at], 7) != NULL) {
            const bool comment = s->bytes[at] == '#';
            while (comment && at < s->count && s->bytes[at] != '\n' && s->bytes[at] != '\r')
                at++;
            at += at < s->count;
        }
        while (at < s->count && s->bytes[at] >= '0' && s->bytes[at] <= '9')
            at++;
    }
    return at + 1;
}

/* Returns true if the file is large enough for its declared size: rows of BMP and PNM are not compressed, and PNG at
 * most by deflate's factor. stb_image would invent missing data, leave them as they are in memory, or detect the end
 * late. */
static bool is_plausible(const xcvm_image_source *s, size_t width, size_t height, int channels)
{
    enum { MOST_DEFLATED = 1032 }; /* zlib's technical details, "Maximum Compression Factor" */
    enum { CORE_HEADER = 12, LEAST_HEADER = 30 };
    size_t bits = 1, share = MOST_DEFLATED, start = 0;
    if (s->bytes[0] == 'P') {
        bits = (stbi_is_16_bit_from_memory(s->bytes, (int)s->count) ? 16 : 8) * (size_t)channels;
        share = 1;
        start = pnm_header(s);
    } else if (s->bytes[0] == 'B' && s->count >= LEAST_HEADER) {
        const bool is_core = little_endian(s->bytes + 14, 4) == CORE_HEADER;
        bits = little_endian(s->bytes + (is_core ? 24 : 28), 2);
        share = 1;
        start = little_endian(s->bytes + 10, 4);
    }
    return start <= s->count && bits * width / 8 * height / share <= s->count - start;
}

/* Uses stb's reason, which may be missing, or continue with the start of another line. */
static xcvm_status undecodable(const xcvm_image_source *s)
{
    const char *reason = stbi_failure_reason();
    const int length = reason != NULL ? (int)strcspn(reason, "\n") : 0;
    XCVM_FAIL(s->error, INVALID_ARGUMENT, "the image cannot be decoded%s%.*s", length != 0 ? ": " : "", length,
              reason != NULL ? reason : "");
}

static xcvm_status decode(const xcvm_image_source *s)
{
    int width, height, channels;
    XCVM_CHECK(s->error, s->count <= INT32_MAX, OUT_OF_RANGE, "the image is too large");
    if (stbi_info_from_memory(s->bytes, (int)s->count, &width, &height, &channels) == 0)
        return undecodable(s);
    XCVM_CHECK(s->error,
               width >= 0 && width <= XCVM_IMAGE_LARGEST && height >= -XCVM_IMAGE_LARGEST &&
                   height <= XCVM_IMAGE_LARGEST,
               OUT_OF_RANGE, "the image is too large");
    height = abs(height); /* negative in a BMP with rows from top to bottom */
    XCVM_CHECK(s->error, is_plausible(s, (size_t)width, (size_t)height, channels), INVALID_ARGUMENT,
               "an image of %d x %d does not fit into %zu bytes", height, width, s->count);
    uint8_t *rows = s->room(s->user, (size_t)height, (size_t)width);
    if (rows == NULL)
        return s->error->status;
    int loaded_width, loaded_height;
    stbi_uc *pixels = stbi_is_16_bit_from_memory(s->bytes, (int)s->count)
                          ? load_wide(s, &loaded_width, &loaded_height)
                          : stbi_load_from_memory(s->bytes, (int)s->count, &loaded_width, &loaded_height, &channels,
                                                  (int)s->channels);
    if (pixels == NULL)
        return undecodable(s);
    const bool same = loaded_width == width && loaded_height == height;
    if (same)
        memcpy(rows, pixels, (size_t)height * (size_t)width * s->channels);
    stbi_image_free(pixels);
    XCVM_CHECK(s->error, same, INVALID_ARGUMENT, "the image changes its size");
    return XCVM_OK;
}

xcvm_status xcvm_image_decode_stb(const xcvm_image_source *s)
{
    current = s->budget;
    const xcvm_status status = decode(s);
    current = NULL;
    return status;
}

#else

xcvm_status xcvm_image_decode_stb(const xcvm_image_source *s)
{
    return xcvm_error_set(s->error, XCVM_UNSUPPORTED,
                          "this build does not support PNG, BMP, PGM and PPM images: it was built without stb_image");
}

#endif
