/* Tests of checkpoints on eager and lazy tapes. */
#include "tests/tape/support.h"

static xcvm_tape *open_mode(xcvm_tape_mode mode)
{
    const xcvm_tape_options options = {.size = sizeof options, .threads = 1, .mode = mode};
    xcvm_tape *t;
    xcvm_error error;
    ck_assert_int_eq(xcvm_tape_create(&options, &t, &error), XCVM_OK);
    return t;
}

static void checkpoint(xcvm_tape *t)
{
    xcvm_error error = {0};
    ck_assert_msg(xcvm_tape_checkpoint(t, &error) == XCVM_OK, "%s", error.message);
}

static void revert(xcvm_tape *t)
{
    xcvm_error error = {0};
    ck_assert_msg(xcvm_tape_revert(t, &error) == XCVM_OK, "%s", error.message);
}

static const xcvm_tape_mode modes[] = {XCVM_TAPE_EAGER, XCVM_TAPE_LAZY};

START_TEST(c4_1_revert_drops_what_is_since)
{
    xcvm_tape *t = open_mode(modes[_i]);
    const xcvm_var x = xcvm_tape_parameter(t, XCVM_F32, 1, DIMS(1000), NULL), y = xcvm_Exp(t, x);
    value_of(t, y);
    checkpoint(t);
    const xcvm_tape_info before = stats_of(t);
    xcvm_var z = xcvm_Mul(t, y, y);
    for (int i = 0; i < 10; i++)
        z = xcvm_Tanh(t, z);
    value_of(t, z);
    const xcvm_var unasked = xcvm_Sin(t, z);
    ck_assert_uint_gt(stats_of(t).live_bytes, before.live_bytes);
    revert(t);
    const xcvm_tape_info after = stats_of(t);
    ck_assert_uint_eq(after.live_bytes, before.live_bytes);
    ck_assert_uint_eq(after.variables, before.variables);
    ck_assert_uint_eq(after.recorded, before.recorded);
    xcvm_Exp(t, z);
    check_failed(t, XCVM_INVALID_ARGUMENT, "x is stale");
    xcvm_Exp(t, unasked);
    check_failed(t, XCVM_INVALID_ARGUMENT, "x is stale");
    backward(t, xcvm_ReduceSum(t, y));
    ck_assert_float_eq(((const float *)xcvm_value_data(value_of(t, xcvm_var_get_gradient(t, x))))[999], 1);
    close_tape(t);
}
END_TEST

START_TEST(c4_1_checkpoints_nest)
{
    xcvm_tape *t = open_mode(modes[_i]);
    xcvm_error error;
    const xcvm_var x = parameter(t, 2);
    checkpoint(t);
    const xcvm_var y = xcvm_Mul(t, x, x);
    checkpoint(t);
    const xcvm_var z = xcvm_Mul(t, y, x);
    CHECK_F32(t, z, 8);
    revert(t);
    CHECK_F32(t, y, 4);
    checkpoint(t);
    const xcvm_var u = xcvm_Add(t, y, x);
    CHECK_F32(t, u, 6);
    revert(t);
    revert(t);
    xcvm_Neg(t, y);
    check_failed(t, XCVM_INVALID_ARGUMENT, "x is stale");
    ck_assert_uint_eq(stats_of(t).variables, 1);
    ck_assert_int_eq(xcvm_tape_revert(t, &error), XCVM_INVALID_ARGUMENT);
    ck_assert_str_eq(error.message, "there is no checkpoint to go back to");
    checkpoint(t);
    xcvm_tape_reset(t);
    ck_assert_int_eq(xcvm_tape_revert(t, &error), XCVM_INVALID_ARGUMENT);
    close_tape(t);
}
END_TEST

/* Ops that were called before and evaluated since stay. Kept variables and parameters stay, and become constants if
 * ops made them. */
START_TEST(c4_1_what_stays)
{
    xcvm_tape *t = open_mode(modes[_i]);
    const xcvm_var x = parameter(t, 0), y = xcvm_Exp(t, x);
    checkpoint(t);
    const xcvm_var z = xcvm_Mul(t, y, y), kept = xcvm_var_keep(t, xcvm_Add(t, z, x)), p = parameter(t, 5);
    value_of(t, z);
    revert(t);
    CHECK_F32(t, kept, 1);
    ck_assert(!xcvm_var_requires_gradient(t, kept));
    const xcvm_var loss = xcvm_Mul(t, xcvm_Mul(t, y, p), kept);
    backward(t, loss);
    CHECK_F32(t, xcvm_var_get_gradient(t, p), 1);
    CHECK_F32(t, xcvm_var_get_gradient(t, x), 5);
    close_tape(t);
}
END_TEST

/* A decoder that tries continuations of one state repeatedly needs no more memory. */
START_TEST(c4_1_a_search_does_not_grow)
{
    xcvm_tape *t = open_mode(modes[_i]);
    const xcvm_var w = parameter(t, 0.5f), state = xcvm_Tanh(t, w);
    value_of(t, state);
    size_t bytes = 0;
    for (int i = 0; i < 1000; i++) {
        checkpoint(t);
        xcvm_var h = state;
        for (int k = 0; k < 20; k++)
            h = xcvm_Tanh(t, xcvm_Mul(t, h, w));
        ck_assert(!isnan(xcvm_var_get_number(t, h)));
        revert(t);
        if (i == 10)
            bytes = stats_of(t).total_bytes;
    }
    ck_assert_uint_eq(stats_of(t).total_bytes, bytes);
    ck_assert_uint_eq(stats_of(t).variables, 2);
    close_tape(t);
}
END_TEST

static xcvm_var revert_in_hook(void *user, xcvm_tape *t, xcvm_var gradient)
{
    xcvm_error error;
    (void)gradient;
    *(xcvm_status *)user = xcvm_tape_revert(t, &error);
    return XCVM_ABSENT;
}

START_TEST(not_in_a_backward)
{
    xcvm_tape *t = open_mode(modes[_i]);
    xcvm_error error;
    xcvm_status got = XCVM_OK;
    checkpoint(t);
    const xcvm_var x = parameter(t, 2);
    ck_assert_int_eq(xcvm_var_add_hook(t, x, (xcvm_gradient_hook){revert_in_hook, &got}, &error), XCVM_OK);
    backward(t, xcvm_Mul(t, x, x));
    ck_assert_int_eq(got, XCVM_INVALID_ARGUMENT);
    revert(t);
    close_tape(t);
}
END_TEST

Suite *suite_tape_checkpoint(void);
Suite *suite_tape_checkpoint(void)
{
    Suite *suite = suite_create("tape_checkpoint");
    TCase *tcase = tcase_create("tape_checkpoint");
    tcase_add_loop_test(tcase, c4_1_revert_drops_what_is_since, 0, 2);
    tcase_add_loop_test(tcase, c4_1_checkpoints_nest, 0, 2);
    tcase_add_loop_test(tcase, c4_1_what_stays, 0, 2);
    tcase_add_loop_test(tcase, c4_1_a_search_does_not_grow, 0, 2);
    tcase_add_loop_test(tcase, not_in_a_backward, 0, 2);
    suite_add_tcase(suite, tcase);
    return suite;
}
