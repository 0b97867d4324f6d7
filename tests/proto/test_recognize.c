/* Tests of recognizing files. */
#include "proto/recognize.h"
#include "tests/support.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLE(bytes) bytes, sizeof bytes - 1

static const struct {
    const char *bytes;
    size_t count;
    xcvm_file_kind kind;
    const char *model, *data; /* parts of the message if a model, program or data is expected; NULL: no message */
} samples[] = {
    {SAMPLE("\x08\x08\x12\x01p\x3a\x02\x0a\x00\x42\x02\x10\x0d"), XCVM_FILE_MODEL, NULL, "this is an ONNX model"},
    {SAMPLE("\x08\x08\x12\x01p\x3a\xff\x7f\x0a"), XCVM_FILE_MODEL, NULL, "this is an ONNX model"}, /* its beginning */
    {SAMPLE("\x08\x01\x12\x04xcvm\x2a\x02\x08\x01"), XCVM_FILE_PROGRAM, "run it with \"xcvm run\"", "XCVM program"},
    {SAMPLE("# x\n\nxcvm 1\n"), XCVM_FILE_ASSEMBLY, "\"xcvm asm\"", "text of an XCVM program"},
    {SAMPLE("\x93NUMPY\x01"), XCVM_FILE_ARRAYS, "a NumPy array", NULL},
    {SAMPLE("\x10\0\0\0\0\0\0\0{\"a\":1}"), XCVM_FILE_ARRAYS, "weights without a network", NULL},
    {SAMPLE("PK\3\4\0\0\0\0x.npy"), XCVM_FILE_ARRAYS, "(.npz)", NULL},
    {SAMPLE("\x89PNG\r\n\x1a\n"), XCVM_FILE_IMAGE, "a PNG image", "a PNG image"},
    {SAMPLE("RIFF\0\0\0\0WEBPVP8 "), XCVM_FILE_IMAGE, "a WebP image", "a WebP image"},
    {SAMPLE("RIFF\0\0\0\0WAVEfmt "), XCVM_FILE_OTHER, "a WAVE sound", "numpy.savez"},
    {SAMPLE("version https://git-lfs.github.com/spec/v1\n"), XCVM_FILE_OTHER, "git lfs pull", "git lfs pull"},
    {SAMPLE("\xef\xbb\xbf <HTML>"), XCVM_FILE_OTHER, "HTML page", "HTML page"},
    {SAMPLE("{\"a\": 1}"), XCVM_FILE_OTHER, "a JSON text", "a JSON text"},
    {SAMPLE("../../blobs/01"), XCVM_FILE_OTHER, "symbolic link", "symbolic link"},
    {SAMPLE("a,b\n1,2\n"), XCVM_FILE_OTHER, "a table in text, as in CSV; an ONNX", "with numpy.genfromtxt"},
    {SAMPLE("1;2;x\n3;4;y"), XCVM_FILE_OTHER, "a table in text", "with numpy.genfromtxt"},
    {SAMPLE("a\tb\n1\t2\n3\n"), XCVM_FILE_OTHER, "a table in text", "with numpy.genfromtxt"},
    {SAMPLE("hello, world\nand more\n"), XCVM_FILE_OTHER, "this is a text", "this is a text"},
    {SAMPLE("1,2,3\n"), XCVM_FILE_OTHER, "this is a text", "this is a text"},
    {SAMPLE(""), XCVM_FILE_OTHER, "this is empty", "this is empty"},
    {SAMPLE("\xff\xff\xff"), XCVM_FILE_UNKNOWN, NULL, NULL},
    {SAMPLE("\x08\x08"), XCVM_FILE_UNKNOWN, NULL, NULL},
};
enum { SAMPLES = sizeof samples / sizeof *samples };

static void check_text(size_t sample, xcvm_file_kind wanted, const char *part)
{
    char text[400] = "before";
    ck_assert_int_eq(xcvm_recognize(samples[sample].bytes, samples[sample].count, wanted, text, sizeof text),
                     samples[sample].kind);
    if (part != NULL)
        ck_assert_msg(strstr(text, part) != NULL, "sample %zu: %s", sample, text);
    else
        ck_assert_msg(text[0] == '\0', "sample %zu: %s", sample, text);
}

START_TEST(kinds)
{
    for (size_t i = 0; i < SAMPLES; i++) {
        check_text(i, XCVM_FILE_MODEL, samples[i].model);
        check_text(i, XCVM_FILE_ARRAYS, samples[i].data);
        check_text(i, samples[i].kind, samples[i].kind == XCVM_FILE_OTHER ? "" : NULL);
        ck_assert_int_eq(xcvm_recognize(samples[i].bytes, samples[i].count, XCVM_FILE_MODEL, NULL, 0), samples[i].kind);
    }
}
END_TEST

/* Nothing is read beyond the bytes, whose memory ends exactly there, and the text is within its buffer. */
START_TEST(every_prefix_and_change)
{
    for (size_t i = 0; i < SAMPLES; i++)
        for (size_t count = 0; count <= samples[i].count; count++)
            for (int change = 0; change < 3; change++) {
                char *copy = malloc(count > 0 ? count : 1), text[8];
                memcpy(copy, samples[i].bytes, count);
                if (count > 0 && change > 0)
                    copy[count - 1] = (char)(change == 1 ? 0xff : 0);
                (void)xcvm_recognize(copy, count, XCVM_FILE_MODEL, text, sizeof text);
                ck_assert_uint_lt(strlen(text), sizeof text);
                free(copy);
            }
}
END_TEST

START_TEST(failures)
{
    xcvm_error error = {.status = XCVM_INVALID_MODEL, .message = "before"};
    ck_assert_int_eq(xcvm_recognize_failure(XCVM_OK, "GGUF", 4, XCVM_FILE_MODEL, &error), XCVM_OK);
    ck_assert_int_eq(xcvm_recognize_failure(XCVM_OUT_OF_MEMORY, "GGUF", 4, XCVM_FILE_MODEL, &error),
                     XCVM_OUT_OF_MEMORY);
    ck_assert_int_eq(xcvm_recognize_failure(XCVM_INVALID_MODEL, "\xff\xff", 2, XCVM_FILE_MODEL, &error),
                     XCVM_INVALID_MODEL);
    ck_assert_str_eq(error.message, "before");
    ck_assert_int_eq(xcvm_recognize_failure(XCVM_INVALID_MODEL, "GGUF", 4, XCVM_FILE_MODEL, &error),
                     XCVM_INVALID_MODEL);
    ck_assert_ptr_nonnull(strstr(error.message, "this is a GGUF file"));
    /* The version of a model is no program that is too new. */
    xcvm_program *program;
    ck_assert_int_eq(xcvm_program_load(samples[0].bytes, samples[0].count, NULL, &program, &error),
                     XCVM_INVALID_PROGRAM);
    ck_assert_ptr_nonnull(strstr(error.message, "this is an ONNX model; compile it to a program"));
}
END_TEST

Suite *suite_proto_recognize(void);
Suite *suite_proto_recognize(void)
{
    Suite *suite = suite_create("proto_recognize");
    TCase *tests = tcase_create("recognize");
    tcase_add_test(tests, kinds);
    tcase_add_test(tests, every_prefix_and_change);
    tcase_add_test(tests, failures);
    suite_add_tcase(suite, tests);
    return suite;
}
