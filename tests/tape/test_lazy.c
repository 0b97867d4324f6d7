/* Tests of lazy tapes: evaluation, elements read, and failures. */
#include "tests/tape/support.h"

static xcvm_tape *open_lazy_with(const xcvm_allocator *allocator)
{
    const xcvm_tape_options options = {
        .size = sizeof options, .threads = 1, .seed = 7, .mode = XCVM_TAPE_LAZY, .allocator = allocator};
    xcvm_tape *t;
    xcvm_error error;
    ck_assert_int_eq(xcvm_tape_create(&options, &t, &error), XCVM_OK);
    return t;
}

static xcvm_tape *open_lazy(void) { return open_lazy_with(NULL); }

/* The names of the ops that have run. */
typedef struct call_log {
    char names[512];
} call_log;

static void log_call(void *user, const xcvm_call_event *event)
{
    call_log *l = user;
    if (event->done && strlen(l->names) + strlen(event->name) + 2 < sizeof l->names) {
        strcat(l->names, event->name);
        strcat(l->names, " ");
    }
}

static void check_ran(call_log *l, const char *names)
{
    ck_assert_str_eq(l->names, names);
    l->names[0] = '\0';
}

static void forward(xcvm_tape *t, xcvm_var v)
{
    xcvm_error error = {0};
    ck_assert_msg(xcvm_tape_forward(t, v, &error) == XCVM_OK, "%s: %s", error.instruction, error.message);
}

START_TEST(c4_3_only_what_is_new_and_needed)
{
    xcvm_tape *t = open_lazy();
    call_log l = {""};
    xcvm_tape_set_observer(t, &(xcvm_tape_observer){log_call, &l});
    const xcvm_var x = parameter(t, 2), y = xcvm_Exp(t, x), z = xcvm_Sin(t, x), u = xcvm_Mul(t, y, y);
    const xcvm_var both = xcvm_Add(t, u, z);
    check_ran(&l, "");
    ck_assert_float_eq_tol((float)xcvm_var_get_number(t, u), expf(4), 1e-3f);
    check_ran(&l, "Exp Mul ");
    ck_assert_float_eq_tol((float)xcvm_var_get_number(t, both), expf(4) + sinf(2), 1e-3f);
    check_ran(&l, "Sin Add ");
    forward(t, both);
    check_ran(&l, "");
    /* All ops. */
    xcvm_Cos(t, x);
    xcvm_Tanh(t, y);
    forward(t, XCVM_ABSENT);
    check_ran(&l, "Cos Tanh ");
    /* Unreachable ops are not evaluated. */
    xcvm_var_release(t, xcvm_Sqrt(t, x));
    forward(t, XCVM_ABSENT);
    check_ran(&l, "");
    close_tape(t);
}
END_TEST

START_TEST(c4_3_types_are_checked_at_once)
{
    xcvm_tape *t = open_lazy();
    const xcvm_var x = xcvm_tape_parameter(t, XCVM_F32, 1, DIMS(3), NULL);
    const xcvm_var y = xcvm_tape_parameter(t, XCVM_F32, 1, DIMS(2), NULL);
    const xcvm_var good = xcvm_Exp(t, x), bad = xcvm_Add(t, good, xcvm_Exp(t, y));
    ck_assert_ptr_null(bad.at);
    xcvm_error error;
    ck_assert_int_eq(xcvm_tape_status(t, &error), XCVM_SHAPE_MISMATCH);
    ck_assert_int_eq(error.pc, 2);
    ck_assert_str_eq(error.instruction, "Add");
    CHECK_F32(t, good, 1, 1, 1);
    close_tape(t);
}
END_TEST

