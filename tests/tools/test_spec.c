/* Tests of SPEC. */
#include "tests/suites.h"
#include "tools/tensors/spec.h"
#include "tools/values/value.h"

#include <stdio.h>
#include <string.h>

#define FILES XCVM_TEST_DATA "/tools/data/files/"

static const struct filling filling = {1, 8000, NULL};

/* Makes the value of a SPEC for an input declared as `declared` ("" for none), and prints it; or the error. */
static const char *show(const char *declared, const char *text)
{
    static struct buffer shown;
    xcvm_type type = {.kind = XCVM_KIND_TENSOR, .rank = -1};
    struct wanted wanted = {.name = "x"};
    struct spec spec;
    xcvm_value *value;
    xcvm_error error = {.pc = -1};
    shown.length = 0;
    /* -1 is written as ? by the tests. */
    if (*declared != '\0') {
        char copy[64];
        snprintf(copy, sizeof copy, "%s", declared);
        int open[XCVM_MAX_RANK] = {0}, rank = 0;
        for (char *at = copy; *at != '\0'; at++) {
            if (*at == '?') {
                open[rank] = 1;
                *at = '7';
            }
            rank += *at == 'x' && rank < XCVM_MAX_RANK - 1;
        }
        ck_assert(type_parse(copy, strlen(copy), &type));
        for (int i = 0; i < type.rank; i++)
            if (open[i])
                type.dims[i] = -1;
        wanted.type = &type;
    }
    xcvm_status status = spec_parse(text, &spec, &error);
    if (status == XCVM_OK) {
        status = spec_value(&spec, &wanted, &filling, &value, &error);
        spec_release(&spec);
    }
    if (status == XCVM_OK) {
        value_print(&shown, value, 100);
        xcvm_value_release(value);
    } else {
        buffer_format(&shown, "%s: %s", xcvm_status_name(status), error.message);
    }
    return buffer_string(&shown);
}

static void expect(const char *declared, const char *text, const char *wanted)
{
    ck_assert_str_eq(show(declared, text), wanted);
}

static void refuse(const char *declared, const char *text, const char *part)
{
    const char *shown = show(declared, text);
    ck_assert_msg(strstr(shown, ": ") != NULL && strstr(shown, part) != NULL, "%s gives %s", text, shown);
}

