/* Tests of elements as numbers. */
#include "tests/suites.h"
#include "tools/values/number.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const xcvm_dtype small_types[] = {XCVM_F16,        XCVM_BF16,   XCVM_F8E4M3FN, XCVM_F8E4M3FNUZ, XCVM_F8E5M2,
                                         XCVM_F8E5M2FNUZ, XCVM_F4E2M1, XCVM_U4,       XCVM_I4,         XCVM_U2,
                                         XCVM_I2,         XCVM_U8,     XCVM_I8,       XCVM_U16,        XCVM_I16};

/* Every bit pattern of the types of up to 16 bits is read, written and printed as itself. */
START_TEST(every_pattern)
{
    for (size_t t = 0; t < sizeof small_types / sizeof *small_types; t++) {
        xcvm_dtype dtype = small_types[t];
        unsigned count = 1U << xcvm_dtype_bits(dtype);
        for (unsigned bits = 0; bits < count; bits++) {
            unsigned char in[2] = {(unsigned char)bits, (unsigned char)(bits >> 8)}, out[2] = {0}, again[2] = {0};
            number x = number_get(dtype, in, 0);
            ck_assert_msg(number_set(dtype, out, 0, x), "%s %#x", xcvm_dtype_name(dtype), bits);
            if (isnan(x)) {
                ck_assert(isnan(number_get(dtype, out, 0)));
                continue;
            }
            ck_assert_msg(memcmp(in, out, 2) == 0, "%s %#x", xcvm_dtype_name(dtype), bits);
            char text[NUMBER_TEXT];
            const char *end;
            number_print(text, dtype, in, 0);
            ck_assert_msg(number_parse(text, &end, dtype, again, 0) && *end == '\0', "%s", text);
            ck_assert_msg(memcmp(in, again, 2) == 0, "%s %#x %s", xcvm_dtype_name(dtype), bits, text);
        }
    }
}
END_TEST

START_TEST(known_values)
{
    static const struct {
        xcvm_dtype dtype;
        unsigned bits;
        double value;
    } rows[] = {{XCVM_F16, 0x3c00, 1},
                {XCVM_F16, 0x7bff, 65504},
                {XCVM_F16, 0x0001, 0x1p-24},
                {XCVM_BF16, 0x3f80, 1},
                {XCVM_F8E4M3FN, 0x7e, 448},
                {XCVM_F8E4M3FN, 0x01, 0x1p-9},
                {XCVM_F8E4M3FNUZ, 0x7f, 240},
                {XCVM_F8E5M2, 0x7b, 57344},
                {XCVM_F8E5M2FNUZ, 0x7f, 57344},
                {XCVM_F8E5M2FNUZ, 0x01, 0x1p-17},
                {XCVM_F4E2M1, 0x7, 6},
                {XCVM_F4E2M1, 0x1, 0.5},
                {XCVM_F4E2M1, 0xf, -6},
                {XCVM_I4, 0xf, -1},
                {XCVM_U4, 0xf, 15}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        unsigned char in[2] = {(unsigned char)rows[i].bits, (unsigned char)(rows[i].bits >> 8)};
        ck_assert_msg(number_get(rows[i].dtype, in, 0) == (number)rows[i].value, "row %zu", i);
    }
}
END_TEST

START_TEST(rounds_to_even)
{
    uint16_t half;
    ck_assert(number_set(XCVM_F16, &half, 0, 2049));
    ck_assert(number_get(XCVM_F16, &half, 0) == 2048);
    ck_assert(number_set(XCVM_F16, &half, 0, 2051));
    ck_assert(number_get(XCVM_F16, &half, 0) == 2052);
    ck_assert(number_set(XCVM_F16, &half, 0, 65519));
    ck_assert(number_get(XCVM_F16, &half, 0) == 65504);
    ck_assert(!number_set(XCVM_F16, &half, 0, 65520));
}
END_TEST

START_TEST(wide_integers)
{
    static const char *const texts[] = {"9223372036854775807", "-9223372036854775808", "0", "-1"};
    for (size_t i = 0; i < 4; i++) {
        int64_t value;
        const char *end;
        char text[NUMBER_TEXT];
        ck_assert(number_parse(texts[i], &end, XCVM_I64, &value, 0) && *end == '\0');
        number_print(text, XCVM_I64, &value, 0);
        ck_assert_str_eq(text, texts[i]);
    }
    uint64_t wide;
    const char *end;
    ck_assert(number_parse("18446744073709551615", &end, XCVM_U64, &wide, 0) && wide == UINT64_MAX);
    ck_assert(!number_parse("18446744073709551616", &end, XCVM_U64, &wide, 0));
    ck_assert(!number_parse("-1", &end, XCVM_U64, &wide, 0));
    ck_assert(!number_parse("1.5", &end, XCVM_I64, &wide, 0));
    ck_assert(!number_parse("x", &end, XCVM_F32, &wide, 0));
}
END_TEST

/* Random floats are printed so that they are read as themselves. */
START_TEST(floats_round_trip)
{
    srand(1);
    for (int i = 0; i < 20000; i++) {
        uint32_t word = (uint32_t)rand() * 2654435761U ^ (uint32_t)rand();
        uint64_t wide = (uint64_t)word << 32 | (uint32_t)rand() * 40503U, again;
        uint32_t single;
        const char *end;
        char text[NUMBER_TEXT];
        if (isfinite(number_get(XCVM_F32, &word, 0))) {
            number_print(text, XCVM_F32, &word, 0);
            ck_assert(number_parse(text, &end, XCVM_F32, &single, 0));
            ck_assert_msg(single == word, "%s", text);
        }
        if (isfinite(number_get(XCVM_F64, &wide, 0))) {
            number_print(text, XCVM_F64, &wide, 0);
            ck_assert(number_parse(text, &end, XCVM_F64, &again, 0));
            ck_assert_msg(again == wide, "%s", text);
        }
    }
}
END_TEST

Suite *suite_tools_number(void)
{
    Suite *suite = suite_create("tools_number");
    TCase *tests = tcase_create("number");
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, every_pattern);
    tcase_add_test(tests, known_values);
    tcase_add_test(tests, rounds_to_even);
    tcase_add_test(tests, wide_integers);
    tcase_add_test(tests, floats_round_trip);
    suite_add_tcase(suite, tests);
    return suite;
}