/* A kernel that fails during evaluation names the op. Its operands stay, and it can run again. */
START_TEST(c4_3_failures_name_the_call)
{
    xcvm_tape *t = open_lazy();
    xcvm_error error;
    const xcvm_value *value;
    const xcvm_var x = xcvm_tape_parameter(t, XCVM_F32, 1, DIMS(3), F32S(1, 2, 3));
    const xcvm_var where = xcvm_tape_constant(t, XCVM_I64, 1, DIMS(1), DIMS(9));
    const xcvm_var picked = xcvm_Gather(t, x, where), after = xcvm_Exp(t, picked);
    ck_assert_int_eq(xcvm_tape_status(t, &error), XCVM_OK);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(xcvm_var_get_value(t, after, &value, &error), XCVM_OUT_OF_RANGE);
        ck_assert_str_eq(error.instruction, "Gather");
        ck_assert_int_eq(error.pc, 0);
    }
    ck_assert_int_eq(xcvm_tape_backward(t, xcvm_ReduceSum(t, after), NULL, &error), XCVM_OUT_OF_RANGE);
    ck_assert_str_eq(error.instruction, "Gather");
    ck_assert_int_eq(xcvm_var_set_data(t, where, DIMS(2), sizeof(int64_t), &error), XCVM_OK);
    CHECK_F32(t, after, expf(3));
    close_tape(t);
}
END_TEST

/* An op reads the elements that were set before it runs. Evaluated ops run again after invalidation. */
START_TEST(c4_2_set_values_are_read_again)
{
    xcvm_tape *t = open_lazy();
    xcvm_error error;
    const xcvm_var w = parameter(t, 3), x = constant(t, 1), y = xcvm_Mul(t, w, x), z = xcvm_Mul(t, y, y);
    const float two = 2, five = 5;
    ck_assert_int_eq(xcvm_var_set_data(t, x, &two, sizeof two, &error), XCVM_OK);
    CHECK_F32(t, z, 36);
    ck_assert_int_eq(xcvm_var_set_data(t, x, &five, sizeof five, &error), XCVM_OK);
    CHECK_F32(t, z, 36);
    /* The gradient would be of the elements that were read, which are gone. */
    const xcvm_backward_options retain = {.size = sizeof retain, .retain_graph = true};
    ck_assert_int_eq(xcvm_tape_backward(t, z, &retain, &error), XCVM_INVALID_ARGUMENT);
    ck_assert_msg(strstr(error.message, "overwritten") != NULL, "%s", error.message);
    xcvm_tape_invalidate(t);
    CHECK_F32(t, z, 225);
    backward_with(t, z, &retain);
    CHECK_F32(t, xcvm_var_get_gradient(t, w), 150);
    close_tape(t);
}
END_TEST

/* Operands that determine a shape are evaluated at once, and stay. A waiting op does not run with another shape. */
START_TEST(shapes_stay)
{
    xcvm_tape *t = open_lazy();
    xcvm_error error;
    const xcvm_value *value;
    const xcvm_var x = xcvm_tape_parameter(t, XCVM_F32, 1, DIMS(6), F32S(1, 2, 3, 4, 5, 6));
    const xcvm_var rows = xcvm_tape_constant(t, XCVM_I64, 1, DIMS(2), DIMS(2, 3));
    const xcvm_var y = xcvm_Exp(t, xcvm_Expand(t, x, xcvm_Mul(t, rows, rows)));
    check_failed(t, XCVM_SHAPE_MISMATCH, "broadcast");
    (void)y;
    const xcvm_var shape = xcvm_tape_constant(t, XCVM_I64, 1, DIMS(2), DIMS(2, 6)), wide = xcvm_Expand(t, x, shape);
    ck_assert_int_eq(xcvm_var_set_data(t, shape, DIMS(900, 6), 2 * sizeof(int64_t), &error), XCVM_OK);
    ck_assert_int_eq(xcvm_var_get_value(t, wide, &value, &error), XCVM_INVALID_ARGUMENT);
    ck_assert_str_eq(error.instruction, "Expand");
    ck_assert_str_eq(error.message, "shape, which decides the shape, was overwritten since the call was made");
    /* A computed one is not computed again. */
    const xcvm_var count = xcvm_tape_constant(t, XCVM_I64, 1, DIMS(2), DIMS(1, 3));
    const xcvm_var grown =
        xcvm_Expand(t, x, xcvm_Mul(t, count, xcvm_tape_constant(t, XCVM_I64, 1, DIMS(2), DIMS(2, 2))));
    ck_assert_uint_eq(xcvm_value_count(value_of(t, grown)), 12);
    ck_assert_int_eq(xcvm_var_set_data(t, count, DIMS(900, 3), 2 * sizeof(int64_t), &error), XCVM_OK);
    xcvm_tape_invalidate(t);
    ck_assert_uint_eq(xcvm_value_count(value_of(t, grown)), 12);
    close_tape(t);
}
END_TEST

