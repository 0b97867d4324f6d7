/* Tests of JSON: numbers beside strtod, arrays of elements, strings, and the split of requests. */
#include "tests/suites.h"
#include "tests/support.h"
#include "server/json/elements.h"
#include "server/json/number.h"
#include "server/json/split.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check_number(const char *text)
{
    xcs_number n;
    ck_assert_msg(xcs_number_scan(text, text + strlen(text), &n), "%s", text);
    ck_assert_ptr_eq(n.end, text + strlen(text));
    const double expected = strtod(text, NULL), actual = xcs_number_double(&n);
    ck_assert_msg(memcmp(&expected, &actual, sizeof actual) == 0, "%s is %.17g, not %.17g", text, actual, expected);
}

START_TEST(numbers_read)
{
    static const char *const texts[] = {
        "0",
        "-0",
        "1",
        "-1.5",
        "0.1",
        "1e22",
        "1e23",
        "9007199254740993",
        "9007199254740992.5",
        "1.7976931348623157e308",
        "1e309",
        "-1e400",
        "5e-324",
        "2e-324",
        "1e-400",
        "2.2250738585072011e-308",
        "0.10000000149011612",
        "123456789012345678901234567890",
        "18446744073709551615",
        "18446744073709551616",
        "0.000000000000000000001e21",
        "1.00000000000000011102230246251565404236316680908203125",
        "1.00000000000000011102230246251565404236316680908203124",
        "8.5e-1",
        "1E+2",
        "100000000000000000000000000000000000000000000000000000000000000000000000000000000000e-80",
        "0.30000001192092896",
        "7.0064923216240854e-46",
        "4503599627370497.5",
        "1e-22",
        "6.02214076e+23"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        check_number(texts[i]);
    uint64_t state = 17;
    for (int i = 0; i < 200000; i++) {
        char text[64];
        const uint64_t bits = test_random_wide(&state);
        double d = 0;
        float f = 0;
        memcpy(&d, &bits, sizeof d);
        memcpy(&f, &bits, sizeof f);
        if (isfinite(d)) {
            snprintf(text, sizeof text, "%.*g", (int)(bits % 18) + 1, d);
            check_number(text);
        }
        snprintf(text, sizeof text, "%.17g", (double)(bits >> 40) / (1 << 24)); /* what Python writes of a float */
        check_number(text);
    }
}
END_TEST

/* The reader of the common form, beside strtod: a float is that of the nearest double. Returns whether it read. */
static bool check_plain(const char *text)
{
    char array[80];
    float actual;
    const int length = snprintf(array, sizeof array, "%s,", text);
    const char *end = xcs_number_read_plain(array, array + length, &actual);
    if (end == NULL)
        return false;
    const float expected = (float)strtod(text, NULL);
    ck_assert_msg(memcmp(&expected, &actual, sizeof actual) == 0, "%s: %.17g; expected %.17g", text, (double)actual,
                  (double)expected);
    ck_assert_ptr_eq(end, array + length - 1);
    return true;
}

START_TEST(plain_numbers_read)
{
    static const char *const others[] = {"",
                                         "-",
                                         "01",
                                         "-01",
                                         ".5",
                                         "1.",
                                         "1e5",
                                         "1.5E2",
                                         "+1",
                                         "NaN",
                                         "1.-5",
                                         "--1",

                                         "12345678901234567890",
                                         "0.12345678901234567890",
                                         "00000000.5"};
    static const char *const plain[] = {"0",
                                        "-0",
                                        "-0.0",
                                        "7",
                                        "12345678",
                                        "123456789.25",
                                        "0.1",
                                        "99999999",
                                        "0.00000001",
                                        "16777217",
                                        "16777219",
                                        "1234567890123456789",
                                        "-3.4028235677973366",
                                        "9007199254740993",
                                        "0.000000000000000001"};
    float unused;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        ck_assert_msg(!check_plain(others[i]), "%s", others[i]);
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        ck_assert_msg(check_plain(plain[i]), "%s", plain[i]);
    const char digits[] = "12345678";
    ck_assert_ptr_null(xcs_number_read_plain(digits, digits + 8, &unused)); /* it might go on */
}
END_TEST

START_TEST(random_plain_numbers_read)
{
    uint64_t state = 99;
    size_t read = 0, count = 0;
    for (int i = 0; i < 40000; i++) {
        char text[64];
        const uint64_t bits = test_random_wide(&state);
        const int digits = (int)(bits % 19) + 1;
        snprintf(text, sizeof text, "%s%.*f", bits & 1 ? "-" : "", digits, (double)(bits >> 20) / (double)(1ull << 44));
        read += check_plain(text);
        /* Between two floats, and a little beside: in doubt. */
        const float low = (float)(bits >> 30) / (float)(1 << 30), high = nextafterf(low, INFINITY);
        double middle = ((double)low + (double)high) / 2;
        for (uint64_t step = bits % 4; step > 0; step--)
            middle = nextafter(middle, bits & 4 ? 0 : 10);
        snprintf(text, sizeof text, "%.*f", (int)(bits % 3) + 16, middle);
        (void)check_plain(text);
        snprintf(text, sizeof text, "%.17g", (double)low); /* what Python writes of a float */
        if (strchr(text, 'e') == NULL) {
            read += check_plain(text);
            count++;
        }
        count++;
    }
    ck_assert_uint_gt(read, count * 9 / 10);
}
END_TEST

START_TEST(numbers_refused)
{
    static const char *const texts[] = {"",    "-",   "+1",  ".5",  "1.", "1e",    "1e+", "01", "-01",
                                        "NaN", "nan", "Inf", "0x1", " 1", "1e1.5", "--1", "e5", "1_000"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        xcs_number n;
        const char *end = texts[i] + strlen(texts[i]);
        ck_assert_msg(!xcs_number_scan(texts[i], end, &n) || n.end != end, "\"%s\" is a number", texts[i]);
    }
}
END_TEST

START_TEST(integers)
{
    static const struct {
        const char *text;
        bool is_signed, is_unsigned;
    } cases[] = {{"9223372036854775807", true, true},
                 {"9223372036854775808", false, true},
                 {"-9223372036854775808", true, false},
                 {"-9223372036854775809", false, false},
                 {"18446744073709551615", false, true},
                 {"18446744073709551616", false, false},
                 {"1.0", true, true},
                 {"1.5", false, false},
                 {"1e3", true, true},
                 {"1e-3", false, false},
                 {"-0", true, true},
                 {"1e30", false, false},
                 {"1000e-3", true, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        xcs_number n;
        int64_t s;
        uint64_t u;
        ck_assert(xcs_number_scan(cases[i].text, cases[i].text + strlen(cases[i].text), &n));
        ck_assert_msg(xcs_number_signed(&n, &s) == cases[i].is_signed, "%s", cases[i].text);
        ck_assert_msg(xcs_number_unsigned(&n, &u) == cases[i].is_unsigned, "%s", cases[i].text);
        if (cases[i].is_signed)
            ck_assert_int_eq(s, (int64_t)strtold(cases[i].text, NULL));
    }
    /* Digits after the point that cancel the first digits of the exponent, but not all of it. */
    enum { PLACES = 100000 };
    static char text[PLACES + 64];
    const int zeros = PLACES - 1;
    static const char *const exponents[] = {"100000", "1000001", "10000000000000000000000000100000"};
    for (size_t i = 0; i < sizeof exponents / sizeof *exponents; i++) {
        xcs_number n;
        uint64_t u;
        const int length = snprintf(text, sizeof text, "0.%0*d1e%s", zeros, 0, exponents[i]);
        ck_assert_int_lt(length, (int)sizeof text);
        ck_assert(xcs_number_scan(text, text + length, &n));
        ck_assert_msg(xcs_number_unsigned(&n, &u) == (i == 0), "exponent %s", exponents[i]);
        check_number(text);
    }
}
END_TEST

START_TEST(floats_written)
{
    uint64_t state = 5;
    xcs_text text = {0};
    for (int i = 0; i < 200000; i++) {
        const uint64_t bits = test_random_wide(&state) >> 16;
        float f, again;
        memcpy(&f, &bits, sizeof f);
        if (i % 2 == 0)
            f = (float)(bits % 100000000) / (float)(1u << (bits % 29));
        else if (i % 4 == 1)
            f = ldexpf((float)(bits % 16777216), -(int)(bits % 70)); /* as results of Softmax */
        text.count = 0;
        xcs_number_write_float(&text, f);
        ck_assert_uint_lt(text.count, 40);
        xcs_text_add(&text, "", 1);
        if (!isfinite(f)) {
            ck_assert_str_eq(text.at, "null");
            continue;
        }
        again = (float)strtod(text.at, NULL);
        ck_assert_msg(memcmp(&f, &again, sizeof f) == 0, "%.9g is written as %s", (double)f, text.at);
    }
    static const struct {
        float value;
        const char *text;
    } cases[] = {{0.1f, "0.1"},      {1, "1"},         {-0.0f, "-0.0"}, {0, "0"},           {123456, "123456"},
                 {-2.5f, "-2.5"},    {1e10f, "1e+10"}, {0.3f, "0.3"},   {1e-5f, "0.00001"}, {1.5e-7f, "1.5e-7"},
                 {-1e-12f, "-1e-12"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        text.count = 0;
        xcs_number_write_float(&text, cases[i].value);
        xcs_text_add(&text, "", 1);
        ck_assert_str_eq(text.at, cases[i].text);
    }
    text.count = 0;
    xcs_number_write_double(&text, 0.1 + 0.2);
    xcs_text_add(&text, "", 1);
    ck_assert_str_eq(text.at, "0.30000000000000004");
    xcs_text_free(&text);
}
END_TEST

static xcvm_status read_array(const char *text, xcvm_dtype dtype, int rank, const int64_t *dims, xcvm_value **tensor,
                              xcvm_error *error)
{
    ck_assert_int_eq(xcvm_tensor_create(NULL, dtype, rank, dims, tensor, NULL), XCVM_OK);
    return xcs_elements_read(text, text + strlen(text), *tensor, error);
}

START_TEST(element_arrays)
{
    static const int64_t dims[] = {2, 3};
    static const char *const good[] = {"[1,2,3,4,5,6]", "[1 , 2,\n3,4,5,6 ]", "[[1,2,3],[4,5,6]]"};
    static const struct {
        const char *text, *message;
    } bad[] = {{"[1,2,3,4,5]", "5 elements; the shape has 6"},
               {"[1,2,3,4,5,6,7]", "more than 6 elements"},
               {"[1,2,3,4,5,NaN]", "element 5 is \"NaN\"; expected a number"},
               {"[1,2,3,4,5,1e99]", "element 5 is \"1e99\"; expected a number that FP32 can represent"},
               {"[[1,2],[3,4],[5,6]]", "an array of 2 items; dimension 1 of the shape is 3"},
               {"[[1,2,3],4,5,6]", "elements and arrays are mixed"},
               {"[[[1,2,3,4,5,6]]]", "nested deeper than the shape"},
               {"[1,2,3,4,5,]", "element 5 is \"\"; expected a number"},
               {"[1 2]", "expected \",\" or \"]\""},
               {"[\"1\"]", "element 0 is \"\"1\"\""},
               {"[true]", "element 0 is \"true\""},
               {"[1,2", "expected"}};
    xcvm_value *tensor;
    xcvm_error error = {0};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        ck_assert_msg(read_array(good[i], XCVM_F32, 2, dims, &tensor, &error) == XCVM_OK, "%s", error.message);
        for (int j = 0; j < 6; j++)
            ck_assert_float_eq(((const float *)xcvm_value_data(tensor))[j], (float)j + 1);
        xcvm_value_release(tensor);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ck_assert_int_ne(read_array(bad[i].text, XCVM_F32, 2, dims, &tensor, &error), XCVM_OK);
        ck_assert_msg(strstr(error.message, bad[i].message) != NULL, "%s: %s", bad[i].text, error.message);
        xcvm_value_release(tensor);
    }
    static const int64_t one[] = {1};
    static const struct {
        const char *text;
        xcvm_dtype dtype;
        bool good;
    } types[] = {{"[255]", XCVM_U8, true},   {"[256]", XCVM_U8, false},   {"[-1]", XCVM_U8, false},
                 {"[-128]", XCVM_I8, true},  {"[128]", XCVM_I8, false},   {"[true]", XCVM_BOOL, true},
                 {"[1]", XCVM_BOOL, false},  {"[0.5]", XCVM_F16, true},   {"[70000]", XCVM_F16, false},
                 {"[1.5]", XCVM_I64, false}, {"[1e38]", XCVM_BF16, true}, {"[1e400]", XCVM_F64, false}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        const xcvm_status status = read_array(types[i].text, types[i].dtype, 1, one, &tensor, &error);
        ck_assert_msg((status == XCVM_OK) == types[i].good, "%s: %s", types[i].text, error.message);
        xcs_text text = {0};
        if (types[i].good) {
            ck_assert_int_eq(xcs_elements_write(&text, tensor, &error), XCVM_OK);
            if (types[i].dtype != XCVM_BF16) {
                xcs_text_add(&text, "", 1);
                ck_assert_str_eq(text.at, types[i].text);
            }
        }
        xcs_text_free(&text);
        xcvm_value_release(tensor);
    }
}
END_TEST

START_TEST(strings)
{
    static const int64_t dims[] = {3};
    const char *const text = "[\"a\\n\\u00e9\\ud83d\\ude00\",\"\", \"]\\\"[\"]";
    xcvm_value *tensor;
    xcvm_error error = {0};
    size_t length;
    ck_assert_msg(xcs_strings_read(text, text + strlen(text), NULL, 1, dims, &tensor, &error) == XCVM_OK, "%s",
                  error.message);
    const char *first = xcvm_value_string_at(tensor, 0, &length);
    ck_assert_uint_eq(length, 8);
    ck_assert(memcmp(first, "a\n\xc3\xa9\xf0\x9f\x98\x80", 8) == 0);
    xcvm_value_string_at(tensor, 1, &length);
    ck_assert_uint_eq(length, 0);
    xcs_text written = {0};
    ck_assert_int_eq(xcs_elements_write(&written, tensor, &error), XCVM_OK);
    xcs_text_add(&written, "", 1);
    ck_assert_str_eq(written.at, "[\"a\\u000a\xc3\xa9\xf0\x9f\x98\x80\",\"\",\"]\\\"[\"]");
    xcs_text_free(&written);
    xcvm_value_release(tensor);
    static const char *const bad[] = {"[\"a\",\"b\"]",         "[\"a\",\"b\",3]",           "[\"a\",\"b\",\"\\ud800\"]",
                                      "[\"a\",\"b\",\"\\x\"]", "[\"a\",\"b\",\"c\",\"d\"]", "[\"a\",\"b\",\"\n\"]"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_msg(xcs_strings_read(bad[i], bad[i] + strlen(bad[i]), NULL, 1, dims, &tensor, &error) != XCVM_OK,
                      "%s", bad[i]);
    xcs_text nothing = {0};
    xcs_text_add(&nothing, NULL, 0);
    ck_assert_ptr_null(xcs_text_reserve(&nothing, 0));
    ck_assert(!nothing.failed);
    xcs_text_free(&nothing);
    xcs_text quoted = {0};
    xcs_text_quote(&quoted, "\xff\x01\xc0\x80\xed\xa0\x80", 7);
    ck_assert_uint_eq(quoted.count, 2 + 6 * 7);
    xcs_text_free(&quoted);
}
END_TEST

START_TEST(split)
{
    const char *const body =
        "{\"id\":\"data\\\"[\",\"inputs\":[{\"name\":\"a\",\"data\" : [1,[2,\"]\"]] ,\"shape\":[2]},"
        "{\"data\":[3],\"parameters\":{\"data\":[9]}}],\"data\":[8]}";
    xcs_text rest = {0};
    xcs_span arrays[2];
    size_t count;
    xcvm_error error = {0};
    ck_assert_msg(xcs_json_split(body, strlen(body), 1000, &rest, arrays, 2, &count, &error) == XCVM_OK, "%s",
                  error.message);
    xcs_text_add(&rest, "", 1);
    ck_assert_str_eq(rest.at, "{\"id\":\"data\\\"[\",\"inputs\":[{\"name\":\"a\",\"data\" : 0 ,\"shape\":[2]},"
                              "{\"data\":1,\"parameters\":{\"data\":[9]}}],\"data\":[8]}");
    ck_assert_uint_eq(count, 2);
    ck_assert_uint_eq((size_t)(arrays[0].end - arrays[0].at), strlen("[1,[2,\"]\"]]"));
    static const struct {
        const char *body, *message;
    } bad[] = {{"{\"inputs\":[{\"data\":[1", "does not end"},
               {"{\"a", "a string does not end"},
               {"]", "closes nothing"},
               {"{\"inputs\":[{\"data\":1}]}", "\"data\" is not an array"},
               {"[[[[[[[[[[[[[[[[[[[[", "nested more than"},
               {"{\"inputs\":[{\"data\":[]},{\"data\":[]},{\"data\":[]}]}", "more than 2 inputs"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        rest.count = 0;
        ck_assert_int_ne(xcs_json_split(bad[i].body, strlen(bad[i].body), 1000, &rest, arrays, 2, &count, &error),
                         XCVM_OK);
        ck_assert_msg(strstr(error.message, bad[i].message) != NULL, "%s", error.message);
    }
    rest.count = 0;
    ck_assert_int_ne(xcs_json_split(body, strlen(body), 20, &rest, arrays, 2, &count, &error), XCVM_OK);
    xcs_text_free(&rest);
}
END_TEST

Suite *suite_server_json(void);
Suite *suite_server_json(void)
{
    return SUITE_OF("server_json", numbers_read, plain_numbers_read, random_plain_numbers_read, numbers_refused,
                    integers, floats_written, element_arrays, strings, split);
}