START_TEST(types)
{
    xcvm_type type;
    ck_assert(type_parse("2x3xf32", 7, &type) && type.rank == 2 && type.dims[1] == 3 && type.dtype == XCVM_F32);
    ck_assert(type_parse("i64", 3, &type) && type.rank == 0);
    ck_assert(type_parse("0xstr", 5, &type) && type.dims[0] == 0);
    static const char *const wrong[] = {
        "", "x", "2x", "2xf33", "2x-3xf32", "f32x2", "1x1x1x1x1x1x1x1x1xf32", "99999999999999999999xf32", "2 xf32"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        ck_assert_msg(!type_parse(wrong[i], strlen(wrong[i]), &type), "%s", wrong[i]);
}
END_TEST

START_TEST(literals)
{
    expect("", "2x3xf32=1 2 3 4 5 6", "2x3xf32=1 2 3 4 5 6");
    expect("", "2x3xi32=[[1,2,3],[4,5,6]]", "2x3xi32=1 2 3 4 5 6");
    expect("", "f32=3.5", "f32=3.5");
    expect("", "2x2xf32=7", "2x2xf32=7 7 7 7");
    expect("", "0x3xf32=", "0x3xf32=");
    expect("", "3xf32=nan -inf inf", "3xf32=nan -inf inf");
    expect("", "2xbool=true 0", "2xbool=true false");
    expect("", "2xstr=\"a b\" \"c\\\"\\n\\x41\"", "2xstr=\"a b\" \"c\\\"\\nA\"");
    expect("", "2xc64=1+2i -3i", "2xc64=1+2i 0-3i");
    expect("", "3xf16=1 0.1 65504", "3xf16=1 0.1 65500");
    expect("", "5xi4=-8 7 0 1 -1", "5xi4=-8 7 0 1 -1");
    expect("", "i64=-9223372036854775808", "i64=-9223372036854775808");
    expect("", "3.5", "f32=3.5");
    expect("", "1 2 3", "3xi64=1 2 3");
    expect("", "1 2.5", "2xf32=1 2.5");
    expect("", "\"a\" \"b\"", "2xstr=\"a\" \"b\"");
}
END_TEST

START_TEST(declared_shapes)
{
    expect("f32", "3.5", "f32=3.5");
    expect("1x1xf32", "3.5", "1x1xf32=3.5");
    expect("2x2xf32", "1 2 3 4", "2x2xf32=1 2 3 4");
    expect("?x2xf32", "1 2 3 4 5 6", "3x2xf32=1 2 3 4 5 6");
    expect("?x?xf32", "1 2", "2x1xf32=1 2");
    expect("2xi64", "2xf32=1 2", "2xi64=1 2");
    expect("2xf32", "zeros", "2xf32=0 0");
    expect("2xi8", "ones", "2xi8=1 1");
    expect("2xf32", "3xf32=ones", "3xf32=1 1 1");
    expect("1xc64", "ones", "1xc64=1+0i");
    refuse("2x2xf32", "1 2 3", "3 elements are given, but the shape has 4");
    refuse("?x2xf32", "1 2 3", "3 elements are given, but dimension 0 is open, and each of its rows has 2");
    refuse("?xf32", "zeros", "dimension 0 is open");
    refuse("2xi64", "2xf32=1 2.5", "element 1 is 2.5, which i64 cannot represent");
    refuse("2xu8", "2xi64=1 256", "u8");
    refuse("2xf16", "2xf32=1 1e6", "f16");
    refuse("2xf32", "2xstr=\"a\" \"b\"", "cannot be converted");
}
END_TEST

START_TEST(lists)
{
    expect("", "seq(2xf32=1 2; f32=3)", "seq(2xf32=1 2; f32=3)");
    expect("", "seq()", "seq()");
    expect("", "optional(f32=1)", "optional(f32=1)");
    expect("", "optional()", "optional()");
    expect("", "optional(seq(1; 2))", "optional(seq(i64=1; i64=2))");
    expect("", "seq(1xstr=\";)\"; 1xstr=\"(\")", "seq(1xstr=\";)\"; 1xstr=\"(\")");
    expect("", "map(2xi64=1 2; 2xf32=0.5 1)", "map(2xi64=1 2; 2xf32=0.5 1)");
    refuse("", "seq(1; 2", "has no closing )");
    refuse("", "seq(1) 2", "follows the end of the list");
    refuse("", "optional(1; 2)", "at most one");
    refuse("", "map(1)", "map(KEYS; VALUES)");
    refuse("", "seq(x)", "is no number");
    char deep[256] = "";
    for (int i = 0; i < 30; i++)
        strcat(deep, "seq(");
    for (int i = 0; i < 30; i++)
        strcat(deep, ")");
    refuse("", deep, "nested");
}
END_TEST

START_TEST(refused)
{
    refuse("", "hello", "is not a tensor");
    refuse("", "2xf33=1 2", "is not a tensor");
    refuse("", "2xf32=1 x", "\"x\" is no number");
    refuse("", "2xf32=1 2x", "is no number");
    refuse("", "2xf32=1 2 3", "3 elements are given, but the shape has 2");
    refuse("", "u8=256", "cannot be a u8");
    refuse("", "2xstr=\"a", "has no closing quote");
    refuse("", "2xstr=a b", "is not a tensor");
    refuse("", "2xstr=\"a\" b", "quotes");
    refuse("", "99999999x99999999x99999999xf32=1", "too large");
    refuse("", "@", "name of a file");
    refuse("", "@no_such_file.npy", "no_such_file.npy");
    refuse("", "random:x", "not a seed");
    refuse("", "random", "its shape is not declared");
    refuse("", "2xstr=zeros", "zeros and ones need a tensor of numbers");
}
END_TEST

START_TEST(random_values)
{
    struct spec spec;
    xcvm_error error;
    xcvm_value *a, *b;
    struct wanted wanted = {.name = "x"};
    static const char *const texts[] = {"1000xf32=random:3", "1000xi64=random:3", "1000xu8=random:3", "9xi4=random:3",
                                        "9xbool=random",     "9xf16=random",      "9xstr=random",     "9xc64=random"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct statistics statistics;
        ck_assert_int_eq(spec_parse(texts[i], &spec, &error), XCVM_OK);
        ck_assert_int_eq(spec_value(&spec, &wanted, &filling, &a, &error), XCVM_OK);
        ck_assert_int_eq(spec_value(&spec, &wanted, &filling, &b, &error), XCVM_OK);
        if (value_statistics(a, &statistics)) {
            ck_assert_msg(memcmp(xcvm_value_data(a), xcvm_value_data(b), xcvm_value_bytes(a)) == 0, "%s", texts[i]);
            ck_assert(statistics.min < statistics.max);
            ck_assert(statistics.min >= -0.5L && statistics.max < 8000);
        }
        xcvm_value_release(a);
        xcvm_value_release(b);
        spec_release(&spec);
    }
}
END_TEST

START_TEST(files)
{
    static const char *const names[] = {"float16", "float32", "float64", "int8",   "int16", "int32",
                                        "int64",   "uint8",   "uint16",  "uint32", "uint64"};
    static const char *const dtypes[] = {"f16", "f32", "f64", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char spec[256], shown[64];
        snprintf(spec, sizeof spec, "@" FILES "%s.npy", names[i]);
        snprintf(shown, sizeof shown, "2x3x%s=0 1 1 1 0 1", dtypes[i]);
        expect("", spec, shown);
        expect("2x3xf32", spec, "2x3xf32=0 1 1 1 0 1");
    }
    expect("", "@" FILES "bool.npy", "2x3xbool=false true true true false true");
    expect("", "@" FILES "complex64.npy", "2x3xc64=0+0i 1+0i 1+0i 1+0i 0+0i 1+0i");
    expect("", "@" FILES "big_endian.npy", "2x3xf32=0 1 2 3 4 5");
    expect("", "@" FILES "fortran.npy", "2x3xf32=0 1 2 3 4 5");
    expect("", "@" FILES "scalar.npy", "f32=2.5");
    expect("", "@" FILES "empty.npy", "0x3xf32=");
    expect("", "@" FILES "text.npy", "2x2xstr=\"a\" \"bc\xc3\xa9\" \"\" \"dd\"");
    expect("", "@" FILES "bytes.npy", "2xstr=\"ab\" \"c\"");
    expect("", "@" FILES "stored.npz:y", "2xi64=0 1");
    expect("", "@" FILES "stored.npz", "3xf32=0 1 2");
    expect("", "@" FILES "deflated.npz:only", "2xi64=0 1");
    expect("", "@" FILES "single.npz", "2xf32=7 8");
    refuse("", "@" FILES "stored.npz:z", "(arrays: x, y)");
    refuse("", "3x2xf32=@" FILES "fortran.npy", "f32[2x3]");
    refuse("", "@" FILES, "is a directory");
}
END_TEST

START_TEST(images)
{
    expect("", "@" FILES "gray.png", "2x3x1xu8=0 51 102 153 204 255");
    expect("1x1x2x3xf32", "@" FILES "gray.png", "1x1x2x3xf32=0 0.2 0.4 0.6 0.8 1");
    expect("?x1x?x?xf32", "@" FILES "gray.png", "1x1x2x3xf32=0 0.2 0.4 0.6 0.8 1");
    expect("2x3xf32", "@" FILES "gray.png", "2x3xf32=0 0.2 0.4 0.6 0.8 1");
    expect("1x6xf32", "@" FILES "gray.png", "1x6xf32=0 0.2 0.4 0.6 0.8 1");
    expect("1x2x3x1xi64", "@" FILES "gray.png", "1x2x3x1xi64=0 51 102 153 204 255");
    expect("1x3x2x3xu8", "@" FILES "color.png", "1x3x2x3xu8=0 3 6 9 12 15 1 4 7 10 13 16 2 5 8 11 14 17");
    expect("2x3x3xu8", "@" FILES "color.png", "2x3x3xu8=0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17");
    refuse("1x1x4x4xf32", "@" FILES "gray.png", "width 3 and height 2");
    refuse("1x5x2x3xf32", "@" FILES "gray.png", "does not fit");
    refuse("1x1x2x3xbool", "@" FILES "gray.png", "cannot become bool");
}
END_TEST

Suite *suite_tools_spec(void)
{
    Suite *suite = suite_create("tools_spec");
    TCase *tests = tcase_create("spec");
    tcase_add_test(tests, types);
    tcase_add_test(tests, literals);
    tcase_add_test(tests, declared_shapes);
    tcase_add_test(tests, lists);
    tcase_add_test(tests, refused);
    tcase_add_test(tests, random_values);
    tcase_add_test(tests, files);
    tcase_add_test(tests, images);
    suite_add_tcase(suite, tests);
    return suite;
}