static void take_exponential(void *user, xcvm_tape *t, size_t count, xcvm_var *results)
{
    (void)count;
    results[0] = xcvm_Exp(t, *(const xcvm_var *)user);
}

START_TEST(what_cannot_wait)
{
    xcvm_tape *t = open_lazy();
    call_log l = {""};
    xcvm_tape_set_observer(t, &(xcvm_tape_observer){log_call, &l});
    const xcvm_var x = xcvm_tape_parameter(t, XCVM_F32, 1, DIMS(3), F32S(1, 0, 2)), y = xcvm_Relu(t, x);
    const xcvm_var found = xcvm_NonZero(t, y);
    check_ran(&l, "Relu NonZero ");
    ck_assert_uint_eq(xcvm_value_count(value_of(t, found)), 2);
    xcvm_var result, z = xcvm_Neg(t, x);
    xcvm_tape_if(t, xcvm_Less(t, constant(t, 1), constant(t, 2)), (xcvm_tape_branch){take_exponential, &z},
                 (xcvm_tape_branch){take_exponential, &z}, 1, &result);
    check_ran(&l, "Less ");
    CHECK_F32(t, result, expf(-1), 1, expf(-2));
    check_ran(&l, "Neg Exp ");
    /* In place: readers of the old elements have read them. */
    const xcvm_var c = constant(t, 4), before = xcvm_Sqrt(t, c);
    xcvm_Mul(t, c, c, .into = c);
    CHECK_F32(t, before, 2);
    CHECK_F32(t, xcvm_Sqrt(t, c), 4);
    /* A detached constant and kept variables have elements until the end. */
    const xcvm_var detached = xcvm_var_detach(t, xcvm_Add(t, c, c)), kept = xcvm_var_keep(t, xcvm_Sub(t, x, c));
    CHECK_F32(t, detached, 32);
    xcvm_tape_reset(t);
    CHECK_F32(t, kept, -15, -16, -14);
    ck_assert(!xcvm_var_requires_gradient(t, kept));
    xcvm_error error;
    xcvm_tape_set_recording(t, false);
    const xcvm_var made = xcvm_Add(t, kept, kept);
    xcvm_tape_set_recording(t, true);
    ck_assert_int_eq(xcvm_var_set_requires_gradient(t, made, true, &error), XCVM_OK);
    backward(t, xcvm_ReduceSum(t, xcvm_Mul(t, made, made)));
    CHECK_F32(t, xcvm_var_get_gradient(t, made), -60, -64, -56);
    close_tape(t);
}
END_TEST

/* Random numbers equal those of an eager tape, in any order of evaluation. */
START_TEST(random_numbers_are_those_of_the_call)
{
    xcvm_tape *tapes[] = {open_tape(), open_lazy()};
    float drawn[2][2][4];
    for (int i = 0; i < 2; i++) {
        xcvm_tape *t = tapes[i];
        const xcvm_var ones = xcvm_tape_constant(t, XCVM_F32, 1, DIMS(4), F32S(1, 1, 1, 1));
        const xcvm_var training = xcvm_tape_scalar(t, XCVM_BOOL, 1);
        /* Outside of training Dropout draws nothing. */
        const xcvm_var first = xcvm_Dropout(t, ones, .training_mode = training);
        xcvm_Dropout(t, ones);
        const xcvm_var second = xcvm_Dropout(t, xcvm_Add(t, ones, first), .training_mode = training);
        memcpy(drawn[i][1], xcvm_value_data(value_of(t, second)), sizeof drawn[i][1]);
        memcpy(drawn[i][0], xcvm_value_data(value_of(t, first)), sizeof drawn[i][0]);
        close_tape(t);
    }
    ck_assert_mem_eq(drawn[0], drawn[1], sizeof drawn[0]);
}
END_TEST

static xcvm_var cube(void *user, xcvm_tape *t, size_t count, const xcvm_var *xs)
{
    (void)user;
    (void)count;
    return xcvm_Mul(t, xcvm_Mul(t, xs[0], xs[0]), xs[0]);
}

