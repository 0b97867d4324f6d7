/* Support for tests of tapes. */
#ifndef XCVM_TESTS_TAPE_SUPPORT_H
#define XCVM_TESTS_TAPE_SUPPORT_H

#include "tape/tape.h"
#include "tests/suites.h"
#include "tests/support.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DIMS(...)                                                                                                      \
    (const int64_t[]) { __VA_ARGS__ }
#define F32S(...)                                                                                                      \
    (const float[]) { __VA_ARGS__ }

UNUSED static xcvm_tape *open_tape_with(const xcvm_allocator *allocator)
{
    const xcvm_tape_options options = {.size = sizeof options, .threads = 1, .seed = 7, .allocator = allocator};
    xcvm_tape *t;
    xcvm_error error;
    ck_assert_int_eq(xcvm_tape_create(&options, &t, &error), XCVM_OK);
    return t;
}

UNUSED static xcvm_tape *open_tape(void) { return open_tape_with(NULL); }

UNUSED static xcvm_tape *open_lazy_tape(xcvm_batching batching)
{
    const xcvm_tape_options options = {
        .size = sizeof options, .threads = 1, .seed = 7, .mode = XCVM_TAPE_LAZY, .batching = batching};
    xcvm_tape *t;
    xcvm_error error;
    ck_assert_int_eq(xcvm_tape_create(&options, &t, &error), XCVM_OK);
    return t;
}

/* Checks that nothing has failed, and that all element memory is free when every name is gone. */
UNUSED static void close_tape(xcvm_tape *t)
{
    xcvm_error error = {0};
    ck_assert_msg(xcvm_tape_status(t, &error) == XCVM_OK, "%s: %s", error.instruction, error.message);
    xcvm_tape_destroy(t);
}

UNUSED static xcvm_var parameter(xcvm_tape *t, float x) { return xcvm_tape_parameter(t, XCVM_F32, 0, NULL, &x); }
UNUSED static xcvm_var constant(xcvm_tape *t, float x) { return xcvm_tape_constant(t, XCVM_F32, 0, NULL, &x); }
UNUSED static xcvm_var parameter_f64(xcvm_tape *t, double x) { return xcvm_tape_parameter(t, XCVM_F64, 0, NULL, &x); }

UNUSED static void backward_with(xcvm_tape *t, xcvm_var root, const xcvm_backward_options *options)
{
    xcvm_error error = {0};
    ck_assert_msg(xcvm_tape_backward(t, root, options, &error) == XCVM_OK, "%s: %s", error.instruction, error.message);
}
UNUSED static void backward(xcvm_tape *t, xcvm_var root) { backward_with(t, root, NULL); }

UNUSED static const xcvm_value *value_of(xcvm_tape *t, xcvm_var v)
{
    const xcvm_value *value;
    xcvm_error error = {0};
    ck_assert_msg(xcvm_var_get_value(t, v, &value, &error) == XCVM_OK, "%s", error.message);
    return value;
}

UNUSED static void check_f32(xcvm_tape *t, xcvm_var v, size_t count, const float *expected)
{
    const xcvm_value *value = value_of(t, v);
    ck_assert_int_eq(xcvm_value_dtype(value), XCVM_F32);
    ck_assert_uint_eq(xcvm_value_count(value), count);
    for (size_t i = 0; i < count; i++)
        ck_assert_float_eq_tol(((const float *)xcvm_value_data(value))[i], expected[i], 1e-5f);
}
#define CHECK_F32(t, v, ...) check_f32((t), (v), sizeof(F32S(__VA_ARGS__)) / sizeof(float), F32S(__VA_ARGS__))

/* Checks that the tape has a failure, and reports it once. */
UNUSED static void check_failed(xcvm_tape *t, xcvm_status status, const char *message)
{
    xcvm_error error = {0};
    const xcvm_status got = xcvm_tape_status(t, &error);
    ck_assert_msg(got == status && strstr(error.message, message) != NULL, "%d: %s", (int)got, error.message);
    ck_assert_int_eq(xcvm_tape_status(t, &error), XCVM_OK);
}

UNUSED static xcvm_tape_info stats_of(const xcvm_tape *t)
{
    xcvm_tape_info stats = {.size = sizeof stats};
    xcvm_tape_get_info(t, &stats);
    return stats;
}

/* Runs work while one request for memory after the other fails. Each run ends in an error or, with `may_succeed`, does
 * without the memory. Then the same tape can do the work, and all memory is freed. */
typedef struct starvation {
    xcvm_status (*work)(xcvm_tape *tape, xcvm_error *error);
    xcvm_tape_mode mode;
    xcvm_batching batching;
    bool may_succeed;
    size_t every; /* each request up to this one, then each seventh; 0: all */
    size_t least; /* minimum number of requests whose failure is an error */
} starvation;
UNUSED static void starve(const starvation *s)
{
    size_t refused = 0;
    bool more = true;
    for (size_t fail_at = 1; more; fail_at += s->every == 0 || fail_at < s->every ? 1 : 7) {
        test_allocator a;
        xcvm_tape *t = NULL;
        xcvm_error error = {0};
        test_allocator_start(&a, fail_at);
        a.once = true;
        const xcvm_tape_options options = {
            .size = sizeof options, .threads = 1, .mode = s->mode, .batching = s->batching, .allocator = &a.allocator};
        xcvm_status status = xcvm_tape_create(&options, &t, &error);
        if (status == XCVM_OK) {
            status = s->work(t, &error);
            if (status != XCVM_OK)
                ck_assert_msg(s->work(t, &error) == XCVM_OK, "request %zu: %s", fail_at, error.message);
            ck_assert_uint_eq(stats_of(t).variables, 0);
            ck_assert_uint_eq(stats_of(t).recorded, 0);
            xcvm_tape_destroy(t);
        }
        more = a.requests >= fail_at;
        ck_assert_msg(status == (more ? XCVM_OUT_OF_MEMORY : XCVM_OK) || (more && s->may_succeed && status == XCVM_OK),
                      "request %zu: %d %s", fail_at, (int)status, error.message);
        refused += status != XCVM_OK;
        ck_assert_uint_eq(a.live, 0);
    }
    ck_assert_uint_ge(refused, s->least);
}

#endif
