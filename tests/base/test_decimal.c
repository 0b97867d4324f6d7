/* Tests of decimal text, in locales of either decimal point. */
#include "base/decimal.h"
#include "tests/support.h"

#include <check.h>
#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Doubles of every magnitude, and numbers with few digits. */
static double number_of(unsigned i)
{
    uint64_t bits = (i + UINT64_C(1)) * UINT64_C(0x9e3779b97f4a7c15);
    bits ^= bits >> 29;
    double value;
    memcpy(&value, &bits, sizeof value);
    return i % 3 == 0   ? value
           : i % 3 == 1 ? (double)(int64_t)(bits >> 40) / 1000
                        : (double)(i % 1000) * pow(10, i % 40 - 20.0);
}

/* Against printf and strtod where the locale is C. */
START_TEST(as_the_c_library)
{
    static const double special[] = {0,
                                     -0.0,
                                     1,
                                     -1,
                                     0.1,
                                     9.5,
                                     99.5,
                                     0.0001,
                                     0.00001,
                                     999999.5,
                                     1e16,
                                     123456789,
                                     DBL_MAX,
                                     DBL_MIN,
                                     5e-324,
                                     (double)INFINITY,
                                     -(double)INFINITY,
                                     (double)NAN};
    for (unsigned i = 0; i < 30000; i++) {
        const double value = i < sizeof special / sizeof *special ? special[i] : number_of(i);
        for (int precision = 1; precision <= XCVM_DECIMAL_DIGITS; precision += i < 100 ? 1 : 4) {
            char expected[64], text[XCVM_DECIMAL_TEXT];
            snprintf(expected, sizeof expected, "%.*g", precision, value);
            double back = -7;
            const bool same = strcmp(xcvm_decimal_text(value, precision, text), expected) == 0;
            const bool read = xcvm_decimal_parse(text, &back);
            const bool exact =
                isfinite(value) ? read && back == strtod(expected, NULL) && !signbit(back) == !signbit(value) : !read;
            /* An assertion for each would take longer than all of them. */
            if (!same || !exact)
                ck_abort_msg("%a is %s, not %s, and read as %a", value, text, expected, back);
        }
    }
}
END_TEST

START_TEST(parsed)
{
    static const char *const texts[] = {"1",
                                        "+1",
                                        "-1.",
                                        ".5",
                                        "-.5e1",
                                        "1E+2",
                                        "00012.500",
                                        "0e999999999999",
                                        "1e400",
                                        "-1e400",
                                        "1e-400",
                                        "1e99999999999999999999",
                                        "1e-99999999999999999999",
                                        "0.000000000000000000000000000001e30",
                                        "9007199254740993",
                                        "2.4703282292062327208e-324",
                                        "2.4703282292062328e-324"};
    static const char *const refused[] = {"",    "-",  "+",  ".",   "e1",  "1e",  "1e+", "1.2.3",
                                          "1,5", " 1", "1 ", "0x1", "inf", "nan", "1f",  "--1"};
    double value;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        value = -7;
        ck_assert_msg(xcvm_decimal_parse(texts[i], &value), "%s", texts[i]);
        const double expected = strtod(texts[i], NULL);
        ck_assert_msg(value == expected && !signbit(value) == !signbit(expected), "%s", texts[i]);
    }
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        ck_assert_msg(!xcvm_decimal_parse(refused[i], &value), "%s", refused[i]);
}
END_TEST

/* More digits than are kept: the midpoint between 1 and the next double rounds to 1, and a slightly larger number does
 * not. */
START_TEST(long_numbers)
{
    char text[3000];
    double value;
    const int length = snprintf(text, sizeof text, "%.1500Lf", 1 + 0x1p-53L);
    ck_assert(length > 1500 && length < 2900);
    ck_assert(xcvm_decimal_parse(text, &value));
    ck_assert(value == 1);
    text[length - 1] = '1';
    ck_assert(xcvm_decimal_parse(text, &value));
    ck_assert(value == 1 + DBL_EPSILON);
    memset(text, '0', sizeof text);
    memcpy(text, "0.", 2);
    strcpy(text + 2000, "125e2000");
    ck_assert(xcvm_decimal_parse(text, &value));
    ck_assert(value == 12.5);
    memset(text, '9', sizeof text);
    strcpy(text + 2000, "e-2000");
    ck_assert(xcvm_decimal_parse(text, &value));
    ck_assert(value == 1);
}
END_TEST

START_TEST(other_locale)
{
    ck_assert(test_comma_locale());
    char text[XCVM_DECIMAL_TEXT];
    double value;
    snprintf(text, sizeof text, "%g", 1.5);
    ck_assert_str_eq(text, "1,5");
    ck_assert_str_eq(xcvm_decimal_text(1.5, 6, text), "1.5");
    ck_assert_str_eq(xcvm_decimal_text(-1.25e-30, 6, text), "-1.25e-30");
    ck_assert(xcvm_decimal_parse("-2.75", &value));
    ck_assert(value == -2.75);
    ck_assert(!xcvm_decimal_parse("2,75", &value));
    setlocale(LC_ALL, "C");
}
END_TEST

Suite *suite_base_decimal(void);
Suite *suite_base_decimal(void)
{
    Suite *suite = suite_create("base_decimal");
    TCase *tests = tcase_create("decimal");
    tcase_add_test(tests, as_the_c_library);
    tcase_add_test(tests, parsed);
    tcase_add_test(tests, long_numbers);
    tcase_add_test(tests, other_locale);
    suite_add_tcase(suite, tests);
    return suite;
}