START_TEST(gradients)
{
    xcvm_tape *t = open_lazy();
    xcvm_error error;
    const xcvm_var x = parameter(t, 2);
    const xcvm_backward_options create = {.size = sizeof create, .create_graph = true};
    xcvm_var value, gradient, again, y = xcvm_Mul(t, xcvm_Exp(t, x), x);
    ck_assert_int_eq(xcvm_tape_gradients(t, 1, &y, NULL, 1, &x, &create, &gradient, &error), XCVM_OK);
    CHECK_F32(t, gradient, 3 * expf(2));
    ck_assert_int_eq(xcvm_tape_gradients(t, 1, &gradient, NULL, 1, &x, NULL, &again, &error), XCVM_OK);
    CHECK_F32(t, again, 4 * expf(2));
    ck_assert_int_eq(xcvm_tape_vector_jacobian_product(t, (xcvm_tape_function){cube, NULL}, 1, &x, XCVM_ABSENT, &value,
                                                       &gradient, &error),
                     XCVM_OK);
    CHECK_F32(t, value, 8);
    CHECK_F32(t, gradient, 12);
    const xcvm_gradient_check_options check = {.size = sizeof check, .order = 2};
    const xcvm_var d = parameter_f64(t, 0.7);
    ck_assert_int_eq(xcvm_tape_check_gradients(t, (xcvm_tape_function){cube, NULL}, 1, &d, &check, &error), XCVM_OK);
    /* A variable whose op has no gradient has none itself. */
    const xcvm_var step = xcvm_Sign(t, x), z = xcvm_Mul(t, step, x);
    ck_assert_int_eq(xcvm_tape_gradients(t, 1, &z, NULL, 1, &step, NULL, &gradient, &error), XCVM_OK);
    CHECK_F32(t, gradient, 2);
    close_tape(t);
}
END_TEST

static xcvm_status one_step(xcvm_tape *t, xcvm_error *error)
{
    const xcvm_var w = xcvm_tape_parameter(t, XCVM_F32, 2, DIMS(3, 3), NULL);
    const xcvm_var x = xcvm_tape_constant(t, XCVM_F32, 2, DIMS(2, 3), F32S(1, 2, 3, 4, 5, 6));
    xcvm_status status = xcvm_tape_checkpoint(t, error);
    const xcvm_var kept = xcvm_var_keep(t, xcvm_Exp(t, xcvm_MatMul(t, x, w)));
    if (status == XCVM_OK)
        status = xcvm_tape_revert(t, error);
    if (status == XCVM_OK)
        status =
            xcvm_tape_backward(t, xcvm_ReduceSum(t, xcvm_Tanh(t, xcvm_MatMul(t, x, w)), .keepdims = 0), NULL, error);
    const xcvm_status rest = xcvm_tape_status(t, status == XCVM_OK ? error : NULL);
    status = status == XCVM_OK ? rest : status;
    xcvm_var_release(t, kept);
    xcvm_var_release(t, w);
    xcvm_tape_reset(t);
    (void)xcvm_tape_status(t, NULL);
    return status;
}

START_TEST(out_of_memory_anywhere) { starve(&(starvation){.work = one_step, .mode = XCVM_TAPE_LAZY, .least = 10}); }
END_TEST

/* A long chain is evaluated without recursion. */
START_TEST(long_chains)
{
    xcvm_tape *t = open_lazy();
    const xcvm_var w = parameter(t, 1), one = constant(t, 1);
    xcvm_var x = w;
    for (int i = 0; i < 200000; i++)
        x = xcvm_Add(t, x, one);
    backward(t, x);
    CHECK_F32(t, x, 200001);
    CHECK_F32(t, xcvm_var_get_gradient(t, w), 1);
    close_tape(t);
}
END_TEST

Suite *suite_tape_lazy(void);
Suite *suite_tape_lazy(void)
{
    return SUITE_OF("tape_lazy", c4_3_only_what_is_new_and_needed, c4_3_types_are_checked_at_once,
                    c4_3_failures_name_the_call, c4_2_set_values_are_read_again, shapes_stay, what_cannot_wait,
                    random_numbers_are_those_of_the_call, gradients, out_of_memory_anywhere, long_chains);
}
