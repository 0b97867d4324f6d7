/* Tests of the codes of floating-point elements against their definition. */
#include "base/element.h"
#include "base/dtype.h"
#include "tests/support.h"

#include <check.h>
#include <float.h>

/* The definition of a type in the terms of its source: bits of exponent and mantissa, bias, and the meaning of the
 * codes with an exponent of all ones. */
typedef enum special {
    IEEE,   /* infinities and NaNs */
    FN,     /* NaN where the mantissa is all ones, no infinities */
    FNUZ,   /* one NaN, where minus zero would be, no infinities */
    FINITE, /* neither */
    POWER   /* an exponent alone, NaN where it is all ones */
} special;

static const struct row {
    xcvm_dtype dtype;
    int exponent, mantissa, bias;
    special special;
} rows[] = {{XCVM_F16, 5, 10, 15, IEEE},      {XCVM_BF16, 8, 7, 127, IEEE},    {XCVM_F8E4M3FN, 4, 3, 7, FN},
            {XCVM_F8E4M3FNUZ, 4, 3, 8, FNUZ}, {XCVM_F8E5M2, 5, 2, 15, IEEE},   {XCVM_F8E5M2FNUZ, 5, 2, 16, FNUZ},
            {XCVM_F4E2M1, 2, 1, 1, FINITE},   {XCVM_F8E8M0, 8, 0, 127, POWER}, {XCVM_F24, 8, 15, 127, IEEE}};

enum { ROWS = sizeof rows / sizeof *rows };

/* The number by the definition: powers and products of doubles. */
static double by_definition(const struct row *r, unsigned bits)
{
    const unsigned ones = (1u << r->exponent) - 1, full = (1u << r->mantissa) - 1;
    const unsigned mantissa = bits & full, exponent = bits >> r->mantissa & ones;
    const bool negative = bits >> (r->mantissa + r->exponent) & 1;
    if (r->special == POWER)
        return bits == ones ? (double)NAN : pow(2, (int)bits - r->bias);
    if ((r->special == IEEE && exponent == ones && mantissa != 0) ||
        (r->special == FN && exponent == ones && mantissa == full) ||
        (r->special == FNUZ && negative && exponent == 0 && mantissa == 0))
        return (double)NAN;
    double value;
    if (r->special == IEEE && exponent == ones)
        value = (double)INFINITY;
    else if (exponent == 0)
        value = mantissa / pow(2, r->mantissa) * pow(2, 1 - r->bias);
    else
        value = (1 + mantissa / pow(2, r->mantissa)) * pow(2, (int)exponent - r->bias);
    return negative ? -value : value;
}

/* A wide type has too many codes: tests one in 97, and those around zero and infinity. */
static unsigned next_code(const xcvm_float_format *f, unsigned code)
{
    const unsigned place = code & 0xffff;
    return f->bits <= 16 || place < 64 || place > 0xffc0 - 97 ? code + 1 : code + 97;
}

START_TEST(every_pattern_is_its_number)
{
    for (int i = 0; i < ROWS; i++) {
        const struct row *r = &rows[i];
        const xcvm_float_format *f = xcvm_float_format_of(r->dtype);
        ck_assert_int_eq(f->bits, xcvm_dtype_bits(r->dtype));
        for (unsigned bits = 0; bits < 1u << f->bits; bits = next_code(f, bits)) {
            const double expected = by_definition(r, bits), is = xcvm_float_decode(f, bits);
            const bool same = isnan(expected)
                                  ? isnan(is) && xcvm_float_is_nan(f, bits)
                                  : is == expected && !signbit(is) == !signbit(expected) && !xcvm_float_is_nan(f, bits);
            /* An assertion for each would take longer than all of them. */
            if (!same)
                ck_abort_msg("%s %#x is %g, not %g", xcvm_dtype_name(r->dtype), bits, is, expected);
        }
    }
}
END_TEST

/* Between two neighbors of a type everything below the midpoint rounds down, everything above rounds up, and the
 * midpoint rounds to the even code. */
