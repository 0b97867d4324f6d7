/* Images that declare or hold more than they should: decoding stays within the session's memory and time. */
#include "ops/util/kernel.h"
#include "ops/table/table.h"
#include "tests/support.h"

#include <check.h>
#include <string.h>

enum { MEBIBYTE = 1 << 20 };

typedef struct bytes {
    test_bytes file;
    uint32_t bits; /* of the last byte, when written bit by bit */
    int bit_count;
} bytes;

static void put(bytes *b, const void *from, size_t count) { test_bytes_sink(&b->file, from, count); }
#define PUT(b, ...) put(b, (const uint8_t[]){__VA_ARGS__}, sizeof(uint8_t[]){__VA_ARGS__})

static void put_number(bytes *b, uint64_t value, int count, bool little)
{
    for (int i = 0; i < count; i++)
        PUT(b, (uint8_t)(value >> 8 * (little ? i : count - 1 - i)));
}

/* Result of decoding `file` with a limit of `limit` bytes; `deadline` in ns, 0 for none. All memory must be
 * released. */
static xcvm_status decode(const bytes *b, size_t limit, uint64_t deadline, xcvm_error *error)
{
    xcvm_heap *heap;
    xcvm_value x = {.refs = 0}, y = {.refs = 0};
    *error = (xcvm_error){.status = XCVM_OK};
    ck_assert_int_eq(xcvm_heap_create(NULL, limit, &heap, error), XCVM_OK);
    xcvm_kernel k = {.error = error, .heap = heap, .deadline_ns = deadline};
    xcvm_value_set_tensor(&x, XCVM_U8, 1, (int64_t[]){(int64_t)b->file.length});
    x.data = b->file.at;
    const xcvm_ImageDecoder_args args = {.y = &y, .x = &x};
    const xcvm_status status = xcvm_kernel_execute(&k, xcvm_schema_of(XCVM_OP_ImageDecoder), &args);
    xcvm_value_clear(&y);
    xcvm_storage_release(k.scratch_storage);
    ck_assert_uint_eq(xcvm_heap_live(heap), 0);
    xcvm_heap_destroy(heap);
    return status;
}

static bool left_out(xcvm_status status, const xcvm_error *error)
{
    return status == XCVM_UNSUPPORTED && strstr(error->message, "this build does not support ") != NULL;
}

static void check_refused(bytes *b, size_t limit, uint64_t deadline, xcvm_status expected, const char *part)
{
    xcvm_error error;
    const xcvm_status status = decode(b, limit, deadline, &error);
    if (!left_out(status, &error)) {
        ck_assert_msg(status == expected, "%s: %s", xcvm_status_name(status), error.message);
        ck_assert_msg(strstr(error.message, part) != NULL, "\"%s\" is not in: %s", part, error.message);
    }
    test_bytes_free(&b->file);
}

/* ---- JPEG ---- */

/* A progressive image of one component, whose scans after the first are empty. Its tables have one code, a bit 0, for
 * the symbol 0. */
