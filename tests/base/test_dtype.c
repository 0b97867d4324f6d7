/* Tests of element types and their conversions. */
#include "base/dtype.h"

#include <check.h>
#include <math.h>

START_TEST(names)
{
#define CHECK_NAME(name, number, text, bits)                                                                           \
    ck_assert_str_eq(xcvm_dtype_name(XCVM_##name), text);                                                              \
    ck_assert_int_eq(xcvm_dtype_from_name(text), XCVM_##name);                                                         \
    ck_assert_int_eq(xcvm_dtype_bits(XCVM_##name), bits);
    XCVM_DTYPE_LIST(CHECK_NAME)
    ck_assert_str_eq(xcvm_dtype_name(XCVM_NO_DTYPE), "?");
    ck_assert_str_eq(xcvm_dtype_name((xcvm_dtype)27), "?");
    ck_assert_int_eq(xcvm_dtype_bits((xcvm_dtype)200), 0);
    ck_assert_int_eq(xcvm_dtype_from_name("f33"), XCVM_NO_DTYPE);
    ck_assert_uint_eq(xcvm_dtype_size(XCVM_I4), 0);
    ck_assert_uint_eq(xcvm_dtype_size(XCVM_C128), 16);
}
END_TEST

START_TEST(sets)
{
    char text[16];
    /* ONNX owns the numbers below 100; a type has one bit, whatever its number. */
    xcvm_dtypes seen = 0;
#define CHECK_BIT(name, number, string, bits)                                                                          \
    ck_assert_uint_eq(seen &XCVM_DTYPE_BIT(name), 0);                                                                  \
    seen |= XCVM_DTYPE_BIT(name);                                                                                      \
    ck_assert(xcvm_dtype_in(XCVM_##name, XCVM_DTYPE_BIT(name)));
    XCVM_DTYPE_LIST(CHECK_BIT)
    ck_assert_int_ge(XCVM_F24, 100);
    ck_assert_str_eq(xcvm_dtypes_describe(XCVM_DTYPE_BIT(F24) | XCVM_TYPES_F32, text, sizeof text), "f32 f24");
    ck_assert_str_eq(xcvm_dtypes_describe(XCVM_TYPES_INDEX, text, sizeof text), "i32 i64");
    ck_assert_str_eq(xcvm_dtypes_describe(0, text, sizeof text), "");
    /* Text that does not fit is cut off. */
    xcvm_dtypes_describe(XCVM_TYPES_ANY, text, sizeof text);
    ck_assert_uint_lt(strlen(text), sizeof text);
    ck_assert(xcvm_dtype_is_float(XCVM_BF16));
    ck_assert(!xcvm_dtype_is_float(XCVM_I32));
}
END_TEST

/* The half nearest to a value, ties to even, found by trying all. */
static uint16_t nearest_half(float value)
{
    uint16_t best = 0;
    double distance = INFINITY;
    for (uint32_t h = 0; h < 0x7c00; h++) {
        double d = fabs((double)xcvm_f16_to_f32((uint16_t)h) - fabs((double)value));
        if (d < distance || (d == distance && h % 2 == 0)) {
            distance = d;
            best = (uint16_t)h;
        }
    }
    return (uint16_t)(best | (signbit(value) ? 0x8000 : 0));
}

START_TEST(halves)
{
    bool exact = true;
    /* Every half is converted to a float and back. */
    for (uint32_t h = 0; h < 0x10000; h++) {
        float value = xcvm_f16_to_f32((uint16_t)h);
        if ((h & 0x7fff) > 0x7c00)
            exact = exact && isnan(value) && isnan(xcvm_f16_to_f32(xcvm_f32_to_f16(value)));
        else
            exact = exact && xcvm_f32_to_f16(value) == h;
    }
    ck_assert(exact);
    const float values[] = {0.1f,     -1.0f / 3, 65504,      65519,      2.0f,         1.00048828125f, 1.00146484375f,
                            0x1p-24f, 0x1p-25f,  0x1.8p-25f, 0x1.8p-24f, 0x1.004p-15f, 6.1e-5f,        -3e-7f};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        ck_assert_uint_eq(xcvm_f32_to_f16(values[i]), nearest_half(values[i]));
    ck_assert_uint_eq(xcvm_f32_to_f16(65520), 0x7c00);
    ck_assert_uint_eq(xcvm_f32_to_f16(-INFINITY), 0xfc00);
    ck_assert_uint_eq(xcvm_f32_to_f16(-0.0f), 0x8000);
    ck_assert_float_eq(xcvm_f16_to_f32(1), 0x1p-24f);
}
END_TEST

START_TEST(brain_floats)
{
    ck_assert_uint_eq(xcvm_f32_to_bf16(1.0f), 0x3f80);
    ck_assert_float_eq(xcvm_bf16_to_f32(0xc040), -3.0f);
    /* Ties go to even, and the greatest float to infinity. */
    ck_assert_uint_eq(xcvm_f32_to_bf16(0x1.01p0f), 0x3f80);
    ck_assert_uint_eq(xcvm_f32_to_bf16(0x1.03p0f), 0x3f82);
    ck_assert_uint_eq(xcvm_f32_to_bf16(0x1.fffffep127f), 0x7f80);
    uint32_t narrow_nan = 0x7f800001;
    float nan_value;
    memcpy(&nan_value, &narrow_nan, sizeof nan_value);
    ck_assert(isnan(xcvm_bf16_to_f32(xcvm_f32_to_bf16(nan_value))));
    bool exact = true;
    for (uint32_t h = 0; h < 0x10000; h++)
        if (!isnan(xcvm_bf16_to_f32((uint16_t)h)))
            exact = exact && xcvm_f32_to_bf16(xcvm_bf16_to_f32((uint16_t)h)) == h;
    ck_assert(exact);
}
END_TEST

Suite *suite_base_dtype(void);
Suite *suite_base_dtype(void)
{
    Suite *suite = suite_create("base_dtype");
    TCase *tests = tcase_create("dtype");
    tcase_add_test(tests, names);
    tcase_add_test(tests, sets);
    tcase_add_test(tests, halves);
    tcase_add_test(tests, brain_floats);
    suite_add_tcase(suite, tests);
    return suite;
}
