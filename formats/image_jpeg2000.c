/* JPEG 2000 with OpenJPEG, an optional dependency (XCVM_HAVE_OPENJPEG). */
#include "base/lazy_library.h"
#include "formats/image.h"

#ifdef XCVM_HAVE_OPENJPEG

#include <string.h>

#include <openjpeg.h>

#define FUNCTIONS(X)                                                                                                   \
    X(opj_create_decompress)                                                                                           \
    X(opj_stream_default_create)                                                                                       \
    X(opj_stream_set_user_data)                                                                                        \
    X(opj_stream_set_user_data_length)                                                                                 \
    X(opj_stream_set_read_function)                                                                                    \
    X(opj_stream_set_seek_function)                                                                                    \
    X(opj_stream_set_skip_function)                                                                                    \
    X(opj_image_destroy)                                                                                               \
    X(opj_stream_destroy)                                                                                              \
    X(opj_destroy_codec)                                                                                               \
    X(opj_set_default_decoder_parameters)                                                                              \
    X(opj_setup_decoder)                                                                                               \
    X(opj_read_header)                                                                                                 \
    X(opj_decode)                                                                                                      \
    X(opj_end_decompress)
XCVM_LAZY_LIBRARY(opj, XCVM_OPENJPEG_FILE, FUNCTIONS)

enum { MOST_CHANNELS = 4 };

/* The bytes as a stream of OpenJPEG. */
typedef struct reader {
    const uint8_t *bytes;
    size_t count, at;
    const xcvm_image_source *source;
} reader;

static OPJ_SIZE_T read_bytes(void *to, OPJ_SIZE_T size, void *user)
{
    reader *r = user;
    const size_t n = size < r->count - r->at ? size : r->count - r->at;
    if (n == 0 || xcvm_image_poll(r->source) != XCVM_OK)
        return (OPJ_SIZE_T)-1;
    memcpy(to, r->bytes + r->at, n);
    r->at += n;
    return n;
}

static OPJ_BOOL seek(OPJ_OFF_T offset, void *user)
{
    reader *r = user;
    if (offset < 0 || (uint64_t)offset > r->count)
        return OPJ_FALSE;
    r->at = (size_t)offset;
    return OPJ_TRUE;
}

static OPJ_OFF_T skip(OPJ_OFF_T offset, void *user)
{
    reader *r = user;
    if (offset < 0 || (uint64_t)offset > r->count - r->at)
        return -1;
    r->at += (size_t)offset;
    return offset;
}

/* Converts one sample to a byte. */
static uint8_t byte_of(const opj_image_comp_t *c, size_t i)
{
    const int64_t value = (int64_t)c->data[i] + (c->sgnd ? (int64_t)1 << (c->prec - 1) : 0);
    const int64_t byte = c->prec > 8 ? value >> (c->prec - 8) : value << (8 - c->prec);
    return (uint8_t)(byte < 0 ? 0 : byte > 255 ? 255 : byte);
}

/* Also checks channels beyond the colors. */
static xcvm_status check_channels(const xcvm_image_source *s, const opj_image_t *image)
{
    const opj_image_comp_t *c = image->comps;
    for (uint32_t i = 0; i < image->numcomps; i++)
        XCVM_CHECK(s->error, c[i].w == c[0].w && c[i].h == c[0].h && c[i].prec >= 1 && c[i].prec <= 31, UNSUPPORTED,
                   "the channels of the JPEG 2000 image are not alike");
    return XCVM_OK;
}

static xcvm_status take_pixels(const xcvm_image_source *s, const opj_image_t *image, size_t count, uint8_t *rows)
{
    const opj_image_comp_t *c = image->comps;
    const bool color = image->numcomps >= 3, alpha = image->numcomps == 2 || image->numcomps == 4;
    const size_t step = s->channels;
    XCVM_CHECK(s->error, image->color_space != OPJ_CLRSPC_SYCC && image->color_space != OPJ_CLRSPC_CMYK, UNSUPPORTED,
               "the colors of the JPEG 2000 image are not supported");
    XCVM_TRY(check_channels(s, image));
    for (uint32_t i = 0; i < image->numcomps; i++)
        XCVM_CHECK(s->error, c[i].data != NULL, INVALID_ARGUMENT, "the JPEG 2000 image cannot be decoded");
    XCVM_CHECK(s->error, (size_t)c[0].w * c[0].h == count, INVALID_ARGUMENT, "the JPEG 2000 image changes its size");
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < 3; k++)
            rows[step * i + k] = byte_of(&c[color ? k : 0], i);
        if (step == 4)
            rows[step * i + 3] = alpha ? byte_of(&c[image->numcomps - 1], i) : 255;
    }
    return XCVM_OK;
}

/* ---- Header ---- */

static uint32_t big_endian(const uint8_t *bytes, int count)
{
    uint32_t value = 0;
    for (int i = 0; i < count; i++)
        value = value << 8 | bytes[i];
    return value;
}

/* Returns the start of the codestream: at the beginning, or in a box "jp2c" of a JP2 file; the end if there is none. */
static size_t find_codestream(const xcvm_image_source *s)
{
    size_t at = 0;
    if (s->count < 2 || big_endian(s->bytes, 2) == 0xff4f)
        return 0;
    while (s->count - at >= 8) {
        uint64_t length = big_endian(s->bytes + at, 4), header = 8;
        if (length == 1 && s->count - at >= 16) {
            length = (uint64_t)big_endian(s->bytes + at + 8, 4) << 32 | big_endian(s->bytes + at + 12, 4);
            header = 16;
        }
        if (memcmp(s->bytes + at + 4, "jp2c", 4) == 0)
            return at + header < s->count ? at + header : s->count;
        if (length < header || length > s->count - at)
            break;
        at += length;
    }
    return s->count;
}

