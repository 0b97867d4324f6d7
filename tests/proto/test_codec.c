/* Tests of program files: for any bytes, decoding fails cleanly or returns a program that can be encoded again. */
#include "proto/image.h"
#include "tests/support.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static xcvm_error error;

static test_bytes assembled(const char *text, size_t length)
{
    test_bytes file = {0};
    xcvm_status status = xcvm_assemble(text, length, NULL, (xcvm_sink){test_bytes_sink, &file}, &error);
    ck_assert_msg(status == XCVM_OK, "%s", error.message);
    return file;
}

static test_bytes everything(void)
{
    test_bytes text = test_file_read(XCVM_TEST_DATA "/proto/everything.xcvm");
    ck_assert_ptr_nonnull(text.at);
    test_bytes file = assembled(text.at, text.length);
    test_bytes_free(&text);
    return file;
}

/* Decodes a copy of exactly these bytes, so that a sanitizer detects reads beyond them. An accepted program must be
 * stable: encoding and decoding it again gives the same. */
static xcvm_status decode(const char *bytes, size_t count)
{
    xcvm_arena arena = {0}, again_arena = {0};
    xcvm_image image, again;
    test_bytes file = {0}, file_again = {0}, text = {0};
    char *copy = malloc(count > 0 ? count : 1);
    ck_assert_ptr_nonnull(copy);
    if (count > 0)
        memcpy(copy, bytes, count);
    xcvm_status status = xcvm_image_decode(copy, count, NULL, &arena, &image, &error);
    if (status == XCVM_OK) {
        ck_assert_int_eq(xcvm_image_encode(&image, NULL, (xcvm_sink){test_bytes_sink, &file}, &error), XCVM_OK);
        ck_assert_int_eq(xcvm_disassemble(copy, count, NULL, (xcvm_sink){test_bytes_sink, &text}, &error), XCVM_OK);
        status = xcvm_image_decode(file.at, file.length, NULL, &again_arena, &again, &error);
        ck_assert_msg(status == XCVM_OK, "%s", error.message);
        ck_assert_int_eq(xcvm_image_encode(&again, NULL, (xcvm_sink){test_bytes_sink, &file_again}, &error), XCVM_OK);
        ck_assert(test_bytes_equal(&file, &file_again));
        test_bytes_free(&file_again);
        /* The same holds for its text, whatever it contains. */
        status = xcvm_assemble(text.at, text.length, NULL, (xcvm_sink){test_bytes_sink, &file_again}, &error);
        ck_assert_msg(status == XCVM_OK, "%s in\n%.*s", error.message, (int)text.length, text.at);
        ck_assert(test_bytes_equal(&file, &file_again));
    } else {
        ck_assert_str_ne(error.message, "");
    }
    test_bytes_free(&file);
    test_bytes_free(&file_again);
    test_bytes_free(&text);
    xcvm_arena_release(&arena);
    xcvm_arena_release(&again_arena);
    free(copy);
    return status;
}

START_TEST(test_prefixes)
{
    test_bytes file = everything();
    for (size_t count = 0; count < file.length; count++)
        ck_assert_int_eq(decode(file.at, count), XCVM_INVALID_PROGRAM);
    ck_assert_int_eq(decode(file.at, file.length), XCVM_OK);
    test_bytes_free(&file);
}
END_TEST

/* Returns true if a byte belongs to the padding, all of whose bytes are equal. */
static bool is_padding(const test_bytes *file, size_t i)
{
    return i > 64 && i + 64 < file->length && memcmp(file->at + i - 32, (char[64]){0}, 64) == 0;
}

START_TEST(test_flips)
{
    test_bytes file = everything();
    for (size_t i = 0; i < file.length; i++) {
        if (is_padding(&file, i))
            continue;
        for (int bit = 0; bit < 9; bit++) {
            char mask = (char)(bit < 8 ? 1 << bit : 0xff);
            file.at[i] = (char)(file.at[i] ^ mask);
            (void)decode(file.at, file.length);
            file.at[i] = (char)(file.at[i] ^ mask);
        }
    }
    test_bytes_free(&file);
}
END_TEST

