/* Support for tests with f64 numbers and vectors on a tape. */
#ifndef XCVM_TESTS_TAPE_F64_SUPPORT_H
#define XCVM_TESTS_TAPE_F64_SUPPORT_H

#include "tests/tape/support.h"

#define OK(call)                                                                                                       \
    do {                                                                                                               \
        xcvm_error ok_error = {0}, *const ok = &ok_error;                                                              \
        ck_assert_msg((call) == XCVM_OK, "%s: %s", ok_error.instruction, ok_error.message);                            \
    } while (0)

static xcvm_var f64s(xcvm_tape *t, size_t count, const double *data)
{
    return xcvm_var_keep(t, xcvm_tape_constant(t, XCVM_F64, 1, DIMS((int64_t)count), data));
}
#define F64S(t, ...) f64s((t), sizeof((double[]){__VA_ARGS__}) / 8, (double[]){__VA_ARGS__})

static void check_f64(xcvm_tape *t, xcvm_var v, size_t count, const double *expected)
{
    const xcvm_value *value = value_of(t, v);
    ck_assert_int_eq(xcvm_value_dtype(value), XCVM_F64);
    ck_assert_uint_eq(xcvm_value_count(value), count);
    for (size_t i = 0; i < count; i++)
        ck_assert_double_eq_tol(((const double *)xcvm_value_data(value))[i], expected[i], 1e-9);
}
#define CHECK_F64(t, v, ...) check_f64((t), (v), sizeof((double[]){__VA_ARGS__}) / 8, (double[]){__VA_ARGS__})

static xcvm_var number(xcvm_tape *t, double x) { return xcvm_tape_scalar(t, XCVM_F64, x); }

#endif