/* Reads the sizes of marker segment SIZ (ISO/IEC 15444-1, A.5.1), which starts a codestream. OpenJPEG allocates memory
 * for them as soon as it reads them. */
static xcvm_status claim_memory(const xcvm_image_source *s)
{
    enum { SIZ = 42, TILE = 8 << 10, TABLES = 1 << 20 };
    const size_t at = find_codestream(s);
    XCVM_CHECK(s->error, s->count - at >= SIZ && big_endian(s->bytes + at, 4) == 0xff4fff51, INVALID_ARGUMENT,
               "the JPEG 2000 image cannot be decoded: it does not say its size");
    uint64_t field[8];
    for (size_t i = 0; i < 8; i++)
        field[i] = big_endian(s->bytes + at + 8 + 4 * i, 4);
    const uint64_t right = field[0], bottom = field[1], left = field[2], top = field[3], tile_width = field[4],
                   tile_height = field[5], first_column = field[6], first_row = field[7];
    const uint32_t channels = big_endian(s->bytes + at + 40, 2);
    XCVM_CHECK(s->error, channels >= 1 && channels <= MOST_CHANNELS, INVALID_ARGUMENT,
               "the JPEG 2000 image has %u channels, 1 to %d are expected", channels, MOST_CHANNELS);
    XCVM_CHECK(s->error,
               right > left && bottom > top && tile_width != 0 && tile_height != 0 && first_column <= left &&
                   first_row <= top,
               INVALID_ARGUMENT, "the JPEG 2000 image cannot be decoded: its sizes are broken");
    XCVM_CHECK(s->error, right - left <= XCVM_IMAGE_LARGEST && bottom - top <= XCVM_IMAGE_LARGEST, OUT_OF_RANGE,
               "the image is too large");
    const uint64_t tiles =
        xcvm_ceil_div(right - first_column, tile_width) * xcvm_ceil_div(bottom - first_row, tile_height);
    XCVM_CHECK(s->error, tiles <= UINT16_MAX, INVALID_ARGUMENT, "the JPEG 2000 image has %llu tiles",
               (unsigned long long)tiles);
    /* The image, the coefficients of a tile, which may be all of it, and data per tile and channel. */
    const uint64_t samples = channels * (right - left) * (bottom - top);
    return xcvm_image_claim(s, 2 * samples * sizeof(int32_t) + tiles * (1 + channels) * TILE + TABLES + s->count);
}

static xcvm_status decode(const xcvm_image_source *s, opj_codec_t *codec, opj_stream_t *stream, opj_image_t **image)
{
    opj_dparameters_t parameters;
    XCVM_TRY(claim_memory(s));
    opj.opj_set_default_decoder_parameters(&parameters);
    XCVM_CHECK(s->error, opj.opj_setup_decoder(codec, &parameters) && opj.opj_read_header(stream, codec, image),
               INVALID_ARGUMENT, "the JPEG 2000 image cannot be decoded: its header is broken");
    const uint32_t channels = (*image)->numcomps;
    XCVM_CHECK(s->error, channels >= 1 && channels <= MOST_CHANNELS, INVALID_ARGUMENT,
               "the JPEG 2000 image has %u channels, 1 to %d are expected", channels, MOST_CHANNELS);
    /* Decoding allocates memory for all channels. */
    XCVM_TRY(check_channels(s, *image));
    const uint32_t width = (*image)->comps[0].w, height = (*image)->comps[0].h;
    XCVM_CHECK(s->error, width <= XCVM_IMAGE_LARGEST && height <= XCVM_IMAGE_LARGEST, OUT_OF_RANGE,
               "the image is too large");
    uint8_t *rows = s->room(s->user, height, width);
    if (rows == NULL)
        return s->error->status;
    XCVM_CHECK(s->error, opj.opj_decode(codec, stream, *image) && opj.opj_end_decompress(codec, stream),
               INVALID_ARGUMENT, "the JPEG 2000 image cannot be decoded");
    return take_pixels(s, *image, (size_t)width * height, rows);
}

xcvm_status xcvm_image_decode_jpeg2000(const xcvm_image_source *s)
{
    XCVM_TRY(load_opj(s->error));
    reader r = {s->bytes, s->count, 0, s};
    const bool boxed = s->count > 8 && memcmp(s->bytes + 4, "jP  ", 4) == 0;
    opj_codec_t *codec = opj.opj_create_decompress(boxed ? OPJ_CODEC_JP2 : OPJ_CODEC_J2K);
    opj_stream_t *stream = opj.opj_stream_default_create(OPJ_TRUE);
    opj_image_t *image = NULL;
    xcvm_status status = XCVM_OUT_OF_MEMORY;
    if (codec != NULL && stream != NULL) {
        opj.opj_stream_set_user_data(stream, &r, NULL);
        opj.opj_stream_set_user_data_length(stream, s->count);
        opj.opj_stream_set_read_function(stream, read_bytes);
        opj.opj_stream_set_seek_function(stream, seek);
        opj.opj_stream_set_skip_function(stream, skip);
        status = decode(s, codec, stream, &image);
    } else {
        xcvm_error_set(s->error, status, "no memory for the JPEG 2000 image");
    }
    opj.opj_image_destroy(image);
    opj.opj_stream_destroy(stream);
    opj.opj_destroy_codec(codec);
    return status;
}

#else

xcvm_status xcvm_image_decode_jpeg2000(const xcvm_image_source *s)
{
    return xcvm_error_set(s->error, XCVM_UNSUPPORTED,
                          "this build does not support JPEG 2000 images: it was built without OpenJPEG");
}

#endif