START_TEST(rounding_is_to_the_nearest)
{
    for (int i = 0; i < ROWS; i++) {
        const struct row *r = &rows[i];
        const xcvm_float_format *f = xcvm_float_format_of(r->dtype);
        if (r->special == POWER)
            continue;
        for (unsigned code = 0; code <= f->greatest; code = next_code(f, code)) {
            bool exceeds = true;
            const double low = by_definition(r, code);
            /* Beyond the greatest number as if the codes went on. */
            const double high =
                code < f->greatest ? by_definition(r, code + 1) : low + (low - by_definition(r, code - 1));
            const double middle = low + (high - low) / 2;
            const unsigned above = code < f->greatest     ? code + 1
                                   : r->special == IEEE   ? (unsigned)f->infinity
                                   : r->special == FINITE ? (unsigned)f->greatest
                                                          : (unsigned)f->nan;
            const struct {
                double value;
                unsigned code;
            } cases[] = {{low, code},
                         {nextafter(middle, 0), code},
                         {middle, code % 2 == 0 ? code : above},
                         {nextafter(middle, (double)INFINITY), above}};
            for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
                for (int negative = 0; negative < 2; negative++) {
                    const double value = negative ? -cases[c].value : cases[c].value;
                    const bool unsigned_code = r->special == FNUZ && (cases[c].code == 0 || cases[c].code == f->nan);
                    const uint64_t expected = cases[c].code | (negative && !unsigned_code ? f->sign : 0);
                    const uint64_t is = xcvm_float_encode(f, value, &exceeds);
                    const bool beyond = code == f->greatest && (c == 3 || (c == 2 && code % 2 == 1));
                    if (is != expected || exceeds != beyond)
                        ck_abort_msg("%s: %a is %#llx, not %#llx", xcvm_dtype_name(r->dtype), value,
                                     (unsigned long long)is, (unsigned long long)expected);
                }
        }
    }
}
END_TEST

START_TEST(specials)
{
    static const struct {
        xcvm_dtype dtype;
        double value;
        uint64_t bits;
        bool exceeds;
    } cases[] = {{XCVM_F16, (double)INFINITY, 0x7c00, false},
                 {XCVM_F16, -(double)INFINITY, 0xfc00, false},
                 {XCVM_F8E4M3FN, (double)INFINITY, 0x7f, true},
                 {XCVM_F8E4M3FN, -(double)INFINITY, 0xff, true},
                 {XCVM_F8E4M3FNUZ, -(double)INFINITY, 0x80, true},
                 {XCVM_F4E2M1, -(double)INFINITY, 0xf, true},
                 {XCVM_F8E8M0, (double)INFINITY, 0xff, true},
                 {XCVM_F8E8M0, 0x1p127, 0xfe, false},
                 {XCVM_F8E8M0, 0x1.8p127, 0xff, true},
                 {XCVM_F8E8M0, 3, 0x81, false},
                 {XCVM_F8E8M0, -2, 0x80, false},
                 {XCVM_F8E8M0, 0, 0, false},
                 {XCVM_F8E8M0, DBL_MIN / 4, 0, false},
                 {XCVM_F64, 0.1, 0x3fb999999999999a, false},
                 {XCVM_F32, 0.1, 0x3dcccccd, false},
                 {XCVM_F32, 0x1p-149, 1, false},
                 {XCVM_F32, -0x1p-150, 0x80000000, false},
                 {XCVM_F32, 0x1.ffffffp127, 0x7f800000, true},
                 {XCVM_F32, DBL_MAX, 0x7f800000, true},
                 {XCVM_F16, DBL_MIN / 4, 0, false},
                 {XCVM_F8E5M2FNUZ, -0.0, 0, false},
                 {XCVM_F8E5M2, -0.0, 0x80, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool exceeds = !cases[i].exceeds;
        const uint64_t bits = xcvm_float_encode(xcvm_float_format_of(cases[i].dtype), cases[i].value, &exceeds);
        ck_assert_msg(bits == cases[i].bits && exceeds == cases[i].exceeds, "row %zu: %#llx", i,
                      (unsigned long long)bits);
    }
    ck_assert_ptr_null(xcvm_float_format_of(XCVM_I8));
    ck_assert_ptr_null(xcvm_float_format_of(XCVM_C64));
    ck_assert_ptr_null(xcvm_float_format_of(XCVM_NO_DTYPE));
    ck_assert_ptr_null(xcvm_float_format_of((xcvm_dtype)1000));
}
END_TEST

/* NaN keeps its sign where a type has one for it. */
START_TEST(not_numbers)
{
    static const struct {
        xcvm_dtype dtype;
        uint64_t bits, negative;
    } nans[] = {{XCVM_F64, UINT64_C(0x7ff8000000000000), UINT64_C(0xfff8000000000000)},
                {XCVM_F32, 0x7fc00000, 0xffc00000},
                {XCVM_F16, 0x7e00, 0xfe00},
                {XCVM_BF16, 0x7fc0, 0xffc0},
                {XCVM_F24, 0x7fc000, 0xffc000},
                {XCVM_F8E4M3FN, 0x7f, 0xff},
                {XCVM_F8E4M3FNUZ, 0x80, 0x80},
                {XCVM_F8E5M2, 0x7f, 0xff},
                {XCVM_F8E5M2FNUZ, 0x80, 0x80},
                {XCVM_F8E8M0, 0xff, 0xff},
                {XCVM_F4E2M1, 0x8, 0x8}};
    for (size_t i = 0; i < sizeof nans / sizeof *nans; i++) {
        const xcvm_float_format *f = xcvm_float_format_of(nans[i].dtype);
        bool exceeds = true;
        ck_assert_uint_eq(xcvm_float_encode(f, (double)NAN, &exceeds), nans[i].bits);
        ck_assert_uint_eq(xcvm_float_encode(f, -(double)NAN, &exceeds), nans[i].negative);
        ck_assert(!exceeds);
    }
}
END_TEST

/* A power of two is found by trying all. */
START_TEST(powers)
{
    const double values[] = {
        1, 1.25, 1.4999, 1.5, 1.75, 0x1.fffffffffffffp0, 0.75, 0x1.8p-127, 0x1.8p-128, 0x1p-127, 0x1.4p100, 3, 5, 6, 7};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        const double x = values[i];
        int down = 0, up = 0;
        for (int code = 0; code < 255; code++) {
            down = pow(2, code - 127) <= x ? code : down;
            up = pow(2, code - 127) < x ? code + 1 : up;
        }
        const double low = pow(2, down - 127);
        bool exceeds;
        ck_assert_uint_eq(xcvm_power_encode(x, XCVM_POWER_DOWN, &exceeds), (unsigned)down);
        ck_assert_uint_eq(xcvm_power_encode(-x, XCVM_POWER_UP, &exceeds), (unsigned)up);
        ck_assert_uint_eq(xcvm_power_encode(x, XCVM_POWER_NEAREST, &exceeds),
                          (unsigned)(x >= 1.5 * low ? down + 1 : down));
    }
}
END_TEST