static bytes progressive(uint16_t size, int scans)
{
    bytes b = {.bits = 0};
    PUT(&b, 0xff, 0xd8, 0xff, 0xdb, 0, 67, 0);
    for (int i = 0; i < 64; i++)
        PUT(&b, 1);
    PUT(&b, 0xff, 0xc2, 0, 11, 8);
    put_number(&b, size, 2, false);
    put_number(&b, size, 2, false);
    PUT(&b, 1, 1, 0x11, 0);
    for (int table = 0; table < 2; table++)
        PUT(&b, 0xff, 0xc4, 0, 20, (uint8_t)(table << 4), 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    PUT(&b, 0xff, 0xda, 0, 8, 1, 1, 0, 0, 0, 0, 0x7f);
    for (int i = 1; i < scans; i++)
        PUT(&b, 0xff, 0xda, 0, 8, 1, 1, 0, 1, 63, 0, 0x7f);
    PUT(&b, 0xff, 0xd9);
    return b;
}

START_TEST(jpeg_scans)
{
    xcvm_error error;
    bytes b = progressive(8, 50);
    const xcvm_status status = decode(&b, 0, 0, &error);
    ck_assert_msg(status == XCVM_OK || left_out(status, &error), "%s", error.message);
    test_bytes_free(&b.file);
    b = progressive(8, 200);
    check_refused(&b, 0, 0, XCVM_INVALID_ARGUMENT, "it has more than 100 scans");
    b = progressive(8, 50);
    check_refused(&b, 0, 1, XCVM_OUT_OF_TIME, "the deadline has passed");
}
END_TEST

/* Its coefficients take two bytes per pixel in addition to the result, which takes three. */
START_TEST(jpeg_memory)
{
    bytes b = progressive(2048, 2);
    check_refused(&b, 16 * MEBIBYTE, 0, XCVM_OUT_OF_MEMORY, "memory limit");
    b = progressive(60000, 2);
    check_refused(&b, 64 * MEBIBYTE, 0, XCVM_OUT_OF_MEMORY, "memory limit");
}
END_TEST

/* ---- PNG and BMP ---- */

static void put_bits(bytes *b, uint32_t value, int count, bool reversed)
{
    for (int i = 0; i < count; i++) {
        b->bits |= (value >> (reversed ? count - 1 - i : i) & 1) << b->bit_count;
        if (++b->bit_count == 8) {
            PUT(b, (uint8_t)b->bits);
            b->bits = 0;
            b->bit_count = 0;
        }
    }
}

/* A deflate stream of `count` * 258 zeros, by fixed codes (RFC 1951). */
static bytes zeros(size_t count)
{
    bytes b = {.bits = 0};
    PUT(&b, 0x78, 0x9c);
    put_bits(&b, 3, 3, false);   /* the last block, of fixed codes */
    put_bits(&b, 0x30, 8, true); /* a zero */
    for (size_t i = 0; i < count; i++) {
        put_bits(&b, 0xc5, 8, true); /* 258 bytes */
        put_bits(&b, 0, 5, true);    /* as the one before */
    }
    put_bits(&b, 0, 7, true);
    put_bits(&b, 0, 7, false);
    put_number(&b, 0, 4, false);
    return b;
}

static void put_chunk(bytes *b, const char *name, const bytes *contents)
{
    put_number(b, contents->file.length, 4, false);
    put(b, name, 4);
    put(b, contents->file.at, contents->file.length);
    put_number(b, 0, 4, false); /* no component checks it */
}

static bytes png(uint32_t size, size_t count)
{
    bytes b = {.bits = 0}, header = {.bits = 0}, none = {.bits = 0}, data = zeros(count);
    PUT(&b, 0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n');
    put_number(&header, size, 4, false);
    put_number(&header, size, 4, false);
    PUT(&header, 8, 0, 0, 0, 0);
    put_chunk(&b, "IHDR", &header);
    put_chunk(&b, "IDAT", &data);
    PUT(&none, 0);
    none.file.length = 0;
    put_chunk(&b, "IEND", &none);
    test_bytes_free(&header.file);
    test_bytes_free(&data.file);
    test_bytes_free(&none.file);
    return b;
}

START_TEST(png_bomb)
{
    xcvm_error error;
    /* More rows than the image has. */
    bytes b = png(1, 1 << 17);
    check_refused(&b, 8 * MEBIBYTE, 0, XCVM_OUT_OF_MEMORY, "memory limit");
    b = png(100, 40);
    const xcvm_status status = decode(&b, MEBIBYTE, 0, &error);
    ck_assert_msg(status == XCVM_OK || left_out(status, &error), "%s", error.message);
    test_bytes_free(&b.file);
    b = png(100, 40);
    check_refused(&b, MEBIBYTE, 1, XCVM_OUT_OF_TIME, "the deadline has passed");
    b = png(30000, 40);
    check_refused(&b, 0, 0, XCVM_INVALID_ARGUMENT, "does not fit into");
}
END_TEST

START_TEST(bmp_without_pixels)
{
    bytes b = {.bits = 0};
    PUT(&b, 'B', 'M');
    put_number(&b, 54, 4, true);
    put_number(&b, 0, 4, true);
    put_number(&b, 54, 4, true);
    put_number(&b, 40, 4, true);
    put_number(&b, 30000, 4, true);
    put_number(&b, 30000, 4, true);
    put_number(&b, 1, 2, true);
    put_number(&b, 24, 2, true);
    for (int i = 0; i < 6; i++)
        put_number(&b, 0, 4, true);
    check_refused(&b, 0, 0, XCVM_INVALID_ARGUMENT, "does not fit into 54 bytes");
}
END_TEST

/* A PNM without its last bytes is refused, wherever its header ends. */
START_TEST(pnm_cut_off)
{
    static const struct {
        const char *head;
        size_t pixels; /* bytes */
    } files[] = {
        {"P6\n4 2\n255\n", 24},   {"P5 4 2 255 ", 8},      {"P6\n# a 9 #b\n4\t2 #c\r255\n", 24},
        {"P5\n4 2\n65535\n", 16}, {"P6\n4 2\n1000\n", 48}, {"P5\n0004 02\n255\n", 8},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        for (size_t missing = 0; missing <= files[i].pixels; missing++) {
            bytes b = {.bits = 0};
            xcvm_error error;
            put(&b, files[i].head, strlen(files[i].head));
            for (size_t k = missing; k < files[i].pixels; k++)
                PUT(&b, 7);
            if (missing > 0) {
                check_refused(&b, 0, 0, XCVM_INVALID_ARGUMENT, "does not fit into");
                continue;
            }
            const xcvm_status status = decode(&b, 0, 0, &error);
            ck_assert_msg(status == XCVM_OK || left_out(status, &error), "%zu: %s", i, error.message);
            test_bytes_free(&b.file);
        }
}
END_TEST

/* ---- Others ---- */

START_TEST(tiff_memory)
{
    static const uint32_t tags[][2] = {{256, 5000}, {257, 5000}, {258, 8},    {259, 1}, {262, 1},
                                       {273, 8},    {277, 1},    {278, 5000}, {279, 64}};
    bytes b = {.bits = 0};
    PUT(&b, 'I', 'I', '*', 0);
    put_number(&b, 8, 4, true);
    put_number(&b, sizeof tags / sizeof *tags, 2, true);
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++) {
        put_number(&b, tags[i][0], 2, true);
        put_number(&b, 4, 2, true);
        put_number(&b, 1, 4, true);
        put_number(&b, tags[i][1], 4, true);
    }
    put_number(&b, 0, 4, true);
    check_refused(&b, 90 * MEBIBYTE, 0, XCVM_OUT_OF_MEMORY, "memory limit");
}
END_TEST

/* A codestream's header alone, of `channels` channels in tiles of `tile` x `tile`. */
static bytes codestream(uint32_t size, uint32_t tile, uint16_t channels)
{
    bytes b = {.bits = 0};
    PUT(&b, 0xff, 0x4f, 0xff, 0x51);
    put_number(&b, 38U + 3U * channels, 2, false);
    put_number(&b, 0, 2, false);
    const uint32_t numbers[] = {size, size, 0, 0, tile, tile, 0, 0};
    for (size_t i = 0; i < 8; i++)
        put_number(&b, numbers[i], 4, false);
    put_number(&b, channels, 2, false);
    for (int i = 0; i < channels; i++)
        PUT(&b, 7, 1, 1);
    return b;
}

START_TEST(jpeg2000_memory)
{
    bytes b = codestream(20000, 20000, 3);
    check_refused(&b, 256 * MEBIBYTE, 0, XCVM_OUT_OF_MEMORY, "memory limit");
    b = codestream(2000, 8, 1);
    check_refused(&b, 256 * MEBIBYTE, 0, XCVM_OUT_OF_MEMORY, "memory limit");
    b = codestream(2000, 1, 1);
    check_refused(&b, 256 * MEBIBYTE, 0, XCVM_INVALID_ARGUMENT, "has 4000000 tiles");
    b = codestream(8, 8, 5000);
    check_refused(&b, 256 * MEBIBYTE, 0, XCVM_INVALID_ARGUMENT, "has 5000 channels");
}
END_TEST

Suite *suite_ops_image_decoder(void);
Suite *suite_ops_image_decoder(void)
{
    Suite *suite = suite_create("ops_image_decoder");
    TCase *tcase = tcase_create("ops_image_decoder");
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, jpeg_scans);
    tcase_add_test(tcase, jpeg_memory);
    tcase_add_test(tcase, png_bomb);
    tcase_add_test(tcase, bmp_without_pixels);
    tcase_add_test(tcase, pnm_cut_off);
    tcase_add_test(tcase, tiff_memory);
    tcase_add_test(tcase, jpeg2000_memory);
    suite_add_tcase(suite, tcase);
    return suite;
}
