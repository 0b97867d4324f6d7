/* JPEG with libjpeg, an optional dependency (XCVM_HAVE_JPEG). */
#include "base/lazy_library.h"
#include "formats/image.h"

#ifdef XCVM_HAVE_JPEG

#include <setjmp.h>
#include <stdio.h>

#include <jpeglib.h>

#include <jerror.h>

#define FUNCTIONS(X)                                                                                                   \
    X(jpeg_std_error)                                                                                                  \
    X(jpeg_CreateDecompress)                                                                                           \
    X(jpeg_mem_src)                                                                                                    \
    X(jpeg_read_header)                                                                                                \
    X(jpeg_has_multiple_scans)                                                                                         \
    X(jpeg_start_decompress)                                                                                           \
    X(jpeg_read_scanlines)                                                                                             \
    X(jpeg_finish_decompress)                                                                                          \
    X(jpeg_destroy_decompress)
XCVM_LAZY_LIBRARY(jpeg, XCVM_JPEG_FILE, FUNCTIONS)

enum {
    MOST_SCANS = 100, /* progressive images have about ten; each processes all coefficients */
    LARGEST_UNIT = 32 /* width and height in pixels of blocks decoded together */
};

typedef struct failure {
    struct jpeg_error_mgr manager; /* must be first, so that libjpeg's pointer can be converted */
    struct jpeg_progress_mgr progress;
    const xcvm_image_source *source;
    jmp_buf back;
    char text[JMSG_LENGTH_MAX];
} failure;

static void fail(j_common_ptr info)
{
    failure *f = (failure *)(void *)info->err;
    info->err->format_message(info, f->text);
    longjmp(f->back, 1);
}

/* The only warning treated as an error is a premature end of the file. */
static void warn(j_common_ptr info, int level)
{
    if (level < 0 && info->err->msg_code == JWRN_JPEG_EOF)
        fail(info);
}

/* libjpeg calls this for every row of blocks that it reads or decodes. */
static void report_progress(j_common_ptr info)
{
    failure *f = (failure *)(void *)info->err;
    const int scans = ((j_decompress_ptr)info)->input_scan_number;
    if (scans > MOST_SCANS)
        snprintf(f->text, sizeof f->text, "it has more than %d scans", MOST_SCANS);
    if (scans > MOST_SCANS || xcvm_image_poll(f->source) != XCVM_OK)
        longjmp(f->back, 1);
}

/* libjpeg keeps all coefficients of images with progressive or non-interleaved scans, else some rows. */
static xcvm_status claim_memory(struct jpeg_decompress_struct *d, const xcvm_image_source *s)
{
    enum { TABLES = 1 << 18, ROWS = 4 * LARGEST_UNIT };
    const size_t width = (size_t)d->image_width + LARGEST_UNIT, height = (size_t)d->image_height + LARGEST_UNIT,
                 components = (size_t)d->num_components;
    const size_t coefficients = jpeg.jpeg_has_multiple_scans(d) ? width * height * sizeof(JCOEF) : 0;
    const size_t bytes = components * (coefficients + width * ROWS) + TABLES;
    XCVM_TRY(xcvm_image_claim(s, bytes));
    d->mem->max_memory_to_use = (long)bytes;
    return XCVM_OK;
}

/* CMYK rows are inverted, as Adobe writes and Pillow reads them. Colors are converted as in Pillow. */
static void take_row(const xcvm_image_source *s, const JSAMPLE *from, size_t from_channels, size_t width, uint8_t *to)
{
    for (size_t x = 0; x < width; x++, from += from_channels, to += s->channels) {
        for (size_t k = 0; k < 3; k++) {
            const unsigned key = from_channels == 4 ? from[3] : 0, product = (255U - from[k]) * key + 128;
            to[k] = from_channels == 3 ? from[k] : (uint8_t)(key - (((product >> 8) + product) >> 8));
        }
        if (s->channels == 4)
            to[3] = 255;
    }
}

static void read_scanlines(struct jpeg_decompress_struct *d, const xcvm_image_source *s, uint8_t *rows)
{
    const size_t width = d->output_width, channels = d->out_color_space == JCS_CMYK ? 4 : 3;
    const bool direct = channels == 3 && s->channels == 3;
    JSAMPLE *line = direct ? NULL : d->mem->alloc_small((j_common_ptr)d, JPOOL_IMAGE, width * channels);
    while (d->output_scanline < d->output_height) {
        uint8_t *to = rows + (size_t)d->output_scanline * width * s->channels;
        JSAMPROW row = direct ? to : line;
        jpeg.jpeg_read_scanlines(d, &row, 1);
        if (!direct)
            take_row(s, line, channels, width, to);
    }
}

static xcvm_status read_rows(struct jpeg_decompress_struct *d, const xcvm_image_source *s)
{
    jpeg.jpeg_mem_src(d, s->bytes, (unsigned long)s->count);
    jpeg.jpeg_read_header(d, TRUE);
    XCVM_CHECK(s->error, d->num_components == 1 || d->num_components == 3 || d->num_components == 4, UNSUPPORTED,
               "a JPEG image of %d components is not supported", d->num_components);
    XCVM_CHECK(s->error, d->image_width <= XCVM_IMAGE_LARGEST && d->image_height <= XCVM_IMAGE_LARGEST, OUT_OF_RANGE,
               "the image is too large");
    uint8_t *rows = s->room(s->user, d->image_height, d->image_width);
    if (rows == NULL)
        return s->error->status;
    XCVM_TRY(claim_memory(d, s));
    d->out_color_space = d->num_components == 4 ? JCS_CMYK : JCS_RGB;
    jpeg.jpeg_start_decompress(d);
    read_scanlines(d, s, rows);
    jpeg.jpeg_finish_decompress(d);
    return XCVM_OK;
}

xcvm_status xcvm_image_decode_jpeg(const xcvm_image_source *s)
{
    XCVM_TRY(load_jpeg(s->error));
    struct jpeg_decompress_struct d = {0};
    failure f = {.progress = {.progress_monitor = report_progress}, .source = s};
    volatile xcvm_status status = XCVM_OK;
    d.err = jpeg.jpeg_std_error(&f.manager);
    f.manager.error_exit = fail;
    f.manager.emit_message = warn;
    if (setjmp(f.back) == 0) {
        jpeg.jpeg_CreateDecompress(&d, JPEG_LIB_VERSION, sizeof d);
        d.progress = &f.progress;
        status = read_rows(&d, s);
    } else {
        status = xcvm_error_set(s->error, XCVM_INVALID_ARGUMENT, "the JPEG image cannot be decoded: %.150s", f.text);
    }
    jpeg.jpeg_destroy_decompress(&d);
    return status;
}

#else

xcvm_status xcvm_image_decode_jpeg(const xcvm_image_source *s)
{
    return xcvm_error_set(s->error, XCVM_UNSUPPORTED,
                          "this build does not support JPEG images: it was built without libjpeg");
}

#endif