/* The conversion of arrays of halves agrees. */
START_TEST(halves_agree)
{
    const xcvm_float_format *f16 = xcvm_float_format_of(XCVM_F16), *bf16 = xcvm_float_format_of(XCVM_BF16),
                            *f24 = xcvm_float_format_of(XCVM_F24);
    bool agree = true, exceeds;
    for (uint32_t bits = 0; bits < 0x10000; bits++) {
        const double half = (double)xcvm_f16_to_f32((uint16_t)bits), brain = (double)xcvm_bf16_to_f32((uint16_t)bits);
        agree = agree && (isnan(half) ? xcvm_float_is_nan(f16, bits) : half == xcvm_float_decode(f16, bits));
        agree = agree && (isnan(brain) ? xcvm_float_is_nan(bf16, bits) : brain == xcvm_float_decode(bf16, bits));
    }
    ck_assert(agree);
    uint32_t word = 12345;
    for (int i = 0; i < 200000; i++) {
        test_random(&word);
        float value;
        memcpy(&value, &word, sizeof value);
        if (isnan(value))
            continue;
        agree = agree && xcvm_float_encode(f16, (double)value, &exceeds) == xcvm_f32_to_f16(value);
        agree = agree && xcvm_float_encode(bf16, (double)value, &exceeds) == xcvm_f32_to_bf16(value);
        char bytes[3];
        xcvm_f32_to_f24(value, bytes);
        const uint64_t code = xcvm_element_get(24, bytes, 0);
        agree = agree && xcvm_float_encode(f24, (double)value, &exceeds) == code;
        agree = agree && xcvm_float_decode(f24, code) == (double)xcvm_f24_to_f32(bytes);
    }
    ck_assert(agree);
}
END_TEST

START_TEST(places)
{
    static const int widths[] = {2, 4, 8, 16, 32, 64};
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
        const int bits = widths[w];
        const uint64_t all = UINT64_MAX >> (64 - bits);
        unsigned char data[64];
        memset(data, 0xff, sizeof data);
        for (size_t i = 0; i < 8; i++) {
            xcvm_element_set(bits, data, i, UINT64_C(0x9e3779b97f4a7c15) * (i + 1));
            ck_assert_uint_eq(xcvm_element_get(bits, data, i), UINT64_C(0x9e3779b97f4a7c15) * (i + 1) & all);
            if (bits < 64)
                ck_assert_uint_eq(xcvm_element_get(bits, data, i + 1), all);
            for (size_t before = 0; before < i; before++)
                ck_assert_uint_eq(xcvm_element_get(bits, data, before),
                                  UINT64_C(0x9e3779b97f4a7c15) * (before + 1) & all);
        }
    }
    const unsigned char packed[] = {0x1b, 0xe4};
    ck_assert_uint_eq(xcvm_element_get(2, packed, 0), 3);
    ck_assert_uint_eq(xcvm_element_get(2, packed, 3), 0);
    ck_assert_uint_eq(xcvm_element_get(4, packed, 2), 4);
    ck_assert_uint_eq(xcvm_element_get(4, packed, 3), 14);
    ck_assert_uint_eq(xcvm_element_get(16, packed, 0), 0xe41b);
}
END_TEST

Suite *suite_base_element(void);
Suite *suite_base_element(void)
{
    Suite *suite = suite_create("base_element");
    TCase *tests = tcase_create("element");
    tcase_add_test(tests, every_pattern_is_its_number);
    tcase_add_test(tests, rounding_is_to_the_nearest);
    tcase_add_test(tests, specials);
    tcase_add_test(tests, not_numbers);
    tcase_add_test(tests, powers);
    tcase_add_test(tests, halves_agree);
    tcase_add_test(tests, places);
    suite_add_tcase(suite, tests);
    return suite;
}