START_TEST(test_random_damage)
{
    test_bytes file = everything(), copy = {0};
    uint64_t state = 7;
    for (int round = 0; round < 3000; round++) {
        copy.length = 0;
        test_bytes_sink(&copy, file.at, file.length);
        for (int i = 0; i < 4; i++) {
            test_random_wide(&state);
            size_t at = (size_t)(state >> 33) % 1500, from = (size_t)(state >> 13) % 1500;
            size_t length = (size_t)(state >> 8) % 16;
            memmove(copy.at + at, copy.at + from, length);
        }
        (void)decode(copy.at, copy.length);
    }
    test_bytes_free(&file);
    test_bytes_free(&copy);
}
END_TEST

START_TEST(test_no_memory)
{
    test_bytes file = everything();
    xcvm_status status = XCVM_OUT_OF_MEMORY;
    size_t failures = 0;
    for (size_t fail_at = 1; status != XCVM_OK; fail_at++, failures++) {
        test_allocator a;
        test_allocator_start(&a, fail_at);
        xcvm_arena arena = {.allocator = &a.allocator};
        xcvm_image image;
        test_bytes again = {0};
        status = xcvm_image_decode(file.at, file.length, &a.allocator, &arena, &image, &error);
        if (status == XCVM_OK)
            status = xcvm_image_encode(&image, &a.allocator, (xcvm_sink){test_bytes_sink, &again}, &error);
        ck_assert_msg(status == XCVM_OK || status == XCVM_OUT_OF_MEMORY, "%s", error.message);
        xcvm_arena_release(&arena);
        test_bytes_free(&again);
        ck_assert_uint_eq(a.live, 0);
    }
    ck_assert_uint_gt(failures, 3);
    test_bytes_free(&file);
}
END_TEST

typedef struct limited_sink {
    size_t left;
} limited_sink;

static bool take_until_full(void *user, const void *bytes, size_t count)
{
    limited_sink *sink = user;
    (void)bytes;
    if (count > sink->left)
        return false;
    sink->left -= count;
    return true;
}

START_TEST(test_full_disk)
{
    test_bytes file = everything();
    for (size_t room = 0; room < file.length; room += 97) {
        limited_sink sink = {room};
        ck_assert_int_eq(xcvm_strip(file.at, file.length, (xcvm_sink){take_until_full, &sink}, &error),
                         room < 4096 ? XCVM_IO : error.status);
        sink.left = room;
        ck_assert_int_eq(xcvm_disassemble(file.at, file.length, NULL,
                                          (xcvm_sink){take_until_full, &(limited_sink){room / 8}}, &error),
                         XCVM_IO);
    }
    test_bytes_free(&file);
}
END_TEST

/* The data begins on a page, whatever precedes it. */
START_TEST(test_alignment)
{
    for (size_t length = 0; length < 8300; length += length % 4096 < 200 || length % 4096 > 3800 ? 1 : 37) {
        static char text[9000];
        int used = snprintf(text, sizeof text, "xcvm 1\nproducer \"");
        memset(text + used, 'p', length);
        snprintf(text + (size_t)used + length, 100, "\"\nconstant a f32[] = 1\nconstant b u8[3] = 1 2 3\n");
        test_bytes file = assembled(text, strlen(text));
        xcvm_arena arena = {0};
        xcvm_image image;
        ck_assert_int_eq(xcvm_image_decode(file.at, file.length, NULL, &arena, &image, &error), XCVM_OK);
        ck_assert_uint_eq(image.data_offset % 4096, 0);
        ck_assert_uint_eq(image.data_bytes, 67);
        ck_assert_uint_eq(image.constants[1].offset, 64);
        ck_assert_uint_eq(file.length, image.data_offset + image.data_bytes);
        xcvm_arena_release(&arena);
        test_bytes_free(&file);
    }
}
END_TEST

