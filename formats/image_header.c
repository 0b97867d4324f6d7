/* Headers of image files: EXIF's orientation (CIPA DC-008, 4.6.4) in JPEG, PNG and WebP, and the channels. */
#include "formats/image_header.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

typedef struct span {
    const uint8_t *at;
    size_t count;
} span;

static bool has(span s, size_t at, const char *mark, size_t length)
{
    return s.count >= length && at <= s.count - length && memcmp(s.at + at, mark, length) == 0;
}

/* A number of `count` bytes; 0 beyond the end. */
static uint32_t number(span s, size_t at, size_t count, bool little)
{
    uint32_t value = 0;
    if (s.count < count || at > s.count - count)
        return 0;
    for (size_t i = 0; i < count; i++)
        value |= (uint32_t)s.at[at + i] << 8 * (little ? i : count - 1 - i);
    return value;
}

static span part(span s, size_t at, size_t count)
{
    if (at > s.count)
        return (span){s.at, 0};
    return (span){s.at + at, count < s.count - at ? count : s.count - at};
}

static bool is_jpeg(span s) { return has(s, 0, "\xff\xd8\xff", 3); }
static bool is_png(span s) { return has(s, 0, "\x89PNG\r\n\x1a\n", 8); }
static bool is_webp(span s) { return has(s, 0, "RIFF", 4) && has(s, 8, "WEBP", 4); }
static bool is_tiff(span s) { return has(s, 0, "II*\0", 4) || has(s, 0, "MM\0*", 4); }

/* ---- Parts of files ---- */

/* The first number of a tag in the first directory of a TIFF file, which EXIF data are; `otherwise` if it has none. */
static uint32_t tag_of(span tiff, uint32_t tag, uint32_t otherwise)
{
    enum { SHORT = 3, ENTRY = 12 };
    const bool little = has(tiff, 0, "II", 2);
    if (!little && !has(tiff, 0, "MM", 2))
        return otherwise;
    const size_t directory = number(tiff, 4, 4, little);
    const uint32_t entries = number(tiff, directory, 2, little);
    for (uint32_t i = 0; i < entries; i++) {
        const size_t at = directory + 2 + (size_t)i * ENTRY;
        if (at > tiff.count || tiff.count - at < ENTRY)
            break;
        if (number(tiff, at, 2, little) == tag)
            return number(tiff, at + 8, number(tiff, at + 2, 2, little) == SHORT ? 2 : 4, little);
    }
    return otherwise;
}

/* The segment of a JPEG with a marker from `first` to `last`, or, with `mark`, that begins so; none: no bytes. */
static span find_segment(span s, unsigned first, unsigned last, const char *mark, size_t length)
{
    enum { START_OF_SCAN = 0xda };
    for (size_t at = 2; at + 4 <= s.count && s.at[at] == 0xff;) {
        const unsigned marker = s.at[at + 1];
        if (marker == 0xff || marker == 0x01 || (marker >= 0xd0 && marker <= 0xd8)) { /* fill bytes; no length */
            at += marker == 0xff ? 1 : 2;
            continue;
        }
        const size_t size = number(s, at + 2, 2, false);
        if (marker == START_OF_SCAN || size < 2)
            break;
        const span segment = part(s, at + 4, size - 2);
        /* C4, C8 and CC are tables, not frames. */
        const bool table = first == 0xc0 && (marker == 0xc4 || marker == 0xc8 || marker == 0xcc);
        if (marker >= first && marker <= last && !table && has(segment, 0, mark, length))
            return segment;
        at += 2 + size;
    }
    return (span){s.at, 0};
}

/* The content of the first chunk of that name in a PNG (from 8 on) or a WebP (from 12 on). */
static span find_chunk(span s, const char *name)
{
    const bool webp = is_webp(s);
    for (size_t at = webp ? 12 : 8; at <= s.count && s.count - at >= 8;) {
        const size_t size = number(s, webp ? at + 4 : at, 4, webp);
        if (has(s, webp ? at : at + 4, name, 4))
            return part(s, at + 8, size);
        at += 8 + size + (webp ? size % 2 : 4);
    }
    return (span){s.at, 0};
}

/* ---- Orientation ---- */

static span find_exif(span s)
{
    static const char mark[] = "Exif\0"; /* and another 0, the text's own */
    span exif = {s.at, 0};
    if (is_jpeg(s))
        exif = find_segment(s, 0xe1, 0xe1, mark, sizeof mark);
    else if (is_png(s))
        exif = find_chunk(s, "eXIf");
    else if (is_webp(s))
        exif = find_chunk(s, "EXIF");
    return has(exif, 0, mark, sizeof mark) ? part(exif, sizeof mark, exif.count) : exif;
}

int xcvm_image_orientation(const void *bytes, size_t count)
{
    enum { ORIENTATION = 0x0112 };
    const uint32_t orientation = tag_of(find_exif((span){bytes, count}), ORIENTATION, 1);
    return orientation >= 1 && orientation <= 8 ? (int)orientation : 1;
}

/* ---- Channels ---- */

static int png_channels(span s)
{
    enum { COLOR_TYPE = 25, GRAY = 0, PALETTE = 3, GRAY_ALPHA = 4, RGB_ALPHA = 6 };
    const uint32_t type = number(s, COLOR_TYPE, 1, false);
    if (type == PALETTE)
        return find_chunk(s, "tRNS").count > 0 ? 4 : 3;
    return type == GRAY ? 1 : type == GRAY_ALPHA || type == RGB_ALPHA ? 4 : 3;
}

static int webp_channels(span s)
{
    enum { FLAGS = 20, LOSSLESS_SIZES = 21, ALPHA = 0x10 };
    const bool extended = has(s, 12, "VP8X", 4) && (number(s, FLAGS, 1, true) & ALPHA) != 0;
    const bool lossless = has(s, 12, "VP8L", 4) && (number(s, LOSSLESS_SIZES + 3, 1, true) & ALPHA) != 0;
    return extended || lossless ? 4 : 3;
}

static int tiff_channels(span s)
{
    enum { PHOTOMETRIC = 262, SAMPLES = 277, EXTRA_SAMPLES = 338, GRAY = 1, MISSING = 1000 };
    const uint32_t photometric = tag_of(s, PHOTOMETRIC, MISSING), samples = tag_of(s, SAMPLES, 1);
    if (tag_of(s, EXTRA_SAMPLES, 0) != 0)
        return 4;
    return photometric <= GRAY && samples == 1 ? 1 : 3;
}

int xcvm_image_channels(const void *bytes, size_t count)
{
    enum { COMPONENTS = 5 };
    const span s = {bytes, count};
    if (is_png(s))
        return png_channels(s);
    if (is_jpeg(s))
        return number(find_segment(s, 0xc0, 0xcf, "", 0), COMPONENTS, 1, false) == 1 ? 1 : 3;
    if (is_webp(s))
        return webp_channels(s);
    if (is_tiff(s))
        return tiff_channels(s);
    return has(s, 0, "P5", 2) ? 1 : 3;
}