/* Constants of more than 4 GB that are never touched. */
START_TEST(test_large)
{
    size_t bytes = (size_t)5 << 30;
    char path[] = "/tmp/xcvm_test_XXXXXX";
    void *zeros = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (zeros == MAP_FAILED)
        return;
    int64_t dims[] = {(int64_t)bytes};
    xcvm_constant constants[2] = {{.name = "large"}, {.name = "small"}};
    xcvm_value_set_tensor(&constants[0].value, XCVM_U8, 1, dims);
    constants[0].value.data = zeros;
    xcvm_value_set_tensor(&constants[1].value, XCVM_U8, 0, NULL);
    constants[1].value.data = path;
    xcvm_image image = {.format = XCVM_FORMAT, .producer = "", .constants = constants, .constant_count = 2};
    limited_sink sink = {SIZE_MAX};
    ck_assert_int_eq(xcvm_image_encode(&image, NULL, (xcvm_sink){take_until_full, &sink}, &error), XCVM_OK);
    ck_assert_uint_eq(SIZE_MAX - sink.left, 4096 + bytes + 1);
    /* The beginning of such a file, followed by a hole. */
    test_bytes head = {0};
    sink.left = 0;
    constants[0].value.data = NULL;
    munmap(zeros, bytes);
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    unlink(path);
    dims[0] = 1;
    xcvm_value_set_tensor(&constants[0].value, XCVM_U8, 1, dims);
    constants[0].value.data = path;
    ck_assert_int_eq(xcvm_image_encode(&image, NULL, (xcvm_sink){test_bytes_sink, &head}, &error), XCVM_OK);
    test_bytes_free(&head);
    close(fd);
}
END_TEST

/* ---- Handmade bytes ---- */

static void put_varint(test_bytes *b, uint64_t value)
{
    for (; value >= 128; value >>= 7)
        test_bytes_sink(b, &(uint8_t){(uint8_t)(value | 128)}, 1);
    test_bytes_sink(b, &(uint8_t){(uint8_t)value}, 1);
}

static void put_field(test_bytes *b, unsigned number, const test_bytes *contents)
{
    put_varint(b, number << 3 | 2);
    put_varint(b, contents->length);
    test_bytes_sink(b, contents->at, contents->length);
}

static void put_number(test_bytes *b, unsigned number, uint64_t value)
{
    put_varint(b, number << 3);
    put_varint(b, value);
}

/* The field with the length of the file, of which `behind` bytes follow. */
static void put_file_bytes(test_bytes *b, size_t behind)
{
    uint64_t bytes = b->length + 9 + behind;
    put_varint(b, 10 << 3 | 1);
    test_bytes_sink(b, &bytes, sizeof bytes);
}

static void check_refused(const test_bytes *file, xcvm_status expected, const char *message)
{
    ck_assert_int_eq(decode(file->at, file->length), expected);
    ck_assert_msg(strstr(error.message, message) != NULL, "%s", error.message);
}

START_TEST(test_formats)
{
    test_bytes file = {0};
    check_refused(&file, XCVM_INVALID_PROGRAM, "the program is empty");
    put_number(&file, 1, 2);
    check_refused(&file, XCVM_UNSUPPORTED, "program format 2 is newer than this library's 1");
    file.length = 0;
    put_number(&file, 9, 1);
    check_refused(&file, XCVM_INVALID_PROGRAM, "there is no program format");
    file.length = 0;
    put_number(&file, 1, 1);
    check_refused(&file, XCVM_INVALID_PROGRAM, "the number of the program's bytes is missing");
    put_file_bytes(&file, 0);
    ck_assert_int_eq(decode(file.at, file.length), XCVM_OK);
    put_number(&file, 9, 1);
    check_refused(&file, XCVM_INVALID_PROGRAM, "the program has 13 bytes, but was written with 11");
    file.length = 0;
    put_number(&file, 1, 1);
    put_number(&file, 16, 1);
    put_file_bytes(&file, 0);
    check_refused(&file, XCVM_INVALID_PROGRAM, "XCProgram has no field number 16");
    file.length = 0;
    put_number(&file, 1, 1);
    put_number(&file, 1, 1);
    put_file_bytes(&file, 0);
    check_refused(&file, XCVM_INVALID_PROGRAM, "XCProgram has format twice");
    test_bytes_free(&file);
}
END_TEST

/* Operands that hold operands that hold operands: no deeper than one list, however long the file is. */
START_TEST(test_nesting)
{
    test_bytes inner = {0}, outer = {0}, file = {0};
    for (int i = 0; i < 19999; i++) {
        outer.length = 0;
        put_field(&outer, i % 2 == 0 ? 9 : 1, &inner);
        test_bytes swap = inner;
        inner = outer;
        outer = swap;
    }
    put_number(&file, 1, 1);
    outer.length = 0;
    put_field(&outer, 2, &inner);
    put_field(&file, 5, &outer);
    put_file_bytes(&file, 0);
    check_refused(&file, XCVM_INVALID_PROGRAM, "nested too deeply");
    test_bytes_free(&inner);
    test_bytes_free(&outer);
    test_bytes_free(&file);
}
END_TEST

/* An allocator that records its peak. */
typedef struct peak {
    test_allocator counted;
    xcvm_allocator allocator;
    size_t most;
} peak;

static void *peak_allocate(void *user, size_t bytes, size_t alignment)
{
    peak *p = user;
    void *memory = p->counted.allocator.allocate(p->counted.allocator.user, bytes, alignment);
    p->most = p->counted.live > p->most ? p->counted.live : p->most;
    return memory;
}

static void peak_release(void *user, void *memory, size_t bytes)
{
    peak *p = user;
    p->counted.allocator.release(p->counted.allocator.user, memory, bytes);
}

/* A file of `count` fields `number`, each with `contents`, is refused with a message that contains `message` (NULL: is
 * decoded). Decoding needs at most `most` bytes of memory per byte of the file. */
static void check_proportion(unsigned number, const test_bytes *contents, const char *message, size_t most)
{
    test_bytes file = {0};
    peak p = {.most = 0};
    put_number(&file, 1, 1);
    for (int i = 0; i < 100000; i++)
        put_field(&file, number, contents);
    put_file_bytes(&file, 0);
    test_allocator_start(&p.counted, 0);
    p.allocator = (xcvm_allocator){peak_allocate, peak_release, &p};
    xcvm_arena arena = {.allocator = &p.allocator};
    xcvm_image image;
    const xcvm_status status = xcvm_image_decode(file.at, file.length, &p.allocator, &arena, &image, &error);
    ck_assert_int_eq(status, message != NULL ? XCVM_INVALID_PROGRAM : XCVM_OK);
    if (message != NULL)
        ck_assert_msg(strstr(error.message, message) != NULL, "%s", error.message);
    ck_assert_msg(p.most <= file.length * most, "field %u: %zu bytes for %zu", number, p.most, file.length);
    xcvm_arena_release(&arena);
    test_bytes_free(&file);
}

/* Messages of a few bytes each: memory stays proportional to the file. */
START_TEST(test_amplification)
{
    test_bytes empty = {0}, contents = {0}, inner = {0};
    for (unsigned number = 3; number <= 6; number++)
        check_proportion(number, &empty, "is empty", 1);
    /* Inputs of no name and of one of a letter. */
    put_field(&contents, 2, &empty);
    check_proportion(3, &contents, NULL, 50);
    contents.length = 0;
    put_field(&contents, 1, &(test_bytes){.at = (char[]){'x'}, .length = 1});
    check_proportion(4, &contents, NULL, 50);
    contents.length = 0;
    put_number(&contents, 1, 0);
    check_proportion(5, &contents, "instruction 0: there is no instruction of number 0", 50);
    /* Many instructions, each with more operands than its definition. */
    contents.length = 0;
    put_number(&contents, 1, XCVM_OP_Softmax);
    put_number(&inner, 1, 1);
    for (int i = 0; i < 20; i++)
        put_field(&contents, 2, &inner);
    check_proportion(5, &contents, "it has 20 operands and attributes", 50);
    test_bytes_free(&contents);
    test_bytes_free(&inner);
}
END_TEST

/* One instruction, Softmax, with inputs and outputs as given. */
static test_bytes softmax(const test_bytes *const *inputs, size_t count, const uint8_t *outputs, size_t output_count)
{
    test_bytes instruction = {0}, file = {0}, out = {0};
    put_number(&instruction, 1, XCVM_OP_Softmax);
    for (size_t i = 0; i < count; i++)
        put_field(&instruction, 2, inputs[i]);
    test_bytes_sink(&out, outputs, output_count);
    put_field(&instruction, 3, &out);
    put_number(&file, 1, 1);
    put_field(&file, 5, &instruction);
    put_file_bytes(&file, 0);
    test_bytes_free(&instruction);
    test_bytes_free(&out);
    return file;
}

START_TEST(test_operands)
{
    test_bytes reg = {0}, absent = {0}, axis = {0}, far = {0}, constant = {0};
    put_number(&reg, 1, 1);
    put_number(&absent, 1, 0);
    put_number(&constant, 2, 0);
    put_number(&axis, 3, 1);  /* -1, zigzag */
    put_number(&far, 3, 200); /* 100 */
    const struct {
        const test_bytes *inputs[3];
        size_t count;
        uint8_t outputs[2];
        size_t output_count;
        const char *message;
    } cases[] = {
        {{&reg, &axis}, 2, {2}, 1, NULL},
        {{&absent, &axis}, 2, {2}, 1, "instruction 0 (Softmax): x: it is absent (expected a register)"},
        {{&constant, &axis}, 2, {2}, 1, "x: constant 0 is not one of the 0"},
        {{&axis, &axis}, 2, {2}, 1, "x: a register or a constant is expected"},
        {{&reg, &reg}, 2, {2}, 1, "axis: a integer is expected"},
        {{&reg, &far}, 2, {2}, 1, "axis: axis is 100, not between -8 and 7"},
        {{&reg}, 1, {2}, 1, "it has 1 operands and attributes, not 2"},
        {{&reg, &axis, &axis}, 3, {2}, 1, "it has 3 operands and attributes, not 2"},
        {{&reg, &axis}, 2, {2, 3}, 2, "it has 2 results, not 1"},
        {{&reg, &axis}, 2, {0}, 0, "it has 0 results, not 1"},
        {{&reg, &axis}, 2, {0}, 1, "y: the result is absent (expected a register)"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        test_bytes file = softmax(cases[i].inputs, cases[i].count, cases[i].outputs, cases[i].output_count);
        if (cases[i].message == NULL)
            ck_assert_int_eq(decode(file.at, file.length), XCVM_OK);
        else
            check_refused(&file, XCVM_INVALID_PROGRAM, cases[i].message);
        test_bytes_free(&file);
    }
    test_bytes_free(&reg);
    test_bytes_free(&absent);
    test_bytes_free(&axis);
    test_bytes_free(&far);
    test_bytes_free(&constant);
}
END_TEST

/* ---- Constants ---- */

/* The compiler's in-memory form is written in the one form that is read. */
START_TEST(test_constant_forms)
{
    struct {
        xcvm_string spans[3];
        char text[8];
    } shared = {{{48, 3}, {48, 3}, {49, 1}}, "abc"};
    uint8_t bools[] = {0, 1, 255}, nibbles[] = {0x21, 0xf3};
    int64_t three[] = {3};
    xcvm_constant constants[3] = {{.name = "strings"}, {.name = "bools"}, {.name = "nibbles"}};
    const xcvm_dtype dtypes[] = {XCVM_STRING, XCVM_BOOL, XCVM_U4};
    void *data[] = {&shared, bools, nibbles};
    for (size_t i = 0; i < 3; i++) {
        xcvm_value_set_tensor(&constants[i].value, dtypes[i], 1, three);
        constants[i].value.data = data[i];
    }
    xcvm_image image = {.format = XCVM_FORMAT, .producer = "", .constants = constants, .constant_count = 3};
    test_bytes file = {0}, text = {0};
    ck_assert_int_eq(xcvm_image_encode(&image, NULL, (xcvm_sink){test_bytes_sink, &file}, &error), XCVM_OK);
    ck_assert_int_eq(decode(file.at, file.length), XCVM_OK);
    ck_assert_int_eq(xcvm_disassemble(file.at, file.length, NULL, (xcvm_sink){test_bytes_sink, &text}, &error),
                     XCVM_OK);
    ck_assert_ptr_nonnull(memmem(text.at, text.length, "= \"abc\" \"abc\" \"b\"\n", 18));
    ck_assert_ptr_nonnull(memmem(text.at, text.length, "= false true true\n", 18));
    ck_assert_ptr_nonnull(memmem(text.at, text.length, "= 1 2 3\n", 8));
    test_bytes_free(&text);
    /* Read, the forms that are not written are refused. */
    file.at[4096 + 64] = 2;
    check_refused(&file, XCVM_INVALID_PROGRAM, "constant 1 (bools): element 0 is 2, which is not a bool");
    file.at[4096 + 64] = 1;
    file.at[4096 + 129] = 0x13;
    check_refused(&file, XCVM_INVALID_PROGRAM, "constant 2 (nibbles): the unused bits of its last byte are not 0");
    file.at[4096 + 129] = 3;
    file.at[4096] = 47;
    check_refused(&file, XCVM_INVALID_PROGRAM, "constant 0 (strings): its strings do not follow each other");
    test_bytes_free(&file);
}
END_TEST

/* A constant whose place in the data is as given; the data has 64 bytes. */
static void check_place(uint64_t offset, uint64_t bytes, const char *message)
{
    test_bytes dim = {0}, type = {0}, constant = {0}, file = {0}, data = {0}, padding = {0};
    put_number(&dim, 1, 4);
    put_number(&type, 1, XCVM_KIND_TENSOR);
    put_number(&type, 2, XCVM_F32);
    put_number(&type, 3, 1);
    put_field(&type, 4, &dim);
    put_field(&constant, 2, &type);
    put_number(&constant, 3, offset);
    put_number(&constant, 4, bytes);
    put_number(&file, 1, 1);
    put_field(&file, 6, &constant);
    while ((file.length + 9 + 4 + padding.length) % 64 != 0)
        test_bytes_sink(&padding, "", 1);
    put_file_bytes(&file, 2 + padding.length + 2 + 64);
    put_field(&file, 14, &padding);
    test_bytes_sink(&data, (char[64]){0}, 64);
    put_field(&file, 15, &data);
    if (message != NULL)
        check_refused(&file, XCVM_INVALID_PROGRAM, message);
    else
        ck_assert_msg(decode(file.at, file.length) == XCVM_OK, "%s", error.message);
    test_bytes_free(&dim);
    test_bytes_free(&type);
    test_bytes_free(&constant);
    test_bytes_free(&file);
    test_bytes_free(&data);
    test_bytes_free(&padding);
}

START_TEST(test_places)
{
    check_place(0, 16, NULL);
    check_place(0, 12, "it has 12 bytes, but f32[4] needs 16");
    check_place(8, 16, "its offset 8 is not a multiple of 64");
    check_place(64, 16, "are not inside the data, which has 64");
    check_place(UINT64_MAX - 63, 16, "are not inside the data, which has 64");
}
END_TEST

Suite *suite_proto_codec(void);
Suite *suite_proto_codec(void)
{
    Suite *suite = suite_create("proto_codec");
    TCase *tests = tcase_create("codec");
    tcase_set_timeout(tests, 240);
    tcase_add_test(tests, test_prefixes);
    tcase_add_test(tests, test_flips);
    tcase_add_test(tests, test_random_damage);
    tcase_add_test(tests, test_no_memory);
    tcase_add_test(tests, test_full_disk);
    tcase_add_test(tests, test_alignment);
    tcase_add_test(tests, test_large);
    tcase_add_test(tests, test_formats);
    tcase_add_test(tests, test_nesting);
    tcase_add_test(tests, test_amplification);
    tcase_add_test(tests, test_operands);
    tcase_add_test(tests, test_constant_forms);
    tcase_add_test(tests, test_places);
    suite_add_tcase(suite, tests);
    return suite;
}
